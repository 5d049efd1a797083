"""Optimisation of functions that change with time: Gaussian-process bandits with ask and tell."""

from typing import TYPE_CHECKING

from streamgp.on_demand import on_demand

if TYPE_CHECKING:
    from streamgp.bandits.confidence import (
        beta,
        discount,
        information_gain,
        restart_length,
        sparq_queries,
        sparq_rate,
        window_length,
    )
    from streamgp.bandits.memory import METHODS, memory_of
    from streamgp.bandits.optimizer import TimeVaryingOptimizer
    from streamgp.bandits.parameters import Choice, Integer, Real
    from streamgp.bandits.queries import Budget
    from streamgp.bandits.space import Box, Candidates, as_space

_HOMES = {
    "beta": "streamgp.bandits.confidence",
    "discount": "streamgp.bandits.confidence",
    "information_gain": "streamgp.bandits.confidence",
    "restart_length": "streamgp.bandits.confidence",
    "sparq_queries": "streamgp.bandits.confidence",
    "sparq_rate": "streamgp.bandits.confidence",
    "window_length": "streamgp.bandits.confidence",
    "METHODS": "streamgp.bandits.memory",
    "memory_of": "streamgp.bandits.memory",
    "TimeVaryingOptimizer": "streamgp.bandits.optimizer",
    "Choice": "streamgp.bandits.parameters",
    "Integer": "streamgp.bandits.parameters",
    "Real": "streamgp.bandits.parameters",
    "Budget": "streamgp.bandits.queries",
    "Box": "streamgp.bandits.space",
    "Candidates": "streamgp.bandits.space",
    "as_space": "streamgp.bandits.space",
}
__all__ = [
    "METHODS",
    "Box",
    "Budget",
    "Candidates",
    "Choice",
    "Integer",
    "Real",
    "TimeVaryingOptimizer",
    "as_space",
    "beta",
    "discount",
    "information_gain",
    "memory_of",
    "restart_length",
    "sparq_queries",
    "sparq_rate",
    "window_length",
]

__getattr__ = on_demand(__name__, _HOMES)
