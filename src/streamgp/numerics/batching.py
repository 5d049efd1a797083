"""A stream in batches of few sizes, so that few programs are compiled."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

BATCH_SIZES = (1024, 64, 1)  # rows of the padded batches in which a stream reaches the engine
COMPILED_BATCH_SIZES = BATCH_SIZES[1:]  # where every size is a program that takes seconds to compile
MAX_SINGLE_ROWS = 4  # so many rows in all go one by one rather than as a padded batch
FEW_ROWS = 4096  # of a warm-up up to which large batches would take longer to compile than they save
MIN_FILLED_ROWS = 768  # from so many on, rows that are left are filled up to a whole large batch
MIN_FILLED_LATER = 192  # the same where a stream has gone on for so long that a program more is soon made up for


def split_batches(
    n: int, sizes: tuple[int, ...] = BATCH_SIZES, min_filled: int = MIN_FILLED_ROWS
) -> Iterator[tuple[slice, int]]:
    """Yield batches of n rows, of these sizes; the last may have to be filled up, a large one from `min_filled`."""
    if n <= MAX_SINGLE_ROWS:
        sizes = sizes[-1:]
    at = 0
    while at < n:
        size = next(size for size in sizes if size < min_filled or n - at >= min_filled)
        yield slice(at, min(n, at + size)), size
        at += size


def concatenate(trees: list) -> Any:
    """Return trees of arrays as one, with the rows of all."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *a: np.concatenate(a), *trees)
