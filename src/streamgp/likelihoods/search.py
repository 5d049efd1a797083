"""Quantiles of many distributions at once, by their distribution functions alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

Below = Callable[[Any, Any], Any]
"""The probabilities of targets of y or less: of rows, by their numbers, and a y for each."""
# No target is looked for beyond.
_FARTHEST = 1e300
# How near the ends of a bracket come, relatively, where targets are no whole numbers.
_NARROW = 1e-10
# After so many steps, the others halve the bracket.
_AIMED = 8


def least_count(
    below: Below, probability: float, mean: Float[np.ndarray, " n"], variance: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return, of each row, the least whole number from zero whose distribution function is no less than this.

    The search sets out from what a normal distribution would have, doubles its steps until the number is between
    two others, and then takes the number that a line through their normal scores points at, or the one in the middle.
    """
    n = len(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        guess = np.floor(mean + ndtri(min(max(probability, 1e-12), 1.0 - 1e-12)) * np.sqrt(variance))
    y = np.clip(np.where(np.isfinite(guess), guess, 0.0), 0.0, _FARTHEST)
    low, high = np.full(n, -1.0), np.full(n, np.inf)
    scores = np.full((2, n), np.nan)  # of the ends of the bracket
    stride = np.maximum(1.0, np.floor(0.25 * np.sqrt(np.where(np.isfinite(variance), variance, 1.0))))
    rows, steps = np.arange(n), 0
    while len(rows):
        share = below(rows, y)
        less = share < probability
        with np.errstate(divide="ignore"):
            score = ndtri(share)
        low[rows] = np.where(less, y, low[rows])
        high[rows] = np.where(less, high[rows], y)
        scores[:, rows] = np.where([less, ~less], score, scores[:, rows])
        steps += 1
        open_end = np.isinf(high[rows]) & (low[rows] < _FARTHEST)
        going = open_end | (np.nextafter(low[rows], np.inf) < high[rows]) & (low[rows] + 1.0 < high[rows])
        rows = rows[going]
        y = _next_count(low[rows], high[rows], scores[:, rows], probability, stride[rows], steps)
        stride[rows] *= 2.0
    return np.where(np.isinf(high), low, high)


def _next_count(low: Any, high: Any, scores: Any, probability: float, stride: Any, steps: int) -> Any:
    """Return the numbers to try next, between the ends of brackets, or a stride beyond one that is not there yet."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        middle = np.floor(low + 0.5 * (np.where(np.isinf(high), low, high) - low))
        aim = low + (high - low) * (ndtri(probability) - scores[0]) / (scores[1] - scores[0])
        aimed = np.floor(aim) if steps % 2 else np.ceil(aim)
        y = np.where(np.isfinite(aimed) & (steps < _AIMED), np.clip(aimed, low + 1.0, high - 1.0), middle)
        # From above, down towards the least number, as long as none is known to be too small.
        y = np.where((low < 0.0) & np.isfinite(high), np.maximum(np.floor(high - stride), 0.0), y)
    return np.where(np.isinf(high), low + stride, y)


def point_of(
    below: Below, probability: float, mean: Float[np.ndarray, " n"], variance: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return, of each row, where the distribution function reaches a probability, by bisection of a bracket."""
    n = len(mean)
    centre = np.where(np.isfinite(mean), mean, 0.0)
    scale = np.sqrt(np.where(np.isfinite(variance), variance, 1.0))
    scale = np.maximum(scale, 1e-9 * (1.0 + np.abs(centre)))
    low, high, step = centre - scale, centre + scale, scale.copy()
    rows = np.arange(n)
    while len(rows):
        short, beyond = below(rows, high[rows]) < probability, ~(below(rows, low[rows]) < probability)
        ends = low[rows], high[rows]
        low[rows] = np.where(beyond, ends[0] - step[rows], np.where(short, ends[1], ends[0]))
        high[rows] = np.where(beyond, ends[0], np.where(short, ends[1] + step[rows], ends[1]))
        step[rows] *= 2.0
        rows = rows[(beyond | short) & (step[rows] < _FARTHEST)]
    rows = np.arange(n)
    while len(rows):
        middle = low[rows] + 0.5 * (high[rows] - low[rows])
        less = below(rows, middle) < probability
        low[rows], high[rows] = np.where(less, middle, low[rows]), np.where(less, high[rows], middle)
        between = low[rows] + 0.5 * (high[rows] - low[rows])
        wide = high[rows] - low[rows] > _NARROW * (scale[rows] + np.abs(between))
        rows = rows[wide & (between > low[rows]) & (between < high[rows])]
    return high
