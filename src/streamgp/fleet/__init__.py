"""Fleets: a model for each of many keyed streams, in arrays of all keys that one row of each goes through at once.

What lives here: frames and their checks (`frames`, `directory`), what a key's row goes through (`scales`, `features`,
`experts`, `model`), what the keys have in common (`warmup`, `prior`, `pooling`), what holds their states
(`local_keys`, `hibernating_keys`, `ray_keys`), and the fleet itself (`engine`, `forecasts`, `shards`, `evaluation`).
What does not: the models of single streams, which are far larger.
"""

from streamgp.fleet.evaluation import FleetEvaluation
from streamgp.fleet.fleet import StreamingGPFleet

__all__ = ["FleetEvaluation", "StreamingGPFleet"]
