"""Fleets: a model for each of many keyed streams, in arrays of all keys that one row of each goes through at once.

What lives here: frames and their checks (`frames`, `directory`), what a key's row goes through (`scales`, `features`,
`experts`, `model`), what the keys have in common (`warmup`, `prior`, `pooling`), and the fleet on this machine
(`engine`, `forecasts`, `shards`). What does not: the models of single streams, which are far larger.
"""

from streamgp.fleet.fleet import StreamingGPFleet
from streamgp.fleet.outputs import FleetEvaluation

__all__ = ["FleetEvaluation", "StreamingGPFleet"]
