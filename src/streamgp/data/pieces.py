"""A stream in pieces of few sizes, so that few programs are compiled."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

PIECES = (1024, 64, 1)  # rows of the padded pieces in which a stream reaches the compiled code
FEW = 4  # up to so many rows go one by one rather than as a padded piece
ENOUGH = 768  # from so many on, rows that are left are filled up to a whole large piece


def pieces(n: int) -> Iterator[tuple[slice, int]]:
    """Cut n rows into pieces of these sizes; the last one may have to be filled up."""
    at = 0
    while at < n:
        left = n - at
        large, small, one = PIECES
        size = large if left >= ENOUGH else small if left > FEW else one
        yield slice(at, min(n, at + size)), size
        at += size


def joined(parts: list) -> Any:
    """Trees of arrays with the rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)
