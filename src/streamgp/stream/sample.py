"""A uniform sample of all rows learnt, by which is told what a model makes of its inputs."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.reservoir import priority
from streamgp.stream.rows import RawRows

MOST, LEAST = 2048, 1024  # rows
_CELLS = 1 << 18  # of rows wider than it takes to have the most of them


@register
@dataclass(frozen=True)
class RowSample:
    """Rows of the whole stream, each as likely to be kept; no method changes it.

    Which are kept depends on their numbers alone, not on how rows came.

    Attributes
    ----------
    rows
        In the order of the stream: inputs as the model takes them, without gaps, and the targets that were learnt.
    numbers
        Of each, its number in the stream of rows offered.
    offered
        Rows offered in all.
    """

    rows: RawRows
    numbers: Int[np.ndarray, " s"]
    offered: int = 0

    @classmethod
    def empty(cls, width: int, num_outputs: int) -> "RowSample":
        """Return it before any row."""
        return cls(RawRows(np.zeros((0, width)), np.zeros((0, num_outputs)), None), np.zeros(0, np.int64))

    @property
    def most(self) -> int:
        """How many rows are kept."""
        return min(MOST, max(LEAST, _CELLS // max(self.rows.X.shape[1], 1)))

    def offer(self, rows: RawRows, flagged: Any = None) -> "RowSample":
        """Return it after more rows, of which those that are flagged as outliers are passed over."""
        n = len(rows.X)
        numbers = self.offered + np.arange(n)
        kept, rank = np.ones(n, bool) if flagged is None else ~np.asarray(flagged), priority(numbers)
        full = len(self.numbers) == self.most
        if full:
            own = priority(self.numbers)
            kept &= rank < own.max()
        grown = replace(self, offered=self.offered + n)
        if not kept.any():
            return grown
        numbers = np.concatenate([self.numbers, numbers[kept]])
        X = np.concatenate([self.rows.X, rows.X[kept]])
        y = np.concatenate([self.rows.y, rows.y[kept]])
        if len(numbers) > self.most:
            left = np.sort(np.argsort(priority(numbers))[: self.most])
            numbers, X, y = numbers[left], X[left], y[left]
        return replace(grown, rows=RawRows(X, y, None), numbers=numbers)

    def first(self, most: int) -> "RowSample":
        """Return a uniform sample of the rows, so many at most."""
        return self.where(priority(self.numbers) <= np.sort(priority(self.numbers))[:most].max(initial=0))

    def where(self, kept: Bool[np.ndarray, " s"]) -> "RowSample":
        """Return some of its rows."""
        return replace(self, rows=self.rows.part(kept), numbers=self.numbers[kept])

    def of_target(self, e: int) -> "RowSample":
        """Return it with one of several targets alone."""
        return replace(self, rows=self.rows._replace(y=self.rows.y[:, [e]]))
