"""Scores of quantiles and of intervals."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from streamgp.evaluation.metrics.shapes import together
from streamgp.evaluation.metrics.shares import probabilities, share
from streamgp.numerics.digits import shortest


def pinball(quantiles: ArrayLike, levels: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the pinball losses of quantiles (Koenker and Bassett 1978): level * (y - q) above, less below.

    Twice their mean over many evenly spread levels is close to the CRPS.

    Parameters
    ----------
    quantiles
        Predicted ones of shape (n, Q), as `predict_quantiles` returns them; (n,) of a single level.
    levels
        Their probabilities, (Q,), or a single one.
    y
        Targets, (n,).

    Returns
    -------
    ndarray
        In the shape of `quantiles`.

    Raises
    ------
    ValueError
        If a level is not strictly between 0 and 1, or the shapes do not belong together.
    """
    at = np.reshape(probabilities("levels", levels), np.shape(levels))
    found, targets = (np.asarray(each, dtype=np.float64) for each in (quantiles, y))
    if found.shape != targets.shape + at.shape:
        raise ValueError(
            f"quantiles: expected shape {targets.shape + at.shape}, one for each target and level, got {found.shape}"
        )
    error = targets.reshape(targets.shape + (1,) * at.ndim) - found
    return np.maximum(at * error, (at - 1.0) * error)


def interval_score(low: ArrayLike, high: ArrayLike, y: ArrayLike, coverage: float) -> Float[np.ndarray, "..."]:
    """Return the widths of central intervals, and 2 / (1 - coverage) times how far targets are outside.

    It is proper for the two quantiles that such intervals end at (Gneiting and Raftery 2007, Eq. 43).

    Parameters
    ----------
    low, high
        Lower and upper ends, (n,).
    y
        Targets, (n,).
    coverage
        The share of targets that the intervals are to hold, such as 0.9.

    Raises
    ------
    ValueError
        If `coverage` is not strictly between 0 and 1, an upper end is below its lower one, or shapes differ.
    """
    coverage = share("coverage", coverage)
    low, high, y = _checked(low, high, y)
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - coverage) * outside


def coverage(low: ArrayLike, high: ArrayLike, y: ArrayLike) -> float:
    """Return the share of targets inside their intervals, ends included; rows with NaN do not count.

    It is no score: infinite intervals cover all. NaN where no row counts.

    Parameters
    ----------
    low, high, y
        Lower and upper ends, and targets, (n,).

    Raises
    ------
    ValueError
        If an upper end is below its lower one, or shapes differ.
    """
    low, high, y = _checked(low, high, y)
    counts = ~(np.isnan(low) | np.isnan(high) | np.isnan(y))
    return float(np.mean(((low <= y) & (y <= high))[counts])) if counts.any() else float("nan")


def _checked(low: ArrayLike, high: ArrayLike, y: ArrayLike) -> list[np.ndarray]:
    """Return the arrays in one shape, ends in their order."""
    low, high, y = together(low=low, high=high, y=y)
    wrong = np.argwhere(high < low)
    if len(wrong):
        place = tuple(wrong[0].tolist())
        got = f"{shortest(float(high[place]))} below {shortest(float(low[place]))}"
        raise ValueError(f"high: expected upper ends at or above the lower ones, got {got} at {place}")
    return [low, high, y]
