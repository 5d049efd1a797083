"""Ranks of numbers, as `scipy.stats.rankdata` gives them: that module takes half a second to import."""

import numpy as np
from jaxtyping import Float


def average_ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the ranks of numbers from 1; equal ones share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[group]
