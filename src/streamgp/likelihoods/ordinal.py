"""Grades 0, 1, ..., J - 1, of which only the order counts: the cumulative probit."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.special
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, ndtr

from streamgp.likelihoods.base import Expansion, Likelihood, Values, picked
from streamgp.likelihoods.binary import hazard
from streamgp.numerics.checkpoint.encoding import register

_TINY = np.finfo(float).tiny
_ROOT = np.sqrt(2.0)
_LOG_HALF = -np.log(2.0)
_LOG_2PI = np.log(2.0 * np.pi)
# Beyond, the probabilities of tails are about to be too small for numbers.
_DEEP = 30.0


@register
class Ordinal(Likelihood):
    """Grade y where f + noise lies between the thresholds y - 1 and y, the noise being N(0, 1) (McCullagh 1980).

    Predictions are exact: f of variance s makes the noise N(0, 1 + s).

    Parameters
    ----------
    first
        The threshold between grades 0 and 1.
    gaps
        The distances between neighbouring thresholds, J - 2 of them.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"first": "real", "gaps": "positive"}

    first: Float[Values, "*batch"]
    gaps: Float[Values, "*batch j"]

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the log probability of the grade `y` between its thresholds."""
        return picked(self._log_grades(f[..., 0], 1.0), y)

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the log probability, its gradient and minus its second derivative."""
        return self.around(y)(f)

    def around(self, y: Float[Values, "..."]) -> Callable[[Values], Expansion]:
        """Return `expand` of these targets as a function of f alone."""
        below, above = self._around(y)
        if np.isinf(below).all():
            return lambda f: _expand_tail(above - f[..., 0], -1.0)
        if np.isinf(above).all():
            return lambda f: _expand_tail(f[..., 0] - below, 1.0)

        def at(f: Values) -> Expansion:
            ends = _ends(below - f[..., 0], above - f[..., 0])
            gradient, precision = _derivatives(ends)
            return Expansion(ends.log_p, gradient[..., None], precision[..., None, None])

        return at

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        below, above = self._around(y)
        ends = _ends(below - f[..., 0], above - f[..., 0])
        low, high, a, b, _ = ends
        gradient, precision = _derivatives(ends)
        third = b - a + (high * high * a - low * low * b) - gradient * (high * a - low * b + 2.0 * precision)
        return third[..., None] * along[..., 0]

    def by_hyperparameters(
        self,
        f: Float[Values, "... 1"],
        y: Float[Values, "..."],
        slope: Float[Values, "... 1"],
        along: Float[Values, "... 1 1"],
    ) -> dict[str, Float[Values, "..."]]:
        """Return the gradient by the first threshold and by the distances of the others."""
        below, above = self._around(y)
        low, high, a, b, _ = _ends(below - f[..., 0], above - f[..., 0])
        slope, along = slope[..., 0], along[..., 0, 0]
        both = a - b
        by_high, by_low = a * (high + both), b * (low + both)
        of_high = a + slope * by_high + along * (a - high * a * (high + a) + low * a * b - 2.0 * both * by_high)
        of_low = -b - slope * by_low + along * (high * a * b - b + low * b * (low - b) + 2.0 * both * by_low)
        # The thresholds on either side of the grade y are those after y - 1 and after y gaps.
        number = np.arange(self.gaps.shape[-1])
        at_high, at_low = (number < (y - k)[..., None] for k in (0.0, 1.0))
        return {"first": of_high + of_low, "gaps": of_high[..., None] * at_high + of_low[..., None] * at_low}

    def log_probabilities(self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]) -> Float[Values, "... j"]:
        """Return the log probability of every grade, in closed form."""
        return self._log_grades(loc[..., 0], np.sqrt(1.0 + cov[..., 0, 0]))

    def cdf(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the sum of the probabilities of the grades up to `y`."""
        p = np.exp(self.log_probabilities(loc, cov))
        return np.where(np.arange(p.shape[-1]) <= np.asarray(y)[..., None], p, 0.0).sum(-1)

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance of the grade's number."""
        p = np.exp(self.log_probabilities(loc, cov))
        grades = np.arange(float(p.shape[-1]))
        mean = p @ grades
        return mean, (p * (grades - mean[..., None]) ** 2).sum(-1)

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw grades: those of the latent values with noise."""
        noisy = f[..., 0] + draws.normal(size=f.shape[:-1])
        return (noisy[..., None] > self.thresholds()).sum(-1).astype(float)

    def thresholds(self) -> Any:
        """Return the J - 1 thresholds between neighbouring grades."""
        first = self.first[..., None]
        return np.concatenate([first, first + np.cumsum(self.gaps, axis=-1)], axis=-1)

    def _log_grades(self, mean: Any, scale: Any) -> Any:
        z = (self.thresholds() - mean[..., None]) / np.asarray(scale)[..., None]
        below, above = log_ndtr(z), log_ndtr(-z)
        # Between thresholds, the difference of the tails on the side where they are small.
        upper = z[..., :-1] > 0.0
        larger = np.where(upper, above[..., :-1], below[..., 1:])
        smaller = np.where(upper, above[..., 1:], below[..., :-1])
        less = np.minimum(smaller - larger, -_TINY)
        inner = larger + np.where(less > _LOG_HALF, np.log(-np.expm1(less)), np.log1p(-np.exp(less)))
        return np.concatenate([below[..., :1], inner, above[..., -1:]], axis=-1)

    def _around(self, y: Any) -> tuple[Any, Any]:
        """Return the thresholds below and above the grade."""
        t = self.thresholds()
        infinity = np.full((*t.shape[:-1], 1), np.inf)
        padded = np.concatenate([-infinity, t, infinity], axis=-1)
        return picked(padded, y), picked(padded, np.asarray(y) + 1.0)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"], num_grades: int | None = None) -> Self:
        """Start from the frequencies of the grades, as if there were half a target more of each.

        `num_grades` is given where grades may come that are above all in `y`; at least 2.
        """
        count = max(int(y.max(initial=0)) + 1, 2) if num_grades is None else num_grades
        counts = np.bincount(y.astype(int), minlength=count) + 0.5
        thresholds = scipy.special.ndtri(np.cumsum(counts)[:-1] / counts.sum())
        return cls(np.asarray(thresholds[0]), np.diff(thresholds))


class _Ends(NamedTuple):
    """The ends of a grade from the latent value (zero where infinite), their densities over its probability, its log.

    The density at an infinite end is zero.
    """

    low: Any
    high: Any
    at_high: Any
    at_low: Any
    log_p: Any


def _ends(low: Any, high: Any) -> _Ends:
    # The interval is mirrored so that its middle is no less than zero: the probabilities beyond its ends have digits.
    mirrored = low + high < 0.0
    near, far = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    if (near > _DEEP).any():
        at_near, at_far, log_p = _in_the_tail(near, far)
    else:
        beyond_far, beyond_near = ndtr(-far), ndtr(-near)
        p = np.maximum(beyond_near - beyond_far, _TINY)
        log_p = np.where(p > 0.5, np.log1p(-ndtr(near) - beyond_far), np.log(p))
        at_near, at_far = _density(near) / p, _density(far) / p
    at_high, at_low = np.where(mirrored, at_near, at_far), np.where(mirrored, at_far, at_near)
    return _Ends(np.where(np.isinf(low), 0.0, low), np.where(np.isinf(high), 0.0, high), at_high, at_low, log_p)


def _in_the_tail(near: Any, far: Any) -> tuple[Any, Any, Any]:
    """Return the densities at the ends over the probability between them, and its log, however far out they are.

    With M Mills' ratio, a tail is the density times M.
    """
    tail = near > 0.0
    out = np.maximum(near, 0.0)
    beyond = np.where(np.isinf(far), near, far)
    # The density at the far end over that at the near one.
    ratio = np.where(np.isinf(far), 0.0, np.exp(-0.5 * (beyond - near) * (beyond + near)))
    mills = np.sqrt(0.5 * np.pi) * (erfcx(out / _ROOT) - ratio * erfcx(np.maximum(beyond, 0.0) / _ROOT))
    mills = np.maximum(mills, _TINY)
    middle = np.maximum(ndtr(-near) - ndtr(-far), _TINY)
    at_near = np.where(tail, 1.0 / mills, _density(near) / middle)
    at_far = np.where(tail, at_near * ratio, _density(far) / middle)
    return at_near, at_far, np.where(tail, np.log(mills) - 0.5 * (out * out + _LOG_2PI), np.log(middle))


def _expand_tail(z: Any, sign: float) -> Expansion:
    """Expand the log of the probability below z, which falls or rises with the latent value: that of an end grade."""
    slope, curve = hazard(z)
    return Expansion(log_ndtr(z), (sign * slope)[..., None], curve[..., None, None])


def _density(z: Any) -> Any:
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def _derivatives(ends: _Ends) -> tuple[Any, Any]:
    """Return the gradient by the latent value, and minus the second derivative: a share of the noise's precision."""
    low, high, a, b, _ = ends
    both = a - b
    return -both, np.clip(high * a - low * b + both * both, 0.0, 1.0)
