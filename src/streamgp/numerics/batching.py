"""A stream in pieces of few sizes, so that few programs are compiled."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

PIECES = (1024, 64, 1)  # rows of the padded pieces in which a stream reaches the engine
COMPILED = PIECES[1:]  # where every size is a program that takes seconds to compile
FEW = 4  # so many rows in all go one by one rather than as a padded piece
ENOUGH = 768  # from so many on, rows that are left are filled up to a whole large piece


def pieces(n: int, sizes: tuple[int, ...] = PIECES) -> Iterator[tuple[slice, int]]:
    """Cut n rows into pieces of these sizes; the last one may have to be filled up."""
    if n <= FEW:
        sizes = sizes[-1:]
    at = 0
    while at < n:
        size = next(size for size in sizes if size < ENOUGH or n - at >= ENOUGH)
        yield slice(at, min(n, at + size)), size
        at += size


def joined(parts: list) -> Any:
    """Trees of arrays with the rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)
