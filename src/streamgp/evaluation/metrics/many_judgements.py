"""The judgements of many short streams at once, such as the keys of a fleet: see `judgement`."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from streamgp.evaluation.metrics.judgement import COVERAGE
from streamgp.evaluation.metrics.paired import LEAST_ROWS

# The losses of each stream are kept as sums over so many batches of consecutive rows.
BATCHES = 16


class Skills(NamedTuple):
    """Of each stream, what the model saves of the loss of its best baseline, and the ends of the interval.

    NaN where that is not known. A stream whose `low` is above 0 is better, one whose `high` is below 0 is worse.
    """

    skill: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]


def with_row(
    sums: Float[np.ndarray, "n k batches"], rows: Float[np.ndarray, " n"], losses: Float[np.ndarray, "n k"]
) -> tuple[Float[np.ndarray, "n k batches"], Float[np.ndarray, " n"]]:
    """Return the sums and numbers of rows with one more row of each stream; one with a NaN loss is left out.

    A batch has one row, then two, four, ... as rows come.
    """
    known = ~np.isnan(losses).any(axis=1)
    found = sums.copy()
    before = _size(np.maximum(rows - 1.0, 0.0))
    full = known & (rows == BATCHES * before)
    if full.any():
        found[full, :, : BATCHES // 2] = found[full, :, ::2] + found[full, :, 1::2]
        found[full, :, BATCHES // 2 :] = 0.0
    at = np.flatnonzero(known)
    found[at, :, (rows[at] // _size(rows[at])).astype(int)] += losses[at]
    return found, rows + known


def skills(sums: Float[np.ndarray, "n k batches"], rows: Float[np.ndarray, " n"]) -> Skills:
    """Return how the model, the first of the k predictors, stands beside the best of the others.

    The interval is that of `judgement`, from the means of the batches that are complete, eight or
    more of them, with Student's t.
    """
    n = len(rows)
    totals = sums.sum(axis=-1)
    best = 1 + totals[:, 1:].argmin(axis=1)
    ours, theirs = sums[:, 0], sums[np.arange(n), best]
    own, other = totals[:, 0], totals[np.arange(n), best]
    complete = np.floor(rows / _size(np.maximum(rows - 1.0, 0.0)))
    inside = np.arange(BATCHES) < complete[:, None]
    with np.errstate(all="ignore"):
        ratio = own / other

        def relative(losses: np.ndarray) -> np.ndarray:
            mean = np.where(inside, losses, 0.0).sum(axis=1) / complete
            return np.where(inside & (mean > 0.0)[:, None], losses / mean[:, None], 0.0)

        apart = relative(ours) - relative(theirs)
        error = np.sqrt(np.square(apart).sum(axis=1) / (complete - 1.0) / complete)
        half = stdtrit(np.maximum(complete - 1.0, 1.0), 0.5 + 0.5 * COVERAGE) * error
        half = np.where(own > 0.0, half, 0.0)
        ends = [np.where(rows >= LEAST_ROWS, 1.0 - ratio * np.exp(by), np.nan) for by in (half, -half)]
    known = (rows > 0) & (other > 0.0) & np.isfinite(ratio)
    return Skills(*(np.where(known, each, np.nan) for each in (1.0 - ratio, *ends)))


def _size(row: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return how many rows a batch has when a row of this number, from 0, has come."""
    return np.exp2(np.ceil(np.log2(np.maximum((row + 1.0) / BATCHES, 1.0))))
