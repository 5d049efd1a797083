"""The nearest of the rows so far, found among many by an index that takes new rows one by one."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int


class Neighbours:
    """A navigable small-world graph of rows (Malkov and Yashunin 2020), kept by the package `usearch`.

    Squared Euclidean distances, in single precision. A search looks at about log n rows of n, and misses a true
    neighbour now and then. Rows have consecutive numbers from 0. When there is no room, the older half of the rows is
    let go, and the others are numbered anew.

    Parameters
    ----------
    num_entries
        Of a row.
    capacity
        Rows that there is room for.

    Raises
    ------
    ModuleNotFoundError
        If `usearch` is not installed.
    """

    def __init__(self, num_entries: int, capacity: int) -> None:
        self.num_entries = num_entries
        self.capacity = capacity
        self._index = _index(num_entries)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def rows(self) -> Float[np.ndarray, "n e"]:
        """All rows, in the order of their numbers."""
        if not len(self):
            return np.zeros((0, self.num_entries), np.float32)
        return np.asarray(self._index.get(np.arange(len(self)))).reshape(-1, self.num_entries)

    def add(self, rows: Float[np.ndarray, "n e"]) -> int:
        """Add rows behind the others; return how many of the oldest were let go."""
        dropped = 0
        if len(self) + len(rows) > self.capacity:
            kept = np.concatenate([self.rows, np.asarray(rows, np.float32)])
            dropped = len(kept) - self.capacity // 2
            self._index = _index(self.num_entries)
            rows = kept[dropped:]
        first = len(self)
        # One thread: the graph depends on the order of the rows alone.
        self._index.add(np.arange(first, first + len(rows)), _single(rows), threads=1)
        return dropped

    def search(self, rows: Float[np.ndarray, "n e"], count: int) -> Int[np.ndarray, "n c"]:
        """The numbers of the nearest rows, nearest first; where there are too few, the nearest comes again."""
        few = min(count, len(self))
        found = self._index.search(_single(rows), few, threads=1)
        keys = np.asarray(found.keys).reshape(len(rows), few).astype(np.int64)
        return np.concatenate([keys, np.repeat(keys[:, :1], count - few, axis=1)], axis=1)


def _single(rows: np.ndarray) -> np.ndarray:
    """In single precision, in which the square of what is greater would have no number."""
    return np.ascontiguousarray(np.clip(rows, -1e15, 1e15), np.float32)


def _index(num_entries: int) -> Any:
    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Latent variable models find the neighbours of a row by the package usearch, which is not installed: "
            "pip install 'streamgp[latent]'"
        ) from error
    return Index(ndim=num_entries, metric="l2sq", dtype="f32")
