"""How far out inputs are believed: what was seen, and as much again on either side."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from streamgp.checkpoint.encoding import register
from streamgp.numerics.standardise import far_out

MARGIN = 1.0  # beyond the range on either side, in its widths
# A row beyond a bound adds so much to a count from which each other row takes one: what comes in 2% of the rows or
# less never adds up.
WORTH = 50
ENOUGH = 5 * WORTH  # from here on, with five rows in succession, it is a change


@register
@dataclass(frozen=True)
class InputBounds:
    """The range of every column, widened by its width, beyond which inputs count as the bound itself.

    The range is that of the rows it was made from, glitches left out. It grows, so that drift, and what is new and
    stays, are followed: when five rows in succession lie beyond a bound, or so many more than one in fifty, the range
    from then on reaches as far as all of these did. A single row beyond, however far, changes nothing. The two sides
    of a column are kept alike, the lower one as the upper one of ``-X``.

    Parameters
    ----------
    edge
        Upper ends of the ranges of ``X`` and of ``-X``.
    count
        Of rows beyond each bound, as described at `WORTH`.
    least
        How far the nearest of the rows counted lay; infinite where there is none.
    """

    edge: Float[np.ndarray | Array, " sides"]
    count: Int[np.ndarray | Array, " sides"]
    least: Float[np.ndarray | Array, " sides"]

    @classmethod
    def of(cls, X: Float[np.ndarray, "n d"]) -> "InputBounds":
        """Return the bounds of finite rows, at least one; values that are `far_out` do not count."""
        far = far_out(X)
        return cls._at(np.concatenate([np.where(far, -np.inf, side).max(axis=0) for side in (X, -X)]))

    @classmethod
    def none(cls, num_columns: int) -> "InputBounds":
        """Return no bounds: before there is any range."""
        return cls._at(np.full(2 * num_columns, np.inf))

    @classmethod
    def _at(cls, edge: np.ndarray) -> "InputBounds":
        return cls(edge, np.zeros(len(edge), np.int64), np.full(len(edge), np.inf))

    @cached_property
    def limits(self) -> Float[np.ndarray, " sides"]:
        """The bounds of ``X`` and of ``-X``: values of either stay below."""
        edge = np.asarray(self.edge)
        columns = len(edge) // 2
        margin = MARGIN * (edge[:columns] + edge[columns:])
        return edge + np.concatenate([margin, margin])

    @cached_property
    def _ends(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """The least and the greatest value of every column."""
        columns = len(self.limits) // 2
        return -self.limits[columns:], self.limits[:columns]

    @cached_property
    def counts(self) -> bool:
        """Whether rows beyond are counted."""
        return bool(np.any(self.count))

    def clip(self, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, " n"]]:
        """Return each row, as if the next, moved to the bounds where it lies beyond; and whether it does."""
        least, greatest = self._ends
        clipped = np.minimum(np.maximum(X, least), greatest)
        return clipped, ((clipped != X) & ~np.isnan(X)).any(axis=1)

    def learn(
        self, X: Float[np.ndarray, "n d"]
    ) -> tuple["InputBounds", Float[np.ndarray, "n d"], Bool[np.ndarray, " n"]]:
        """Return the bounds after the rows, in order, and what `clip` gives for each by the bounds before it.

        However rows are cut into calls, the outcome is the same.
        """
        clipped, beyond = self.clip(X)
        if not (self.counts or beyond.any()):
            return self, clipped, beyond
        bounds, parts = self, []
        while len(X):
            after, n = bounds._until_wider(X)
            parts.append(bounds.clip(X[:n]))
            bounds, X = after, X[n:]
        if not parts:
            return self, clipped, beyond
        rows, which = zip(*parts, strict=True)
        return bounds, np.concatenate(rows), np.concatenate(which)

    def _until_wider(self, X: Float[np.ndarray, "n d"]) -> tuple["InputBounds", int]:
        """Return the bounds after the rows up to the first that widens them, or all; and how many rows that is."""
        sides = np.concatenate([X, -X], axis=1)
        beyond = sides > self.limits
        count, least = np.asarray(self.count), np.asarray(self.least)
        done = 0
        for row in np.flatnonzero(beyond.any(axis=1)):
            waned = np.maximum(count - (row - done), 0)  # of the rows between, in which nothing happened
            least = np.where(waned > 0, least, np.inf)
            count = np.where(beyond[row], waned + WORTH, np.maximum(waned - 1, 0))
            least = np.where(beyond[row], np.minimum(least, sides[row]), np.where(count > 0, least, np.inf))
            done = int(row) + 1
            wider = count >= ENOUGH
            if wider.any():
                edge = np.where(wider, least, self.edge)
                return InputBounds(edge, np.where(wider, 0, count), np.where(wider, np.inf, least)), done
        count = np.maximum(count - (len(X) - done), 0)
        return InputBounds(self.edge, count, np.where(count > 0, least, np.inf)), len(X)
