"""A stream in batches: of so many rows at most, or padded to few sizes where a program is compiled for each."""

from collections.abc import Callable, Iterator, Sequence
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


def apply_in_batches(function: Callable[..., tuple], step: int, *trees: Any) -> list[np.ndarray]:
    """Apply a function to so many rows at a time of arrays, or trees of them; join each of the arrays it returns."""
    rows = len(tree.leaves(trees)[0])
    parts = [function(*tree.map(lambda a, at=at: a[at : at + step], trees)) for at in range(0, rows, step)]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
