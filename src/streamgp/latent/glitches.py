"""Cells that are absurd beside the rest of their row: such a cell is taken to be missing.

One cell alone is a glitch; a column in which five in a row are off has changed, and is learnt as it is. Of a row of
which most cells are off it is not known which to blame: it is new, and learnt, unless it is off beyond all measure.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

FAR = 8.0  # standard deviations from what is expected, beyond which a cell is off
FARTHER = 100.0  # the median of a row's cells at which the row as a whole is absurd
CHANGE = 5  # rows in a row
WIDE = 10.0  # standard deviations, by quantiles, from the median at which a cell of the warm-up is off
_TURNS = 8  # of taking the worst cells of a row away and placing it anew


class Errors(NamedTuple):
    """Of cells, beside what is expected at their rows' places: errors in standard deviations, and log densities.

    Zero where there is no cell.
    """

    size: Float[np.ndarray, "n e"]
    log_density: Float[np.ndarray, "n e"]


def errors(rows: Float[np.ndarray, "n e"], mean: Float[np.ndarray, "n e"], var: Float[np.ndarray, "n e"]) -> Errors:
    """Of rows with gaps, whose entries have this mean and variance."""
    squares = np.nan_to_num(np.square(rows - mean) / var)
    density = np.where(np.isnan(rows - mean), 0.0, -0.5 * (squares + np.log(2.0 * np.pi * var)))
    return Errors(np.sqrt(squares), density)


Expected = tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]


def off(
    rows: Float[np.ndarray, "n e"], expected: Expected, expect: Callable[[Float[np.ndarray, "n e"]], Expected]
) -> Bool[np.ndarray, "n e"]:
    """Which cells are off, the worst of a row taken away first.

    `expected` are mean and variance of the cells from where the rows are, and `expect` gives those of other rows.
    """
    found = np.zeros(rows.shape, bool)
    size = errors(rows, *expected).size
    there = ~np.isnan(rows)
    absurd = np.median(np.where(there, size, 0.0), axis=1) > FARTHER
    open_ = np.flatnonzero((size > FAR).any(axis=1))
    left, size = rows[open_].copy(), size[open_]
    for _ in range(_TURNS if len(open_) else 0):
        worst = size.max(axis=1, keepdims=True)
        left[(size > FAR) & (size >= 0.9 * worst)] = np.nan
        # With most cells gone it is not they that are off.
        gone = np.isnan(left) & there[open_]
        hopeless = 2 * gone.sum(axis=1) > there[open_].sum(axis=1)
        left, open_ = left[~hopeless], open_[~hopeless]
        if not len(open_):
            break
        mean, var = expect(left)
        size = errors(left, mean, var).size
        done = (size <= FAR).all(axis=1)
        found[open_[done]] = (errors(rows[open_], mean, var).size > FAR)[done] & np.isnan(left[done])
        left, open_, size = left[~done], open_[~done], size[~done]
        if not len(open_):
            break
    found[absurd & ~found.any(axis=1)] = True
    return found & there


def changed(
    run: Int[np.ndarray, " e"], there: Bool[np.ndarray, "n e"], off: Bool[np.ndarray, "n e"]
) -> tuple[Int[np.ndarray, " e"], Bool[np.ndarray, "n e"]]:
    """Which cells that are `off` are so for the fifth time or more, row after row, and the counts after the rows."""
    known = np.zeros(off.shape, bool)
    for i in range(len(off)):
        run = np.where(there[i], np.where(off[i], run + 1, 0), run)
        known[i] = off[i] & (run >= CHANGE)
    return run, known


def off_in_the_warm_up(Y: Float[np.ndarray, "n e"]) -> Bool[np.ndarray, "n e"]:
    """Cells far from the others of their column; columns that stand still are judged by the width of all."""
    with np.errstate(invalid="ignore"):
        there = ~np.isnan(Y)
        middle, width = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
        for e in np.flatnonzero(there.any(axis=0)):
            y = Y[there[:, e], e]
            low, middle[e], high = np.quantile(y, [0.025, 0.5, 0.975])
            width[e] = max(1.4826 * np.median(np.abs(y - middle[e])), (high - low) / 3.92)
        typical = np.sqrt(np.mean(np.square(width)))
        width = np.where(width > 0.0, width, typical)
        return there & (np.abs(Y - middle) > WIDE * width) & (width > 0.0)
