"""Lagged targets counted off row by row."""

import numpy as np


def widened_by_hand(X: np.ndarray, y: np.ndarray, lags: tuple[int, ...], fill: np.ndarray) -> np.ndarray:
    """Row i beside y[i - lag] for each lag, or `fill` before the first row."""
    rows = []
    for i, x in enumerate(X):
        row = list(x)
        for lag in lags:
            row += list(y[i - lag]) if i >= lag else list(fill)
        rows.append(row)
    return np.asarray(rows)
