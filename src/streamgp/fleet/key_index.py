"""The keys of a fleet in the order of their numbers, and the number of each, without a Python object for every key.

Keys are columns of Polars, whose hashes stand sorted: a key is found by bisection, in some 30 bytes of memory. Those
that came last wait in a dictionary, until they are a thirtieth of all.
"""

from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np
import polars as pl
from jaxtyping import Int

from streamgp.fleet.frames import Key

NEW = -1  # the number of a key that is not known
# So many keys wait at least before they are sorted in.
_RECENT = 4_096


class KeyIndex:
    """Keys by number and numbers by key; all are text, or all are whole numbers (of 128 bits)."""

    def __init__(self) -> None:
        self._types: tuple[type, ...] = (str,)
        self._keys = pl.Series([], dtype=pl.String)
        # The sorted hashes of these keys, and the numbers in that order.
        self._hashes = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int32)
        self._recent: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)

    def names(self, number: Int[np.ndarray, " n"] | None = None) -> list[Key]:
        """Return the keys of these numbers; without them, of all."""
        recent = list(self._recent)
        if number is None:
            return self._keys.to_list() + recent
        settled = number < len(self._keys)
        its = iter(self._keys.gather(number[settled]).to_list())
        waits = (number - len(self._keys)).tolist()
        return [next(its) if there else recent[i] for there, i in zip(settled.tolist(), waits, strict=True)]

    def find(self, keys: Sequence[Key | None]) -> Int[np.ndarray, " n"]:
        """Return the numbers of keys, `NEW` of those not known."""
        get: Callable[..., int] = self._recent.get
        found = np.fromiter(map(get, keys, repeat(NEW)), np.int64, len(keys))
        rest = np.flatnonzero(found == NEW) if len(self._keys) else np.empty(0, np.int64)
        if len(rest):
            some = keys if len(rest) == len(keys) else [keys[i] for i in rest.tolist()]
            found[rest] = self._settled([key if isinstance(key, self._types) else None for key in some])
        return found

    def add(self, new: Sequence[Key]) -> None:
        """Give the next numbers to keys that are not known."""
        if new and not len(self):
            self._types = (str,) if isinstance(new[0], str) else (int, np.integer)
            self._keys = self._column([])
        self._recent.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
        if len(self._recent) > max(_RECENT, len(self._keys) // 32):
            self._settle()

    def _settled(self, keys: Sequence[Key | None]) -> Int[np.ndarray, " n"]:
        """Return the numbers of keys, `NEW` of those that are not among the sorted ones."""
        asked = self._column(keys)
        hashes = _hashes(asked)
        found, at = np.full(len(keys), NEW), np.searchsorted(self._hashes, hashes)
        left = np.arange(len(keys))
        # The loop runs again for keys whose hash is also that of another key.
        while True:
            place = at[left]
            left = left[(place < len(self._hashes)) & (self._hashes.take(place, mode="clip") == hashes[left])]
            if not len(left):
                return found
            number = self._numbers[at[left]]
            same = (self._keys.gather(number) == asked.gather(left)).fill_null(False).to_numpy()
            found[left[same]] = number[same]
            left = left[~same]
            at[left] += 1

    def _settle(self) -> None:
        """Sort the keys that wait among the others."""
        new = self._column(list(self._recent))
        hashes = _hashes(new)
        order = np.argsort(hashes)
        at = np.searchsorted(self._hashes, hashes[order])
        self._hashes = np.insert(self._hashes, at, hashes[order])
        self._numbers = np.insert(self._numbers, at, len(self._keys) + order)
        self._keys, self._recent = pl.concat([self._keys, new], rechunk=True), {}

    def _column(self, keys: Sequence[Key | None]) -> pl.Series:
        return pl.Series(keys, dtype=pl.String if self._types == (str,) else pl.Int128)


def _hashes(keys: pl.Series) -> np.ndarray:
    return keys.hash().to_numpy()
