"""Missing inputs, filled from the rest of their row and from the rows before, each with its uncertainty.

Rows are taken for a first-order vector autoregression, x_t = a + A x_(t-1) + e with e ~ N(0, C), whose coefficients
come from discounted moments of the rows before: a ridge regression of every column on the others of its row, on its
own last value and on theirs. What is missing is then Gaussian given all that was observed (a Kalman filter's step).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.serialise import register

REFRESH = 64  # coefficients change at row counts that are multiples of it, however rows are cut
EARLY = (8, 16, 32)  # and at these
_MEMORY = 4_000.0  # rows that the moments remember
_RIDGE = 0.5  # rows of the columns' own variance
_REACH = 6.0  # standard deviations at which values are cut before they enter the moments
_FIRST_REACH = 8.0  # the same, in robust ones, for the first rows
_PROBED = 32  # rows at most that are probed for each column
_LEAST_MOVES = 4  # of the last rows, before a column that stood still is taken to move

Row = Float[np.ndarray, " d"]
Rows = Float[np.ndarray, "n d"]


class Filled(NamedTuple):
    """Rows without gaps: the conditional mean for every entry that was missing, and the variance of each.

    The variance is zero where an entry was observed.
    """

    X: Rows
    var: Rows


class Autoregression(NamedTuple):
    """x_t = start + lag x_(t-1) + e in scaled units; `precision` is that of e, P; `cross` is P A, `inner` A' P A."""

    start: Row
    lag: Float[np.ndarray, "d d"]
    precision: Float[np.ndarray, "d d"]
    cross: Float[np.ndarray, "d d"]
    inner: Float[np.ndarray, "d d"]


@register
@dataclass(frozen=True)
class RowMoments:
    """Discounted sums over pairs of consecutive rows, in units that the first rows set.

    Attributes
    ----------
    center, scale
        What zero and one stand for.
    total
        Sum of (1, x_t, x_(t-1)) times its transpose, shape (2 D + 1, 2 D + 1).
    reach
        How far from its mean a value of each column may lie; one that lies further out is moved there.
    """

    center: Row
    scale: Row
    total: Float[np.ndarray, "m m"]
    reach: Row

    @classmethod
    def of_first(cls, rows: Rows, pairs: Float[np.ndarray, "p k"]) -> "RowMoments":
        """Of the first rows, with their gaps, and of their pairs (x_t, x_(t-1)), without."""
        width = rows.shape[1]
        center, scale = np.zeros(width), np.ones(width)
        for j, column in enumerate(rows.T):
            seen = column[~np.isnan(column)]
            if len(seen):
                center[j] = np.median(seen)
                scale[j] = _spread(seen - center[j]) or 1.0
        # A little variance at the start, so that none is zero.
        start = cls(center, scale, np.diag(np.r_[1.0, np.full(2 * width, _RIDGE)]), np.full(width, _FIRST_REACH))
        return start._with(pairs, np.zeros_like(start.total))

    def add(self, rows: Rows, pairs: Float[np.ndarray, "p k"], spread: Float[np.ndarray, "m m"]) -> "RowMoments":
        """With the next rows and their pairs, and the covariance of what was filled in these."""
        deviations = self.scaled(rows) - self.mean
        recent = np.array([_spread(column[~np.isnan(column)]) for column in deviations.T])
        return replace(self, reach=_REACH * np.maximum(self.std, recent))._with(pairs, spread)

    def _with(self, pairs: Float[np.ndarray, "p k"], spread: Float[np.ndarray, "m m"]) -> "RowMoments":
        z = (pairs - np.tile(self.center, 2)) / np.tile(self.scale, 2)
        middle, reach = np.tile(self.mean, 2), np.tile(self.reach, 2)
        z = np.column_stack([np.ones(len(z)), np.clip(z, middle - reach, middle + reach)])
        unit = np.r_[1.0, self.scale, self.scale]
        kept = 1.0 - len(pairs) / _MEMORY
        return replace(self, total=kept * self.total + z.T @ z + spread / np.outer(unit, unit))

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Rows in units of the moments."""
        return (X - self.center) / self.scale

    @cached_property
    def mean(self) -> Row:
        """Of every column, in scaled units."""
        return self.total[0, 1 : 1 + len(self.center)] / self.total[0, 0]

    @cached_property
    def std(self) -> Row:
        """Of every column, in scaled units."""
        square = np.diag(self.total)[1 : 1 + len(self.center)] / self.total[0, 0]
        return np.sqrt(np.maximum(square - self.mean**2, 1e-12))

    @cached_property
    def model(self) -> Autoregression:
        """The regression of a row on the one before."""
        width, count = len(self.center), self.total[0, 0]
        mean = self.total[0, 1:] / count
        cov = self.total[1:, 1:] / count - np.outer(mean, mean)
        std = np.sqrt(np.maximum(np.diag(cov), 1e-12))
        corr = cov / np.outer(std, std)
        now, last = slice(0, width), slice(width, 2 * width)
        ridge = np.eye(width) * (_RIDGE / count + 1e-6)
        lag = np.linalg.solve(corr[last, last] + ridge, corr[last, now]).T
        crossed = lag @ corr[last, now]
        left = corr[now, now] - crossed - crossed.T + lag @ corr[last, last] @ lag.T
        precision = np.linalg.inv(0.5 * (left + left.T) + ridge) / np.outer(std[now], std[now])
        lag = std[now, None] * lag / std[last]
        cross = precision @ lag
        return Autoregression(mean[now] - lag @ mean[last], lag, precision, cross, lag.T @ cross)


def _spread(deviations: np.ndarray) -> float:
    """A scale that a few glitches do not move: by the median of the deviations that are not zero; 0 of too few."""
    sizes = np.abs(deviations[deviations != 0.0])
    return 1.4826 * float(np.median(sizes)) if len(sizes) >= _LEAST_MOVES else 0.0


class _Belief(NamedTuple):
    """A row as far as it is known: its mean, and its covariance, zero for entries that were observed."""

    mean: Row
    cov: Float[np.ndarray, "d d"]


class _Step(NamedTuple):
    """A row after one that was believed in: what is believed of it, of the one before, and of both together."""

    now: _Belief
    before: Row
    entries: Float[np.ndarray, " m"]  # of (x_t, x_(t-1)) that are not known
    spread: Float[np.ndarray, "m m"]  # the covariance of those


def _step(moments: RowMoments, last: _Belief, x: Row) -> _Step:
    """Fill the row `x`, in units of the data, from its own entries and the belief in the row before."""
    width, model, scale = len(x), moments.model, moments.scale
    low, high = moments.mean - moments.reach, moments.mean + moments.reach
    f = np.clip(moments.scaled(last.mean), low, high)
    m, b = np.flatnonzero(np.isnan(x)), np.flatnonzero(np.diag(last.cov) > 0.0)
    ahead = model.start + model.lag @ f
    off = np.clip(moments.scaled(x), low, high) - ahead
    off[m] = 0.0
    V = last.cov[np.ix_(b, b)] / np.outer(scale[b], scale[b])
    omega = np.zeros((len(m) + len(b),) * 2)
    omega[: len(m), : len(m)] = model.precision[np.ix_(m, m)]
    omega[: len(m), len(m) :] = -model.cross[np.ix_(m, b)]
    omega[len(m) :, : len(m)] = omega[: len(m), len(m) :].T
    omega[len(m) :, len(m) :] = model.inner[np.ix_(b, b)] + np.linalg.inv(V + 1e-9 * np.diag(np.diag(V)))
    spread = np.linalg.inv(omega)
    moved = spread @ np.r_[-(model.precision[m] @ off), model.cross[:, b].T @ off]
    filled, before = x.copy(), last.mean.copy()
    filled[m] = moments.center[m] + scale[m] * np.clip(ahead[m] + moved[: len(m)], low[m], high[m])
    before[b] = moments.center[b] + scale[b] * (f[b] + moved[len(m) :])
    unit = np.r_[scale[m], scale[b]]
    spread = 0.5 * (spread + spread.T) * np.outer(unit, unit)
    cov = np.zeros((width, width))
    cov[np.ix_(m, m)] = spread[: len(m), : len(m)]
    return _Step(_Belief(filled, cov), before, np.r_[m, width + b], spread)


def _filter(moments: RowMoments, last: _Belief, X: Rows) -> Iterator[tuple[int, _Step]]:
    """The steps of those rows with a gap, or after one, in order."""
    gaps = np.isnan(X).any(axis=1)
    open_ended = bool(last.cov.any())
    for i in range(len(X)):
        if i > 0 and not open_ended:
            last = _Belief(X[i - 1], np.zeros_like(last.cov))
        if gaps[i] or open_ended:
            step = _step(moments, last, X[i])
            last, open_ended = step.now, bool(gaps[i])
            yield i, step


@register
@dataclass(frozen=True)
class Imputer:
    """What is known of the inputs after some rows; no method changes it.

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
    spread
        Covariance of what was missing in the pairs since the last refresh, summed up.
    """

    rows: int
    last: Row
    uncertain: Float[np.ndarray, "d d"]
    moments: RowMoments | None
    raw: Rows
    pairs: Float[np.ndarray, "p k"]
    spread: Float[np.ndarray, "m m"]

    @classmethod
    def empty(cls, width: int) -> "Imputer":
        """Before any row of so many columns."""
        nothing = np.zeros((width, width))
        spread = np.zeros((2 * width + 1,) * 2)
        return cls(0, np.full(width, np.nan), nothing, None, np.zeros((0, width)), np.zeros((0, 2 * width)), spread)

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
                now = _step(self.moments, _Belief(self.last, self.uncertain), X[i]).now
            filled[i], var[i] = now.mean, np.diag(now.cov)
        return Filled(filled, var)

    def learn(self, X: Rows, center: Row, scale: Row) -> tuple[Filled, "Imputer"]:
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
        for i, step in _filter(moments, _Belief(start, np.diag(np.square(moments.scale * moments.std))), X):
            filled[i], var[i] = step.now.mean, np.diag(step.now.cov)
        return Filled(filled, var)

    def probes(self, most: int, scale: Row) -> tuple[Rows, Rows, Row]:
        """Rows by which a model may find out what a gap in each column does to its predictions.

        Returns
        -------
        base, moved, steps
            Some of the last rows (k, D); for every column in turn, those with that column moved by its step (D k, D);
            and the steps: how uncertain a single missing entry of the column is.
        """
        recent = np.concatenate([self.pairs[:, : self.width], self.last[None]])[-REFRESH:]
        base = recent[-min(_PROBED, max(most // self.width, 2)) :]
        steps = scale
        if self.moments is not None:
            steps = self.moments.scale / np.sqrt(np.diag(self.moments.model.precision))
        signs = np.where(np.arange(len(base)) % 2, -1.0, 1.0)
        moved = np.tile(base, (self.width, 1, 1))
        moved[np.arange(self.width), :, np.arange(self.width)] += signs * steps[:, None]
        return base, moved.reshape(-1, self.width), steps

    def _until_refresh(self) -> int:
        return min(end for end in (*EARLY, self.rows + REFRESH - self.rows % REFRESH) if end > self.rows) - self.rows

    def _unlearnt(self, x: Row, center: Row, scale: Row) -> _Belief:
        """Before there are moments: the last value, or the centre."""
        gaps = np.isnan(x)
        known = np.where(np.isnan(self.last), center, self.last)
        return _Belief(np.where(gaps, known, x), np.diag(np.where(gaps, np.square(scale), 0.0)))

    def _learn(self, X: Rows, center: Row, scale: Row) -> tuple[Filled, "Imputer"]:
        """Learn rows up to the next refresh at most; a single one while there are no moments."""
        filled, var, spread = X.copy(), np.zeros_like(X), self.spread
        last = _Belief(self.last, self.uncertain)
        now = last
        if self.moments is None:
            now = self._unlearnt(X[0], center, scale)
            filled[0], var[0] = now.mean, np.diag(now.cov)
            pairs = np.concatenate([filled, last.mean[None]], axis=1)[: self.rows]
        else:
            pairs, spread = np.concatenate([X, np.concatenate([last.mean[None], X[:-1]])], axis=1), spread.copy()
            width = X.shape[1]
            for i, step in _filter(self.moments, last, X):
                filled[i], var[i] = step.now.mean, np.diag(step.now.cov)
                pairs[i] = np.r_[step.now.mean, step.before]
                spread[np.ix_(1 + step.entries, 1 + step.entries)] += step.spread
                now = step.now
            if not np.isnan(X[-1]).any():
                now = _Belief(X[-1], np.zeros((width, width)))
        grown = replace(
            self,
            rows=self.rows + len(X),
            last=now.mean,
            uncertain=now.cov,
            raw=np.concatenate([self.raw, X])[-REFRESH:],
            pairs=np.concatenate([self.pairs, pairs])[-REFRESH:],
            spread=spread,
        )
        return Filled(filled, var), grown._refreshed()

    def _refreshed(self) -> "Imputer":
        """With the moments of all rows so far, where it is time for that."""
        if self.rows not in EARLY and self.rows % REFRESH:
            return self
        if self.rows <= REFRESH or self.moments is None:
            return replace(self, moments=RowMoments.of_first(self.raw, self.pairs), spread=np.zeros_like(self.spread))
        moments = self.moments.add(self.raw, self.pairs, self.spread)
        return replace(self, moments=moments, spread=np.zeros_like(self.spread))
