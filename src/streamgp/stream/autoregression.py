"""Rows as a first-order vector autoregression, and what is missing in them given all that was observed.

x_t = a + A x_(t-1) + e with e ~ N(0, C); the coefficients come from discounted moments of the rows before: a ridge
regression of every column on the others of its row, on its own last value and on theirs. What is missing is then
Gaussian given the rest of the row and what is believed of the row before: a step of a Kalman filter, which also
revises that belief.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

_MEMORY = 4_000.0  # rows that the moments remember
_START = 0.5  # rows with the variance of the first rows that the moments begin with
_RIDGE = 0.5  # of the columns' variance, times the square of regressors per row
_REACH = 6.0  # standard deviations at which values are cut before they enter the moments
_ABSURD = 3.0  # times that, from which on values count for less and less
_FIRST_REACH = 8.0  # the same, in robust ones, for the first rows
_MIN_MOVES = 4  # of the last rows, before a column that stood still is taken to move

Row = Float[np.ndarray, " d"]
Rows = Float[np.ndarray, "n d"]


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
        How far from its mean a value of each column may lie.
    """

    center: Row
    scale: Row
    total: Float[np.ndarray, "m m"]
    reach: Row

    @classmethod
    def of_first(cls, rows: Rows, pairs: Float[np.ndarray, "p k"]) -> "RowMoments":
        """Return the moments of the first rows, with their gaps, and of their pairs (x_t, x_(t-1)), without."""
        width = rows.shape[1]
        center = _medians(rows)
        scale = _robust_std(rows - center)
        scale[scale == 0.0] = 1.0
        # A little variance at the start, so that none is zero.
        start = cls(center, scale, np.diag(np.r_[1.0, np.full(2 * width, _START)]), np.full(width, _FIRST_REACH))
        return start._with(pairs, np.zeros_like(start.total))

    def add(self, rows: Rows, pairs: Float[np.ndarray, "p k"], filled_cov: Float[np.ndarray, "m m"]) -> "RowMoments":
        """Return the moments with the next rows and their pairs, and the covariance of what was filled in these."""
        deviations = self.scaled(rows) - self.mean
        reach = _REACH * np.maximum(self.std, _robust_std(deviations))
        return replace(self, reach=reach)._with(pairs, filled_cov)

    def _with(self, pairs: Float[np.ndarray, "p k"], filled_cov: Float[np.ndarray, "m m"]) -> "RowMoments":
        z = (pairs - np.tile(self.center, 2)) / np.tile(self.scale, 2)
        middle, reach = np.tile(self.mean, 2), np.tile(self.reach, 2)
        z = np.column_stack([np.ones(len(z)), middle + _draw_in(z - middle, reach)])
        unit = np.r_[1.0, self.scale, self.scale]
        kept = 1.0 - len(pairs) / _MEMORY
        return replace(self, total=kept * self.total + z.T @ z + filled_cov / np.outer(unit, unit))

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Return rows in units of the moments."""
        return (X - self.center) / self.scale

    @cached_property
    def mean(self) -> Row:
        """Mean of every column, in scaled units."""
        return self.total[0, 1 : 1 + len(self.center)] / self.total[0, 0]

    @cached_property
    def std(self) -> Row:
        """Standard deviation of every column, in scaled units."""
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
        ridge = np.eye(width) * (_RIDGE * (2.0 * width / count) ** 2 + 1e-6)
        lag = np.linalg.solve(corr[last, last] + ridge, corr[last, now]).T
        crossed = lag @ corr[last, now]
        left = corr[now, now] - crossed - crossed.T + lag @ corr[last, last] @ lag.T
        precision = np.linalg.inv(0.5 * (left + left.T) + ridge) / np.outer(std[now], std[now])
        lag = std[now, None] * lag / std[last]
        cross = precision @ lag
        return Autoregression(mean[now] - lag @ mean[last], lag, precision, cross, lag.T @ cross)


def _draw_in(deviations: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return deviations of at most `reach`; of absurd ones, the less the further out they lie."""
    absurd = np.abs(deviations) > _ABSURD * reach
    less = _ABSURD * np.square(reach) / np.where(absurd, deviations, 1.0)
    return np.where(absurd, less, np.clip(deviations, -reach, reach))


def _robust_std(deviations: Rows) -> Row:
    """Return a scale of each column that a few glitches do not move: by the median of non-zero ones; 0 of too few."""
    sizes = np.abs(deviations)
    sizes[sizes == 0.0] = np.nan
    enough = np.count_nonzero(~np.isnan(sizes), axis=0) >= _MIN_MOVES
    return np.where(enough, 1.4826 * _medians(sizes), 0.0)


def _medians(rows: Rows) -> Row:
    """Return the median of each column without its gaps, 0 of none: by one sort, unlike `np.nanmedian`."""
    count = np.count_nonzero(~np.isnan(rows), axis=0)
    ordered, columns = np.sort(rows, axis=0), np.arange(rows.shape[1])  # NaN comes last
    middle = 0.5 * (ordered[np.maximum(count - 1, 0) // 2, columns] + ordered[count // 2, columns])
    return np.where(count > 0, middle, 0.0)


class Belief(NamedTuple):
    """A row as far as it is known: its mean, and its covariance, zero for entries that were observed."""

    mean: Row
    cov: Float[np.ndarray, "d d"]


class Step(NamedTuple):
    """A row after one that was believed in: what is believed of it, of the one before, and of both together."""

    now: Belief
    before: Row
    entries: Float[np.ndarray, " m"]  # of (x_t, x_(t-1)) that are not known
    cov: Float[np.ndarray, "m m"]  # the covariance of those


def step(moments: RowMoments, last: Belief, x: Row) -> Step:
    """Fill the row `x`, in units of the data, from its own entries and the belief in the row before."""
    width, model, scale = len(x), moments.model, moments.scale
    middle, reach = moments.mean, moments.reach
    f = middle + _draw_in(moments.scaled(last.mean) - middle, reach)
    m, b = np.flatnonzero(np.isnan(x)), np.flatnonzero(np.diag(last.cov) > 0.0)
    ahead = model.start + model.lag @ f
    off = middle + _draw_in(moments.scaled(x) - middle, reach) - ahead
    off[m] = 0.0
    V = last.cov[np.ix_(b, b)] / np.outer(scale[b], scale[b])
    omega = np.zeros((len(m) + len(b),) * 2)
    omega[: len(m), : len(m)] = model.precision[np.ix_(m, m)]
    omega[: len(m), len(m) :] = -model.cross[np.ix_(m, b)]
    omega[len(m) :, : len(m)] = omega[: len(m), len(m) :].T
    omega[len(m) :, len(m) :] = model.inner[np.ix_(b, b)] + np.linalg.inv(V + 1e-9 * np.diag(np.diag(V)))
    joint = np.linalg.inv(omega)
    moved = joint @ np.r_[-(model.precision[m] @ off), model.cross[:, b].T @ off]
    filled, before = x.copy(), last.mean.copy()
    filled[m] = moments.center[m] + scale[m] * np.clip(
        ahead[m] + moved[: len(m)], (middle - reach)[m], (middle + reach)[m]
    )
    before[b] = moments.center[b] + scale[b] * (f[b] + moved[len(m) :])
    unit = np.r_[scale[m], scale[b]]
    joint = 0.5 * (joint + joint.T) * np.outer(unit, unit)
    cov = np.zeros((width, width))
    cov[np.ix_(m, m)] = joint[: len(m), : len(m)]
    return Step(Belief(filled, cov), before, np.r_[m, width + b], joint)


def draw(moments: RowMoments, last: Rows, x: Row, rng: np.random.Generator) -> Rows:
    """Draw what is missing of the row `x`, in units of the data, given its own entries and each of some last rows."""
    model, scale, middle, reach = moments.model, moments.scale, moments.mean, moments.reach
    m, drawn = np.flatnonzero(np.isnan(x)), np.tile(x, (len(last), 1))
    ahead = model.start + (middle + _draw_in(moments.scaled(last) - middle, reach)) @ model.lag.T
    off = middle + _draw_in(moments.scaled(x) - middle, reach) - ahead
    off[:, m] = 0.0
    precision = model.precision[np.ix_(m, m)]
    moved = np.linalg.solve(precision, model.precision[m] @ off.T).T
    spread = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=(len(m), len(last)))).T
    new = np.clip(ahead[:, m] - moved + spread, (middle - reach)[m], (middle + reach)[m])
    drawn[:, m] = moments.center[m] + scale[m] * new
    return drawn


def filter_rows(moments: RowMoments, last: Belief, X: Rows) -> Iterator[tuple[int, Step]]:
    """Yield the steps of those rows with a gap, or after one, in order."""
    gaps = np.asarray(np.isnan(X).any(axis=1))
    open_ended = bool(last.cov.any())
    if not open_ended and not gaps.any():
        return
    for i in range(len(X)):
        if i > 0 and not open_ended:
            last = Belief(X[i - 1], np.zeros_like(last.cov))
        if gaps[i] or open_ended:
            found = step(moments, last, X[i])
            last, open_ended = found.now, bool(gaps[i])
            yield i, found
