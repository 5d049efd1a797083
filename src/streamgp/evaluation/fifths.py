"""Fifths of rows by values known of them before their targets, in constant memory.

The ends of the fifths are quantiles of the rows before. Of these every so many-th is kept, which depends on their
number alone, so that fifths do not depend on how rows were chunked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

FIFTHS = 5
_KEPT = 1024  # rows at most
_FIRST, _GROWTH = 40, 1.25  # the ends are found after so many rows, and then whenever there are so many times more
_SHARES = np.arange(1, FIFTHS) / FIFTHS
_STATE = ("_rows", "_every", "_next", "_kept", "ends")


class Fifths:
    """The fifths of rows by each of G values, with ends that are known before the row; NaN has no fifth."""

    def __init__(self, values: int) -> None:
        self._rows, self._every, self._next = 0, 1, _FIRST
        self._kept = np.empty((0, values))
        self.ends = np.full((values, FIFTHS - 1), np.nan)
        # The ends that held from a row on, with the place of that row among those placed last.
        self._since = [(0, self.ends.copy())]

    def place(self, values: Float[np.ndarray, "n g"]) -> Int[np.ndarray, "n g"]:
        """Return the fifths of the next rows, `FIFTHS` where there is none, and learn from the values."""
        found, at, self._since = np.full(values.shape, FIFTHS), 0, [(0, self.ends.copy())]
        while at < len(values):
            part = values[at : at + self._next - self._rows]
            known = np.isfinite(part) & np.isfinite(self.ends[:, 0])
            found[at : at + len(part)] = np.where(known, (part[:, :, None] > self.ends).sum(-1), FIFTHS)
            at += len(part)
            if self._keep(part):
                self._since.append((at, self.ends.copy()))
        return found

    def widen(self, new: int) -> None:
        """Take in so many values more, which are NaN so far."""
        self._kept = np.concatenate([self._kept, np.full((len(self._kept), new), np.nan)], axis=1)
        self.ends = np.concatenate([self.ends, np.full((new, FIFTHS - 1), np.nan)])

    def ends_at(self, row: int) -> Float[np.ndarray, "g k"]:
        """Return the ends that were known before a row of those placed last, by its place among them."""
        return [ends for start, ends in self._since if start <= row][-1]

    def _keep(self, values: np.ndarray) -> bool:
        """Learn from values; return whether the ends are found anew."""
        numbers = self._rows + np.arange(len(values))
        self._kept = np.concatenate([self._kept, values[numbers % self._every == 0]])
        while len(self._kept) > _KEPT:
            self._kept, self._every = self._kept[::2], 2 * self._every
        self._rows += len(values)
        if self._rows < self._next:
            return False
        self._next = int(_GROWTH * self._next)
        for g, column in enumerate(self._kept.T):
            known = column[np.isfinite(column)]
            if len(known):
                self.ends[g] = np.quantile(known, _SHARES)
        return True

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint."""
        state = {name: getattr(self, name) for name in _STATE}
        return {name: np.copy(a) if isinstance(a, np.ndarray) else a for name, a in state.items()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "Fifths":
        """Restore what `to_tree` stored."""
        fifths = cls(1)
        vars(fifths).update({name: np.copy(a) if isinstance(a, np.ndarray) else a for name, a in tree.items()})
        return fifths
