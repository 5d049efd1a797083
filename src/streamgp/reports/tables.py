"""The table of weights that a report is made from: which rows it has, and what its columns are called."""

import numpy as np

RULE = "rule: "  # starts the names of the columns of `weights.parquet` that are not about an expert
WEIGHTS_KEPT = 10_000  # scored rows whose weights are all kept; of later ones `keep_weights` chooses


def keep_weights(number: np.ndarray) -> np.ndarray:
    """Return whether the weights of a row are kept, by its number among the scored rows, counted from 0.

    Hundreds of experts would fill a disk: of the first 10,000 rows all are kept, then every 10th up to 100,000, every
    100th up to a million, and so on. The number alone decides, so that any chunks, and a resumed run, keep the same.
    """
    limits = WEIGHTS_KEPT * 10 ** np.arange(15)
    return number % 10 ** np.searchsorted(limits, number) == 0
