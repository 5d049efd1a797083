"""Glitches: cells that do not fit the rest of their row, and are taken to be missing.

One cell alone is a glitch; a column in which five in a row are off has changed, and is learnt as it is. Of a row of
which most cells are off it is not known which are wrong: it is new, and learnt, unless it is absurd as a whole.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# A cell is off beyond so many standard deviations from its prediction.
CELL_LIMIT = 8.0
# A row as a whole is absurd from this median of its cells on.
ROW_LIMIT = 100.0
# A column has changed when it is off in so many consecutive rows.
CHANGE_ROWS = 5
# A cell of the warm-up is off at so many standard deviations, by quantiles, from the median.
WARMUP_LIMIT = 10.0
# The most rounds of removing the worst cells of a row and embedding it again.
_MAX_ROUNDS = 8


class CellErrors(NamedTuple):
    """Errors of cells at the coordinates of their rows, in standard deviations, and their log densities.

    Both are zero where a cell is missing.
    """

    size: Float[np.ndarray, "n e"]
    log_density: Float[np.ndarray, "n e"]


def compute_errors(
    rows: Float[np.ndarray, "n e"], mean: Float[np.ndarray, "n e"], var: Float[np.ndarray, "n e"]
) -> CellErrors:
    """Compute the errors of rows with gaps, whose cells have this mean and variance."""
    squares = np.nan_to_num(np.square(rows - mean) / var)
    density = np.where(np.isnan(rows - mean), 0.0, -0.5 * (squares + np.log(2.0 * np.pi * var)))
    return CellErrors(np.sqrt(squares), density)


Expected = tuple[Float[np.ndarray, "n e"], Float[np.ndarray, "n e"]]


def find_glitches(
    rows: Float[np.ndarray, "n e"], expected: Expected, expect: Callable[[Float[np.ndarray, "n e"]], Expected]
) -> Bool[np.ndarray, "n e"]:
    """Mark the cells that are off, the worst of a row removed first.

    `expected` are mean and variance of the cells at the coordinates of the rows; `expect` returns those of
    other rows.
    """
    found = np.zeros(rows.shape, bool)
    size = compute_errors(rows, *expected).size
    present = ~np.isnan(rows)
    absurd = np.median(np.where(present, size, 0.0), axis=1) > ROW_LIMIT
    open_ = np.flatnonzero((size > CELL_LIMIT).any(axis=1))
    left, size = rows[open_].copy(), size[open_]
    for _ in range(_MAX_ROUNDS if len(open_) else 0):
        worst = size.max(axis=1, keepdims=True)
        left[(size > CELL_LIMIT) & (size >= 0.9 * worst)] = np.nan
        # With most cells gone, they are not the ones that are off.
        gone = np.isnan(left) & present[open_]
        hopeless = 2 * gone.sum(axis=1) > present[open_].sum(axis=1)
        left, open_ = left[~hopeless], open_[~hopeless]
        if not len(open_):
            break
        mean, var = expect(left)
        size = compute_errors(left, mean, var).size
        done = (size <= CELL_LIMIT).all(axis=1)
        found[open_[done]] = (compute_errors(rows[open_], mean, var).size > CELL_LIMIT)[done] & np.isnan(left[done])
        left, open_, size = left[~done], open_[~done], size[~done]
        if not len(open_):
            break
    found[absurd & ~found.any(axis=1)] = True
    return found & present


def find_changes(
    run: Int[np.ndarray, " e"], present: Bool[np.ndarray, "n e"], off: Bool[np.ndarray, "n e"]
) -> tuple[Int[np.ndarray, " e"], Bool[np.ndarray, "n e"]]:
    """Count how often columns were `off`, row after row, and mark the cells of the fifth time or more."""
    change = np.zeros(off.shape, bool)
    for i in range(len(off)):
        run = np.where(present[i], np.where(off[i], run + 1, 0), run)
        change[i] = off[i] & (run >= CHANGE_ROWS)
    return run, change


def find_warmup_glitches(Y: Float[np.ndarray, "n e"]) -> Bool[np.ndarray, "n e"]:
    """Mark cells far from the others of their column; a constant column is measured by the width of all columns."""
    with np.errstate(invalid="ignore"):
        present = ~np.isnan(Y)
        middle, width = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
        for e in np.flatnonzero(present.any(axis=0)):
            y = Y[present[:, e], e]
            low, middle[e], high = np.quantile(y, [0.025, 0.5, 0.975])
            width[e] = max(1.4826 * np.median(np.abs(y - middle[e])), (high - low) / 3.92)
        typical = np.sqrt(np.mean(np.square(width)))
        width = np.where(width > 0.0, width, typical)
        return present & (np.abs(Y - middle) > WARMUP_LIMIT * width) & (width > 0.0)
