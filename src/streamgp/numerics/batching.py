"""A stream in batches of few sizes, so that few programs are compiled."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgp.numerics import tree

BATCH_SIZES = (1024, 64, 1)  # rows of the padded batches in which a stream reaches the engine
# Sizes for models whose program takes seconds to compile for each size.
COMPILED_BATCH_SIZES = BATCH_SIZES[1:]
# Up to so many rows in all are taken one by one, not as a padded batch.
MAX_SINGLE_ROWS = 4
# After a warm-up of up to so many rows, large batches take longer to compile than they save.
FEW_ROWS = 4096
# From so many rows on, the last rows are padded to a whole large batch.
MIN_FILLED_ROWS = 768
# The same for a long stream, where one more compiled program soon pays off.
MIN_FILLED_LATER = 192


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
    return tree.map(lambda *a: np.concatenate(a), *trees)
