"""The tables that a report is made from: columns of predictions; which weights are kept, and their names."""

import numpy as np
import polars as pl

# The names of columns of `weights.parquet` on weight rules start with this.
RULE = "rule: "
# The weights of so many scored rows are all kept. Of later rows, `keep_weights` chooses some.
WEIGHTS_KEPT = 10_000


def keep_weights(number: np.ndarray) -> np.ndarray:
    """Return whether the weights of a row are kept, by its number among the scored rows, counted from 0.

    Hundreds of experts would fill a disk: of the first 10,000 rows all are kept, then every 10th up to 100,000, every
    100th up to a million, and so on. The number alone decides, so that any chunks, and a resumed run, keep the same.
    """
    limits = WEIGHTS_KEPT * 10 ** np.arange(15)
    return number % 10 ** np.searchsorted(limits, number) == 0


def as_kept(weights: np.ndarray) -> np.ndarray:
    """Return weights in single precision, in steps of 2^-24: no closer than it holds those near one.

    So the many small ones have few digits, and take less than half the room once compressed.
    """
    return np.ldexp(np.round(np.ldexp(weights, 24)), -24).astype(np.float32)


def as_series(name: str, column: np.ndarray) -> pl.Series:
    """Return a column of predictions; one of names, or of lists of names, is text even where all are missing."""
    if column.dtype == object:
        several = any(isinstance(each, list) for each in column)
        return pl.Series(name, column.tolist(), dtype=pl.List(pl.String) if several else pl.String)
    return pl.Series(name, column)
