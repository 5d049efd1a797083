"""Optimising what moves: time-varying Gaussian-process bandits with ask and tell."""

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
