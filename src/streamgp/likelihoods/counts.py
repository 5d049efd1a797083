"""Counts 0, 1, 2, ...: Poisson and negative binomial, with the logarithm of the mean as f + intercept.

All is written in u, the log of the mean less that of the count (or of 1, of the count 0), and log n! by Stirling's
series: what is left is no difference of large numbers, and counts of any size keep their digits.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods.base import Expansion, Likelihood, Values
from streamgp.likelihoods.count_integrals import (
    LOG_2PI,
    cdf,
    excess,
    log_predictive,
    sharpness,
    stirling,
    stirling_slope,
    tabulate,
)
from streamgp.numerics.checkpoint.encoding import register

# The largest log of a Poisson mean, or u if that is more, whose exponential is sure not to overflow.
_MOST_ABOVE, _MAX_LOG_MEAN = 11.0, 80.0
# Up to here no more digits of a Poisson's log density are lost than its integrals have.
_LARGE = 1e6
# The largest |u| of which a negative binomial needs an exponential.
_FAR = 700.0
# The share of the largest logarithm that a mean may have, so that its cube does not overflow.
_SHARE = 0.3
_LARGEST = float(np.finfo(float).max)
# The largest mean of which NumPy draws counts.
_MOST = 1e18


class _Counts(Likelihood):
    """What both have in common: the logarithm of the mean is f + intercept, and a Poisson has no dispersion."""

    intercept: Float[Values, "*batch"]

    @property
    def _dispersion(self) -> Values | None:
        return None

    def log_constant(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log_shape."""
        raise NotImplementedError

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f): the shape and what depends on `y` alone."""
        return self.log_shape(f, y) + self.log_constant(y)

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the shape of the log probability, its gradient and minus its second derivative."""
        return self.around(y)(f)

    def start(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return the latent value whose mean is about `y`."""
        return np.log(y + 0.5) - self.intercept

    def log_predictive(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the log probability of `y`, by quadrature around the mode."""
        return log_predictive(self, y, loc, cov) + self.log_constant(y)

    def cdf(
        self, y: Float[Values, "..."], loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> Float[Values, "..."]:
        """Return the probability of `y` or less, by quadrature over Gamma variables, or Beta ones."""
        return cdf(y, loc[..., 0] + self.intercept, cov[..., 0, 0], self._dispersion)

    def tabulate(
        self, counts: int, weights: Float[Values, "n k"], loc: Float[Values, "n k 1"], cov: Float[Values, "n k 1 1"]
    ) -> Float[Values, "n m"]:
        """Return the probabilities of the first counts under mixtures; see `is_tabulated`."""
        return tabulate(counts, weights, loc[..., 0] + self.intercept, cov[..., 0, 0], self._dispersion)

    def sharpness(self, counts: Float[Values, "n 1"], cov: Float[Values, "n k 1 1"]) -> Float[Values, "n k"]:
        """Return how sharp the probability of a count is over latent values."""
        return sharpness(counts, cov[..., 0, 0], self._dispersion)


@register
class Poisson(_Counts):
    """p(y | f): Poisson with mean exp(f + intercept).

    Predictive probabilities and the distribution function are integrals with eight digits; moments are exact.

    Parameters
    ----------
    intercept
        The log of the mean where f is zero.
    """

    def log_shape(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log p(y | u = 0): y u - a (exp(u) - 1), a the count or 1."""
        return self._shape(y)(f)[0]

    def log_constant(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log_shape."""
        a = np.maximum(y, 1.0)
        return -0.5 * (LOG_2PI + np.log(a)) - stirling(a)

    def around(self, y: Float[Values, "..."]) -> Callable[[Values], Expansion]:
        """Return `expand` of these targets as a function of f alone."""
        shape, a = self._shape(y), np.maximum(y, 1.0)

        def at(f: Values) -> Expansion:
            value, grown, beyond = shape(f)
            gradient, mean = (y - a) - a * grown, np.where(beyond > 0.0, 0.0, a * (grown + 1.0))
            return Expansion(value, gradient[..., None], mean[..., None, None])

        return at

    def _shape(self, y: Values) -> Callable[[Values], tuple[Any, Any, Any]]:
        """Return a function of f: the shape, exp(u) - 1, and how far u is beyond where a straight line begins."""
        a = np.maximum(y, 1.0)
        log_a, of_zero = np.log(a), y - a
        shift, most = self.intercept - log_a, np.maximum(_MAX_LOG_MEAN - log_a, _MOST_ABOVE)
        is_large = bool(np.max(a, initial=1.0) > _LARGE)

        def at(f: Values) -> tuple[Any, Any, Any]:
            u = f[..., 0] + shift
            capped = np.minimum(u, most)
            grown, beyond = np.expm1(capped), u - capped
            over = excess(capped, grown) + grown * beyond if is_large else grown * (1.0 + beyond) - capped
            return of_zero * u - a * over, grown, beyond

        return at

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        return self.expand(f, y).precision[..., 0] * along[..., 0]

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance of a Poisson with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[..., 0] + self.intercept, cov[..., 0, 0])
        return mean, mean + variance

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw counts."""
        return _poisson(draws, _bounded_mean(f[..., 0] + self.intercept))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the log of the smoothed mean."""
        return cls(np.asarray(_smoothed_log_mean(y)))


@register
class NegativeBinomial(_Counts):
    """p(y | f): negative binomial with mean m = exp(f + intercept) and variance m + m^2 / dispersion.

    Predictive probabilities and the distribution function are integrals with eight digits; moments are exact.

    Parameters
    ----------
    intercept
        The log of the mean where f is zero.
    dispersion
        A Poisson whose mean is a Gamma variable of this shape; a Poisson itself where it is large (1e8).
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"dispersion": "positive"}

    dispersion: Float[Values, "*batch"]

    @property
    def _dispersion(self) -> Values:
        return self.dispersion

    def log_shape(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log p(y | u = 0)."""
        return self._beside(y).value(f[..., 0])[0]

    def log_constant(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log_shape."""
        r, a = self.dispersion, np.maximum(y, 1.0)
        of_count = -0.5 * (LOG_2PI + np.log(a) + np.log1p(a / r)) + stirling(a + r) - stirling(r) - stirling(a)
        return np.where(y > 0.0, of_count, -r * np.log1p(1.0 / r))

    def around(self, y: Float[Values, "..."]) -> Callable[[Values], Expansion]:
        """Return `expand` of these targets as a function of f alone."""
        beside, total = self._beside(y), y + self.dispersion

        def at(f: Values) -> Expansion:
            value, x, change = beside.value(f[..., 0])
            lesser, other = beside.least * np.exp(x) / (1.0 + change), (1.0 - beside.least) / (1.0 + change)
            share, rest = np.where(beside.is_large, other, lesser), np.where(beside.is_large, lesser, other)
            gradient = y * rest - self.dispersion * share
            return Expansion(value, gradient[..., None], (total * (rest * share))[..., None, None])

        return at

    def _beside(self, y: Float[Values, "..."]) -> "_Beside":
        r, a = self.dispersion, np.maximum(y, 1.0)
        is_large = a > r
        return _Beside(y, r, self.intercept - np.log(a), is_large, np.where(is_large, r, a) / (a + r))

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        u = f[..., 0] + self.intercept - np.log(self.dispersion)
        third = -(y + self.dispersion) * _share(u)[1] * np.tanh(0.5 * u)
        return third[..., None] * along[..., 0]

    def by_hyperparameters(
        self,
        f: Float[Values, "... 1"],
        y: Float[Values, "..."],
        slope: Float[Values, "... 1"],
        along: Float[Values, "... 1 1"],
    ) -> dict[str, Float[Values, "..."]]:
        """Return the gradient by the dispersion."""
        r = self.dispersion
        u, each = f[..., 0] + self.intercept - np.log(r), (y + r) / r
        share, curve = _share(u)
        rest = _share(-u)[0]
        # Without the difference of large numbers, that of the constant too.
        more = 0.5 * (y / (r + y)) / r + stirling_slope(r + y) - stirling_slope(r)
        of_log_p = np.log1p(y / r) - _softplus(u) + share - (y / r) * rest + more
        of_gradient = each * curve - share
        of_precision = curve * (1.0 + each * np.tanh(0.5 * u))
        return {"dispersion": of_log_p + slope[..., 0] * of_gradient + along[..., 0, 0] * of_precision}

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[..., 0] + self.intercept, cov[..., 0, 0])
        return mean, mean + variance + (variance + mean * mean) / self.dispersion

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw counts: Poisson ones whose mean is a Gamma variable."""
        mean = _bounded_mean(f[..., 0] + self.intercept)
        shape = np.broadcast_to(self.dispersion, mean.shape)
        return _poisson(draws, mean * draws.gamma(shape) / shape)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the mean and, by its excess variance, the dispersion of the targets, from 0.1 to 1,000."""
        mean = np.exp(_smoothed_log_mean(y))
        excess = max(float(np.var(y)) - mean, mean * mean * 1e-3) if len(y) else mean
        return cls(np.asarray(np.log(mean)), np.asarray(np.clip(mean * mean / excess, 0.1, 1e3)))


class _Beside(NamedTuple):
    """What depends on counts alone in a negative binomial's shape, y u - (y + r) log(1 + a (exp(u) - 1) / (a + r)).

    Where a, the count or 1, is larger than the dispersion r, that is -r u - (y + r) log(1 + r (exp(-u) - 1) / (a +
    r)): so the larger one cancels.
    """

    y: Any
    r: Any
    shift: Any
    is_large: Any  # whether a is the larger one
    least: Any  # the smaller one's share of both

    def value(self, f: Any) -> tuple[Any, Any, Any]:
        """Return the shape, plus or minus u, and what is added to 1 in the logarithm."""
        u = f + self.shift
        near = np.minimum(np.maximum(u, -_FAR), _FAR)
        x = np.where(self.is_large, -1.0, 1.0) * near
        change = self.least * np.expm1(x)
        value = np.where(self.is_large, -self.r, self.y) * near - (self.y + self.r) * np.log1p(change)
        beyond = u - near
        if beyond.any():
            value = value + np.where(beyond < 0.0, self.y, -self.r) * beyond
        return value, x, change


def _smoothed_log_mean(y: Float[np.ndarray, " n"]) -> float:
    return float(np.log((np.sum(y) + 0.5) / max(len(y), 1)))


def _poisson(draws: np.random.Generator, mean: Any) -> Any:
    """Draw counts; those of a mean beyond all that NumPy takes are the mean."""
    return np.where(mean < _MOST, draws.poisson(np.minimum(mean, _MOST)), mean)


def _bounded_mean(eta: Any) -> Any:
    return np.exp(np.minimum(eta, _SHARE * np.log(_LARGEST)))


def _softplus(u: Any) -> Any:
    return np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))


def _share(u: Any) -> tuple[Any, Any]:
    """Return the logistic function and its derivative."""
    small = np.exp(-np.abs(u))
    share = 1.0 / (1.0 + small)
    return np.where(u > 0.0, share, small * share), small * share * share


def _lognormal(mean: Any, var: Any) -> tuple[Any, Any]:
    """Return mean and variance of exp(eta), eta ~ N(mean, var); bounded where they would overflow."""
    most = _SHARE * np.log(_LARGEST)
    m = np.exp(np.minimum(mean + 0.5 * var, most))
    return m, m * m * np.expm1(np.minimum(var, most))
