"""Missing inputs, imputed with their uncertainty from the rest of their row and from the rows before."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.autoregression import Belief, Row, RowMoments, Rows, draw, filter_rows, step

REFRESH = 64  # coefficients change at row counts that are multiples of it, however rows are cut
EARLY = (8, 16, 32)  # and at these
WIDEST = 256  # columns that are filled from each other
_PROBED = 32  # rows at most that are probed for each column


class Filled(NamedTuple):
    """Rows without gaps: the conditional mean for every entry that was missing, and the variance of each.

    The variance is zero where an entry was observed.
    """

    X: Rows
    var: Rows


@register
@dataclass(frozen=True)
class ColumnsImputer:
    """What is known of some columns after some rows; no method changes it.

    Attributes
    ----------
    rows
        Rows learnt.
    last, uncertain
        The last row without its gaps, and the covariance of what was missing.
    moments
        Of the rows up to the last refresh; None before the first.
    raw, pairs
        The last 64 rows, with their gaps; and without, each beside the row before it.
    filled_cov
        Covariance of what was missing in the pairs since the last refresh, summed up.
    """

    rows: int
    last: Row
    uncertain: Float[np.ndarray, "d d"]
    moments: RowMoments | None
    raw: Rows
    pairs: Float[np.ndarray, "p k"]
    filled_cov: Float[np.ndarray, "m m"]

    @classmethod
    def empty(cls, width: int) -> "ColumnsImputer":
        """Return what is known before any row of so many columns."""
        nothing = np.zeros((width, width))
        filled_cov = np.zeros((2 * width + 1,) * 2)
        return cls(
            0, np.full(width, np.nan), nothing, None, np.zeros((0, width)), np.zeros((0, 2 * width)), filled_cov
        )

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.last)

    def fill(self, X: Rows, center: Row, scale: Row) -> Filled:
        """Fill each row as if it were the next; where nothing is known, by `center` with the variance `scale` ^ 2."""
        filled, var = X.copy(), np.zeros_like(X)
        for i in np.flatnonzero(np.isnan(X).any(axis=1)):
            if self.moments is None:
                now = self._unlearnt(X[i], center, scale)
            else:
                now = step(self.moments, Belief(self.last, self.uncertain), X[i]).now
            filled[i], var[i] = now.mean, np.diag(now.cov)
        return Filled(filled, var)

    def learn(self, X: Rows, center: Row, scale: Row) -> tuple[Filled, "ColumnsImputer"]:
        """Fill the rows in order, each from the ones before, and learn from them; see `fill`."""
        parts, imputer, at = [], self, 0
        while at < len(X):
            stop = min(len(X), at + imputer._until_refresh())
            if imputer.moments is None:
                stop = at + 1
            filled, imputer = imputer._learn(X[at:stop], center, scale)
            parts.append(filled)
            at = stop
        return Filled(*(np.concatenate(part) for part in zip(*parts, strict=True))), imputer

    def refill(self, X: Rows) -> Filled:
        """Fill all rows of a stream from its beginning by what is known now, after them."""
        if not np.isnan(X).any():
            return Filled(X, np.zeros_like(X))
        moments = RowMoments.of_first(X, np.zeros((0, 2 * X.shape[1]))) if self.moments is None else self.moments
        start = moments.center + moments.scale * moments.mean
        filled, var = X.copy(), np.zeros_like(X)
        for i, found in filter_rows(moments, Belief(start, np.diag(np.square(moments.scale * moments.std))), X):
            filled[i], var[i] = found.now.mean, np.diag(found.now.cov)
        return Filled(filled, var)

    def paths(self, X: Rows, center: Row, scale: Row, n: int, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield the next rows in order, each drawn n times, after what was drawn of the row before; see `fill`.

        What is missing is drawn given the rest of its row, and not what is known of later ones.
        """
        now = np.tile(np.where(np.isnan(self.last), center, self.last), (n, 1))
        spread = np.flatnonzero(np.diag(self.uncertain) > 0.0)
        if len(spread):
            root = np.linalg.cholesky(self.uncertain[np.ix_(spread, spread)])
            now[:, spread] += rng.normal(size=(n, len(spread))) @ root.T
        for x in X:
            if not np.isnan(x).any():
                now = np.tile(x, (n, 1))
            elif self.moments is None:
                now = np.where(np.isnan(x), now + scale * rng.normal(size=now.shape), x)
            else:
                now = draw(self.moments, now, x, rng)
            yield now

    @property
    def recent(self) -> Rows:
        """The last rows, each once, without gaps."""
        if not len(self.pairs):
            return self.last[None]
        return np.concatenate([self.pairs[:1, self.width :], self.pairs[:, : self.width]])[-REFRESH:]

    def steps(self, scale: Row) -> Row:
        """Return how uncertain a single missing entry of each column is; `scale` where nothing is known."""
        if self.moments is None:
            return scale
        return self.moments.scale / np.sqrt(np.diag(self.moments.model.precision))

    def _until_refresh(self) -> int:
        return min(end for end in (*EARLY, self.rows + REFRESH - self.rows % REFRESH) if end > self.rows) - self.rows

    def _unlearnt(self, x: Row, center: Row, scale: Row) -> Belief:
        """Fill a row before there are moments: by the last value, or the centre."""
        gaps = np.isnan(x)
        known = np.where(np.isnan(self.last), center, self.last)
        return Belief(np.where(gaps, known, x), np.diag(np.where(gaps, np.square(scale), 0.0)))

    def _learn(self, X: Rows, center: Row, scale: Row) -> tuple[Filled, "ColumnsImputer"]:
        """Learn rows up to the next refresh at most; a single one while there are no moments."""
        filled, var, filled_cov = X.copy(), np.zeros_like(X), self.filled_cov
        last = Belief(self.last, self.uncertain)
        now = last
        if self.moments is None:
            now = self._unlearnt(X[0], center, scale)
            filled[0], var[0] = now.mean, np.diag(now.cov)
            pairs = np.concatenate([filled, last.mean[None]], axis=1)[: self.rows]
        else:
            pairs, filled_cov = (
                np.concatenate([X, np.concatenate([last.mean[None], X[:-1]])], axis=1),
                filled_cov.copy(),
            )
            width = X.shape[1]
            for i, found in filter_rows(self.moments, last, X):
                filled[i], var[i] = found.now.mean, np.diag(found.now.cov)
                pairs[i] = np.r_[found.now.mean, found.before]
                filled_cov[np.ix_(1 + found.entries, 1 + found.entries)] += found.cov
                now = found.now
            if not np.isnan(X[-1]).any():
                now = Belief(X[-1], np.zeros((width, width)))
        grown = replace(
            self,
            rows=self.rows + len(X),
            last=now.mean,
            uncertain=now.cov,
            raw=np.concatenate([self.raw, X])[-REFRESH:],
            pairs=np.concatenate([self.pairs, pairs])[-REFRESH:],
            filled_cov=filled_cov,
        )
        return Filled(filled, var), grown._refreshed()

    def _refreshed(self) -> "ColumnsImputer":
        """Return it with the moments of all rows so far, where it is time for that."""
        if self.rows not in EARLY and self.rows % REFRESH:
            return self
        if self.rows <= REFRESH or self.moments is None:
            return replace(
                self, moments=RowMoments.of_first(self.raw, self.pairs), filled_cov=np.zeros_like(self.filled_cov)
            )
        moments = self.moments.add(self.raw, self.pairs, self.filled_cov)
        return replace(self, moments=moments, filled_cov=np.zeros_like(self.filled_cov))


@register
@dataclass(frozen=True)
class Imputer:
    """What is known of all inputs after some rows; no method changes it.

    Of many columns, each run of 256 is filled from its own rows alone, so that work and memory grow with their number
    and not with its square.
    """

    groups: tuple[ColumnsImputer, ...]

    @classmethod
    def empty(cls, width: int) -> "Imputer":
        """Return what is known before any row of so many columns."""
        count = -(-width // WIDEST)
        ends = [width * i // max(count, 1) for i in range(count + 1)]
        return cls(tuple(ColumnsImputer.empty(stop - start) for start, stop in pairwise(ends)))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return sum(group.width for group in self.groups)

    def fill(self, X: Rows, center: Row, scale: Row) -> Filled:
        """Fill each row as if it were the next; where nothing is known, by `center` with the variance `scale` ^ 2."""
        return _beside([group.fill(X[:, at], center[at], scale[at]) for group, at in self._places()], X)

    def learn(self, X: Rows, center: Row, scale: Row) -> tuple[Filled, "Imputer"]:
        """Fill the rows in order, each from the ones before, and learn from them; see `fill`."""
        found = [group.learn(X[:, at], center[at], scale[at]) for group, at in self._places()]
        return _beside([filled for filled, _ in found], X), Imputer(tuple(group for _, group in found))

    def refill(self, X: Rows) -> Filled:
        """Fill all rows of a stream from its beginning by what is known now, after them."""
        return _beside([group.refill(X[:, at]) for group, at in self._places()], X)

    def paths(self, X: Rows, center: Row, scale: Row, n: int, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield the next rows in order, each drawn n times; see `ColumnsImputer.paths`."""
        parts = [group.paths(X[:, at], center[at], scale[at], n, rng) for group, at in self._places()]
        for _ in X:
            yield np.concatenate([np.zeros((n, 0)), *(next(part) for part in parts)], axis=1)

    def probes(
        self, most: int, scale: Row
    ) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, "m d"], Float[np.ndarray, " d"]]:
        """Return rows, at most `most`, that show what a gap in each column does to a model's predictions.

        Returns
        -------
        base, moved, steps
            Some of the last rows (k, D); for every column in turn, those with that column moved by its step (D k, D);
            and the steps: how uncertain a single missing entry of the column is.
        """
        recent = np.concatenate([group.recent for group in self.groups], axis=1)
        steps = np.concatenate([group.steps(scale[at]) for group, at in self._places()])
        base = recent[-min(_PROBED, max(most // self.width, 2)) :]
        signs = np.where(np.arange(len(base)) % 2, -1.0, 1.0)
        moved = np.tile(base, (self.width, 1, 1))
        columns = np.arange(self.width)
        moved[columns, :, columns] += signs * steps[:, None]
        return base, moved.reshape(-1, self.width), steps

    def _places(self) -> Iterator[tuple[ColumnsImputer, slice]]:
        at = 0
        for group in self.groups:
            yield group, slice(at, at + group.width)
            at += group.width


def _beside(parts: list[Filled], X: Rows) -> Filled:
    """Return the columns of all parts; of no columns, the rows as they are."""
    return Filled(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True))) if parts else Filled(X, X)
