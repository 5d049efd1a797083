"""Where rows without a target lay among those of the warm-up, so that a lag keeps its distance over them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from streamgp.numerics.checkpoint.encoding import register

LONGEST = 1_000  # rows passed over at one place that count: no lag is longer
SHORTEST_SEASON = 4  # a lag of fewer rows is no season


@register
@dataclass(frozen=True)
class PassedRows:
    """How many rows were predicted and not learnt, and after how many that were; no method changes it.

    Attributes
    ----------
    after, count
        For each place the number of rows learnt before it, ascending, and that of the rows passed over there.
    """

    after: Int[np.ndarray, " k"]
    count: Int[np.ndarray, " k"]

    @classmethod
    def none(cls) -> "PassedRows":
        """Return that every row was learnt."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def check_restored(self) -> None:
        """Raise ValueError if places are not in order, or hold no row, or more than count."""
        in_order = self.after.shape == self.count.shape and (np.diff(self.after, prepend=0) > 0).all()
        if not (in_order and ((self.count > 0) & (self.count <= LONGEST)).all()):
            raise ValueError(
                f"expected places in ascending order with 1 to {LONGEST} rows each, got {self.after}, {self.count}"
            )

    def add(self, learnt: int, rows: int) -> "PassedRows":
        """Return the same with so many rows more, passed over after so many learnt; before the first none counts."""
        if not learnt or not rows:
            return self
        after, count = self.after, self.count
        if len(after) and after[-1] == learnt:
            after, count, rows = after[:-1], count[:-1], rows + int(count[-1])
        return PassedRows(np.append(after, learnt), np.append(count, min(rows, LONGEST)))

    def before_each(self, n: int) -> Int[np.ndarray, " n"]:
        """Return how many rows were passed over right before each of the first n learnt."""
        found, within = np.zeros(n, np.int64), self.after < n
        found[self.after[within]] = self.count[within]
        return found

    def with_missed(self, missed: Int[np.ndarray, " n"]) -> "PassedRows":
        """Return the same with so many more before each of the rows learnt; before the first none counts."""
        count = np.minimum(self.before_each(len(missed)) + missed, LONGEST)
        after = 1 + np.flatnonzero(count[1:])
        return PassedRows(after, count[after])

    def places(self, n: int) -> Int[np.ndarray, " n"]:
        """Return which rows of the stream, counted from the first one learnt, the first n learnt were."""
        before = np.concatenate([[0], np.cumsum(self.count)])
        return np.arange(n) + before[np.searchsorted(self.after, np.arange(n), side="right")]

    def whole(self, y: Float[np.ndarray, "n e"], longest: int) -> Float[np.ndarray, "m e"]:
        """Return the targets of all rows up to the n-th one learnt; for those passed over something stands.

        See `stand_ins`; what stands for a row knows no later target.
        """
        if not len(self.after):
            return y
        places = self.places(len(y))
        found = np.full((int(places[-1]) + 1 if len(y) else 0, y.shape[1]), np.nan)
        found[places] = y
        for row, after in zip((places[:-1] + 1).tolist(), places[1:].tolist(), strict=True):
            if row < after:
                found[row:after] = carried_over(found[:row], longest, after - row)
        return found


def carried_over(past: Float[np.ndarray, "w e"], longest: int, rows: int) -> Float[np.ndarray, "n e"]:
    """Return what stands for the targets of so many rows after these: see `stand_ins`.

    Over more than a season it is the same again, so that no change adds up.
    """
    return np.resize(stand_ins(past.T, longest, min(rows, longest)).T, (rows, past.shape[1]))


def stand_ins(past: Float[np.ndarray, "e w"], longest: int, rows: int) -> Float[np.ndarray, "e n"]:
    """Return what stands for the next rows of some series, at most a season of them, the last target last.

    Where the longest of the lags is a season that the series shows, each is the target of a season before, moved by
    as much as the last one has changed over a season; else the last target.
    """
    last, start = past[:, -1:], past.shape[1] - longest
    if longest < SHORTEST_SEASON or start < 1:
        return np.repeat(last, rows, axis=1)
    seasonal = past[:, start : start + rows] + (last - past[:, start - 1 : start])
    return np.where(np.isnan(seasonal), last, seasonal)
