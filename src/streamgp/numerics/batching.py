"""A stream in batches: of so many rows at most, or padded to few sizes where a program is compiled for each."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streamgp.numerics import tree

LARGEST = 1_024  # rows that are learnt in one go, at most
TOGETHER = 512  # of them by a model at a time: more only take more memory
SMALL = 64


def split_batches(n: int, sizes: Sequence[int] = ()) -> Iterator[tuple[slice, int]]:
    """Yield batches of n rows, and the size to which each is to be padded.

    Parameters
    ----------
    n
        How many rows there are.
    sizes
        The sizes that there may be: the rows that are left go into the smallest that holds them all. Without any,
        batches are of `TOGETHER` rows, and not padded.
    """
    at = 0
    while at < n:
        left = n - at
        size = min((size for size in sizes if size >= left), default=max(sizes, default=min(TOGETHER, left)))
        yield slice(at, min(n, at + size)), size
        at += size


def concatenate(trees: list) -> Any:
    """Return trees of arrays as one, with the rows of all."""
    if len(trees) == 1:
        return trees[0]
    return tree.map(lambda *a: np.concatenate(a), *trees)
