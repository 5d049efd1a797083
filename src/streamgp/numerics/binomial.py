"""The binomial distribution by its special functions, as `scipy.stats` has it: that module takes half a second."""

import math
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrik


def binomial_cdf(count: Any, trials: Any, share: float) -> Any:
    """Return the probability of at most so many successes; none where `count` is below 0."""
    return np.where(np.asarray(count) < 0, 0.0, bdtr(np.maximum(count, 0), trials, share))


def binomial_quantile(level: float, trials: int, share: float) -> int:
    """Return the smallest count up to which the probability is `level` or more."""
    above = math.ceil(bdtrik(level, trials, share)) if trials else 0
    below = max(above - 1, 0)
    return below if bdtr(below, trials, share) >= level else above


def wilson_interval(count: int, trials: int, deviations: float = 1.959963984540054) -> tuple[float, float]:
    """Return Wilson's interval of a share that was met `count` times; by default one of 95%."""
    square = deviations**2
    centre = (count + square / 2.0) / (trials + square)
    half = deviations / (trials + square) * math.sqrt(count * (trials - count) / trials + square / 4.0)
    return max(centre - half, 0.0), min(centre + half, 1.0)
