"""Numbers for columns that hold none: codes of levels, 0 and 1 for each, sine and cosine for a cycle of time."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

_LEAST_CODE = 2**51  # whole numbers up to twice that are exact


def level_code(level: str) -> float:
    """Return the number of a level that is not among the first ones of its column: the same on every machine."""
    digest = hashlib.blake2b(level.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return float(_LEAST_CODE + int.from_bytes(digest, "little") % _LEAST_CODE)


def level_codes(levels: Iterable[str], first: Sequence[str]) -> Float[np.ndarray, " n"]:
    """Return for each level its place among the first ones of its column, or its `level_code`."""
    codes: dict[str, float] = {level: float(i) for i, level in enumerate(first)}
    return np.array(
        [codes[level] if level in codes else codes.setdefault(level, level_code(level)) for level in levels]
    )


def one_hot(codes: Float[np.ndarray, " n"], levels: int) -> Float[np.ndarray, "n k"]:
    """Return a column for each of the levels, 1 where a code is its number; all 0 for another code, NaN for NaN."""
    columns = (codes[:, None] == np.arange(levels)).astype(np.float64)
    columns[np.isnan(codes)] = np.nan
    return columns


def cycle(times: Float[np.ndarray, " n"], period: float) -> Float[np.ndarray, "n 2"]:
    """Return sine and cosine of where in a period each time lies; NaN for NaN."""
    angle = (2.0 * np.pi / period) * (times % period)
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def harmonics(
    sine: Float[np.ndarray, " n"], cosine: Float[np.ndarray, " n"], orders: Iterable[int]
) -> list[Float[np.ndarray, "n 2"]]:
    """Return for each order sine and cosine of so many times the angle of a cycle (a Fourier series)."""
    phase = np.arctan2(sine, cosine) / (2.0 * np.pi)
    return [cycle(k * phase, 1.0) for k in orders]
