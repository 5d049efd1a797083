"""How far out inputs are believed: what was seen, and as much again on either side."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.standardise import FAR, far_out

MARGIN = 1.0  # beyond the range on either side, in its widths
# A row beyond a bound adds so much to a count from which each other row takes one: what comes in 2% of the rows or
# less never adds up.
WORTH = 50
ENOUGH = 5 * WORTH  # from here on, with five rows in succession, it is a change
SURPRISES = 5  # targets in succession that are not as if a value in doubt were missing: then it is believed
REMEMBERED = 4  # different values beyond each bound by which one is known when it comes again
# How far from the middle of the range, in halves of its width, values that come again count as others do.
REPEATING = 4.0  # where values repeat: counters and rounded readings creep beyond the bound, which lies at 3
LEVELS = 12  # where so few values came, a new one says little of how far they go: `FAR`
# A tail is light whose end lies so many times as far from the median as nine in ten values of its side; of 1,000
# exponential values it does.
LIGHT = 4.0


class Bounded(NamedTuple):
    """Rows within bounds.

    Attributes
    ----------
    X
        The rows (n, D), moved to the bounds where they lay beyond.
    beyond
        The values that did.
    doubtful
        Those of them that are taken for no measurement: what is there is at best as good as missing.
    """

    X: Float[np.ndarray, "n d"]
    beyond: Bool[np.ndarray, "n d"]
    doubtful: Bool[np.ndarray, "n d"]


@register
@dataclass(frozen=True)
class InputBounds:
    """The range of every column, widened by its width, beyond which inputs count as the bound itself.

    The range is that of the rows it was made from, glitches left out. It grows, so that drift, and what is new and
    stays, are followed: when five rows in succession lie beyond a bound, or so many more than one in fifty, the range
    from then on reaches as far as all of these did. A single row beyond, however far, changes nothing. The two sides
    of a column are kept alike, the lower one as the upper one of ``-X``.

    A value beyond a bound that comes again exactly stands for something else, such as -9999 for a missing one: it is
    `doubtful` and does not count, however often it comes. In a column whose values repeat anyway (counters, rounded
    readings, levels) that holds of values well beyond alone, and in one that had a single value of none. Values far
    out are doubtful when they come for the first time, too, until so many have come that the range reaches them.

    Parameters
    ----------
    edge
        Upper ends of the ranges of ``X`` and of ``-X``.
    count
        Of rows beyond each bound, as described at `WORTH`.
    least
        How far the nearest of the rows counted lay; infinite where there is none.
    met
        The last different values beyond each bound, the latest first; NaN where there were fewer. With no room for
        any, all values count.
    repeating
        How far from the middle of the range values of each column that come again count, in halves of its width.
    surprises
        How many targets in succession spoke for the values in doubt of each column.
    lightness
        Of the tail on each side: 1 where it is light, less the further its end lies from most values. Where values
        have been far out of most, more of such are to be expected.
    """

    edge: Float[np.ndarray, " sides"]
    count: Int[np.ndarray, " sides"]
    least: Float[np.ndarray, " sides"]
    met: Float[np.ndarray, "sides m"]
    repeating: Float[np.ndarray, " d"]
    surprises: Int[np.ndarray, " d"]
    lightness: Float[np.ndarray, " sides"]

    @classmethod
    def of(cls, X: Float[np.ndarray, "n d"]) -> "InputBounds":
        """Return the bounds of finite rows, at least one; values that are `far_out` do not count."""
        far = far_out(X)
        different = 1 + (np.diff(np.sort(X, axis=0), axis=0) > 0.0).sum(axis=0)
        edge = np.concatenate([np.where(far, -np.inf, side).max(axis=0) for side in (X, -X)])
        repeating = np.where(different <= len(X) / 2, np.where(different <= LEVELS, FAR, REPEATING), 0.0)
        middle = np.median(X, axis=0)
        lightness = np.concatenate([_lightness(sign * (X - middle), far) for sign in (1.0, -1.0)])
        return cls._at(edge, repeating, lightness)

    @classmethod
    def none(cls, num_columns: int) -> "InputBounds":
        """Return no bounds: before there is any range."""
        return cls._at(np.full(2 * num_columns, np.inf), np.zeros(num_columns), np.ones(2 * num_columns))

    @classmethod
    def _at(cls, edge: np.ndarray, repeating: np.ndarray, lightness: np.ndarray) -> "InputBounds":
        count, far = np.zeros(len(edge), np.int64), np.full(len(edge), np.inf)
        met = np.full((len(edge), REMEMBERED), np.nan)
        return cls(edge, count, far, met, repeating, np.zeros(len(repeating), np.int64), lightness)

    def columns(self, columns: slice, *, remembers: bool = True) -> "InputBounds":
        """Return the bounds of some columns; unless it `remembers`, values that come again count as any others."""
        each = np.arange(len(self.repeating))[columns]
        sides = np.concatenate([each, each + len(self.repeating)])
        met = np.asarray(self.met)[sides]
        each_side = self.edge, self.count, self.least, self.lightness
        edge, count, least, lightness = (np.asarray(a)[sides] for a in each_side)
        repeating, surprises = np.asarray(self.repeating)[each], np.asarray(self.surprises)[each]
        return InputBounds(edge, count, least, met if remembers else met[:, :0], repeating, surprises, lightness)

    @cached_property
    def limits(self) -> Float[np.ndarray, " sides"]:
        """The bounds of ``X`` and of ``-X``: values of either stay below."""
        return np.asarray(self.edge) + MARGIN * self._widths

    @cached_property
    def _widths(self) -> Float[np.ndarray, " sides"]:
        edge = np.asarray(self.edge)
        columns = len(edge) // 2
        return np.tile(np.where(np.isinf(edge[:columns]), 0.0, edge[:columns] + edge[columns:]), 2)

    @cached_property
    def _far(self) -> Float[np.ndarray, " sides"]:
        """From where on values are far out: so many times as far from the middle of the range as its ends."""
        return self._from_middle(FAR)

    @cached_property
    def _counts_again(self) -> Float[np.ndarray, " sides"]:
        """Up to where values that come again count as others do."""
        return self._from_middle(np.tile(np.asarray(self.repeating), 2))

    def _from_middle(self, halves: Any) -> Float[np.ndarray, " sides"]:
        """Return what lies so many halves of the range's width from its middle; of one value, or any, infinity."""
        return np.where(self._widths > 0.0, np.asarray(self.edge) + 0.5 * (halves - 1.0) * self._widths, np.inf)

    @cached_property
    def ends(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """The least and the greatest value of every column."""
        columns = len(self.limits) // 2
        return -self.limits[columns:], self.limits[:columns]

    @cached_property
    def counts(self) -> bool:
        """Whether rows beyond are counted."""
        return bool(np.any(self.count))

    def hold(self, X: Float[np.ndarray, "n d"]) -> bool:
        """Return whether all values of rows are there, and within the bounds."""
        least, greatest = self.ends
        return bool(((least <= X) & (greatest >= X)).all())

    def clip(self, X: Float[np.ndarray, "n d"]) -> Bounded:
        """Return each row, which may have gaps (NaN), as if the next, moved to the bounds where it lies beyond."""
        least, greatest = self.ends
        clipped = np.minimum(np.maximum(X, least), greatest)
        beyond = (clipped != X) & ~np.isnan(X)
        if not beyond.any():
            return Bounded(clipped, beyond, beyond)
        columns, sides = X.shape[1], np.concatenate([X, -X], axis=1)
        doubtful = (sides > self.limits) & (self._come_again(sides) | (sides > self._far))
        return Bounded(clipped, beyond, doubtful[:, :columns] | doubtful[:, columns:])

    def _come_again(self, sides: Float[np.ndarray, "*n sides"]) -> Bool[np.ndarray, "*n sides"]:
        """Return which values beyond the bounds came before, and do not count for that."""
        again = np.zeros(sides.shape, bool)
        for values in np.asarray(self.met).T:
            again |= sides == values
        return again & (sides > self._counts_again)

    def learn(self, X: Float[np.ndarray, "n d"]) -> tuple["InputBounds", Bounded]:
        """Return the bounds after the rows, in order, and what `clip` gives for each by the bounds before it.

        However rows are cut into calls, the outcome is the same.
        """
        kept = self.clip(X)
        if not (self.counts or kept.beyond.any()):
            return self, kept
        bounds, parts = self, []
        while len(X):
            after, n = bounds._until_news(X)
            parts.append(bounds.clip(X[:n]))
            bounds, X = after, X[n:]
        return (bounds, Bounded(*map(np.concatenate, zip(*parts, strict=True)))) if parts else (self, kept)

    def _until_news(self, X: Float[np.ndarray, "n d"]) -> tuple["InputBounds", int]:
        """Return the bounds after the rows up to the first that changes what is said of others, or all; and how many.

        That is one that widens the range, or has a value beyond it that is new.
        """
        sides = np.concatenate([X, -X], axis=1)
        beyond = (sides > self.limits) & ~self._come_again(sides)
        count, least, done = np.asarray(self.count), np.asarray(self.least), 0
        for row in np.flatnonzero(beyond.any(axis=1)):
            at, side = beyond[row], sides[row]
            waned = np.maximum(count - (row - done), 0)  # of the rows between, in which nothing happened
            least = np.where(waned > 0, least, np.inf)
            count = np.where(at, waned + WORTH, np.maximum(waned - 1, 0))
            least = np.where(at, np.minimum(least, side), np.where(count > 0, least, np.inf))
            done = int(row) + 1
            met, wider = self._met_also(at, side), count >= ENOUGH
            if wider.any():
                edge = np.where(wider, least, self.edge)
                count, least = np.where(wider, 0, count), np.where(wider, np.inf, least)
                return replace(self, edge=edge, count=count, least=least, met=met), done
            if met is not self.met:
                return replace(self, count=count, least=least, met=met), done
        count = np.maximum(count - (len(X) - done), 0)
        return replace(self, count=count, least=np.where(count > 0, least, np.inf)), len(X)

    def surprised(self, x: Float[np.ndarray, " d"], count: Int[np.ndarray, " d"]) -> "InputBounds":
        """Return the bounds with so many `surprises`, after the row `x`: where they are enough, they reach there."""
        enough = count >= SURPRISES
        edge = np.where(np.tile(enough, 2), np.fmax(np.asarray(self.edge), np.concatenate([x, -x])), self.edge)
        return replace(self, edge=edge, surprises=np.where(enough, 0, count))

    def _met_also(self, at: Bool[np.ndarray, " sides"], values: Float[np.ndarray, " sides"]) -> Any:
        """Return the values met after one more on each of these sides; the same array where all were known."""
        met = np.asarray(self.met)
        new = at & ~(met == values[:, None]).any(axis=1)
        if not (new.any() and met.shape[1]):
            return self.met
        return np.where(new[:, None], np.concatenate([values[:, None], met[:, :-1]], axis=1), met)


def _lightness(distance: Float[np.ndarray, "n d"], far: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Return how light the tails are whose values lie so far from the median; those that are `far` do not count."""
    side = np.sort(np.where(far, 0.0, np.maximum(distance, 0.0)), axis=0)
    count = (side > 0.0).sum(axis=0)
    (most,) = np.take_along_axis(side, (len(side) - 1 - count // 10)[None], axis=0)
    return np.minimum(LIGHT * most, side[-1]) / np.where(side[-1] > 0.0, side[-1], 1.0) + (side[-1] <= 0.0)
