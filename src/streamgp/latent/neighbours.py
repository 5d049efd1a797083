"""The nearest of the rows so far, found by an index that takes new rows one by one, and their coordinates."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int


class Neighbours:
    """A navigable small-world graph of rows (Malkov and Yashunin 2020), by the package `usearch`.

    Squared Euclidean distances, in single precision. A search looks at about log n rows of n, and misses a true
    neighbour now and then. Rows have consecutive numbers from 0. When it is full, the older half of the rows is
    dropped, and the others are numbered anew.

    Parameters
    ----------
    num_columns
        Cells of a row.
    capacity
        Rows at most.

    Raises
    ------
    ModuleNotFoundError
        If `usearch` is not installed.
    """

    def __init__(self, num_columns: int, capacity: int) -> None:
        self.num_columns = num_columns
        self.capacity = capacity
        self._index = _make_index(num_columns)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._index)

    @property
    def rows(self) -> Float[np.ndarray, "n e"]:
        """Return all rows, in the order of their numbers."""
        if not len(self):
            return np.zeros((0, self.num_columns), np.float32)
        return np.asarray(self._index.get(np.arange(len(self)))).reshape(-1, self.num_columns)

    def add(self, rows: Float[np.ndarray, "n e"]) -> int:
        """Add rows behind the others; return how many of the oldest were dropped."""
        dropped = 0
        if len(self) + len(rows) > self.capacity:
            kept = np.concatenate([self.rows, np.asarray(rows, np.float32)])
            dropped = len(kept) - self.capacity // 2
            self._index = _make_index(self.num_columns)
            rows = kept[dropped:]
        first = len(self)
        # One thread: the graph depends on the order of the rows alone.
        self._index.add(np.arange(first, first + len(rows)), _as_single(rows), threads=1)
        return dropped

    def search(self, rows: Float[np.ndarray, "n e"], count: int) -> Int[np.ndarray, "n c"]:
        """Return the numbers of the nearest rows, nearest first; where there are too few, the nearest comes again."""
        few = min(count, len(self))
        found = self._index.search(_as_single(rows), few, threads=1)
        keys = np.asarray(found.keys).reshape(len(rows), few).astype(np.int64)
        return np.concatenate([keys, np.repeat(keys[:, :1], count - few, axis=1)], axis=1)


class EmbeddedNeighbours:
    """Rows that later ones start from, and their coordinates under every expert.

    Parameters
    ----------
    num_columns, capacity
        As in `Neighbours`.
    shape
        Experts and coordinates (k, d).
    """

    def __init__(self, num_columns: int, capacity: int, shape: tuple[int, int]) -> None:
        self._index = Neighbours(num_columns, capacity)
        # The array has space for more rows behind those in use.
        self._coordinates = np.zeros((0, *shape))

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._index)

    @property
    def rows(self) -> Float[np.ndarray, "n e"]:
        """Return all rows, oldest first."""
        return self._index.rows

    @property
    def coordinates(self) -> Float[np.ndarray, "n k d"]:
        """Return the coordinates of all rows."""
        return self._coordinates[: len(self)]

    def add(self, rows: Float[np.ndarray, "n e"], coordinates: Float[np.ndarray, "n k d"]) -> None:
        """Add rows behind the others; beyond the capacity the oldest are dropped."""
        count = len(self)
        dropped = self._index.add(rows)
        if dropped:
            self._coordinates[: count - dropped] = self._coordinates[dropped:count]
            count -= dropped
        # The capacity doubles, so that the cost of a row does not grow with their number.
        if count + len(coordinates) > len(self._coordinates):
            more = np.zeros((count + 2 * len(coordinates), *self._coordinates.shape[1:]))
            self._coordinates = np.concatenate([self._coordinates[:count], more])
        self._coordinates[count : count + len(coordinates)] = coordinates

    def nearest_coordinates(self, rows: Float[np.ndarray, "n e"], count: int) -> Float[np.ndarray, "n c k d"]:
        """Return the coordinates of the nearest rows of each row, nearest first."""
        return self._coordinates[self._index.search(rows, count)]


def _as_single(rows: np.ndarray) -> np.ndarray:
    """Convert to single precision, in which the squares of greater numbers would overflow."""
    return np.ascontiguousarray(np.clip(rows, -1e15, 1e15), np.float32)


def _make_index(num_columns: int) -> Any:
    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Latent variable models find the neighbours of a row by the package usearch, which is not installed: "
            "pip install 'streamgp[latent]'"
        ) from error
    return Index(ndim=num_columns, metric="l2sq", dtype="f32")
