"""Numbers for columns that hold none: 0 and 1 for each level, sine and cosine for each cycle of time."""

import numpy as np
from jaxtyping import Float

CYCLES = {"day": 86_400.0, "week": 604_800.0, "year": 31_556_952.0}  # seconds; the year is the Gregorian mean


def one_hot(codes: Float[np.ndarray, " n"], levels: int) -> Float[np.ndarray, "n k"]:
    """Return a column for each of the levels, 1 where a code is its number; all 0 for another code, NaN for NaN."""
    columns = (codes[:, None] == np.arange(levels)).astype(np.float64)
    columns[np.isnan(codes)] = np.nan
    return columns


def cycle(times: Float[np.ndarray, " n"], period: float) -> Float[np.ndarray, "n 2"]:
    """Return sine and cosine of where in a period each time lies; NaN for NaN."""
    angle = (2.0 * np.pi / period) * (times % period)
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)
