"""Counts 0, 1, 2, ...: Poisson and negative binomial, with the logarithm of the mean as f + intercept."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from streamgp.likelihoods.base import Expansion, Likelihood, Values
from streamgp.likelihoods.count_integrals import cdf, log_predictive, stirling, stirling_slope
from streamgp.numerics.checkpoint.encoding import register

# The largest log of a Poisson mean: exp(80) fits in single precision as well.
_MAX_LOG_MEAN = 80.0
# The share of the largest logarithm that a mean may have, so that its cube does not overflow.
_SHARE = 0.3
_LARGEST = float(np.finfo(float).max)
# The largest mean of which NumPy draws counts.
_MOST = 1e18


@register
class Poisson(Likelihood):
    """p(y | f): Poisson with mean exp(f + intercept).

    Predictive probabilities and the distribution function are integrals with eight digits; moments are exact.

    Parameters
    ----------
    intercept
        The log of the mean where f is zero.
    """

    intercept: Float[Values, "*batch"]

    def log_shape(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return y eta - exp(eta), with a straight line in place of an exponential that would overflow."""
        eta = f[..., 0] + self.intercept
        # A straight line where the exponential overflows or nearly so, so that no derivative does.
        capped = np.minimum(eta, _MAX_LOG_MEAN)
        return y * eta - np.exp(capped) * (1.0 + eta - capped)

    def log_constant(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log_shape."""
        return -gammaln(y + 1.0)

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f): the shape and what depends on `y` alone."""
        return self.log_shape(f, y) + self.log_constant(y)

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the shape of the log probability, its gradient and minus its second derivative."""
        eta = f[..., 0] + self.intercept
        capped = np.minimum(eta, _MAX_LOG_MEAN)
        mean = np.exp(capped)
        value = y * eta - mean * (1.0 + eta - capped)
        return Expansion(value, (y - mean)[..., None], np.where(eta < _MAX_LOG_MEAN, mean, 0.0)[..., None, None])

    def bend(
        self, f: Float[Values, "... 1"], y: Float[Values, "..."], along: Float[Values, "... 1 1"]
    ) -> Float[Values, "... 1"]:
        """Return the derivative of the precision."""
        return self.expand(f, y).precision[..., 0] * along[..., 0]

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
        """Return the probability of `y` or less, by quadrature over Gamma variables."""
        return cdf(y, loc[..., 0] + self.intercept, cov[..., 0, 0], None)

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance of a Poisson with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[..., 0] + self.intercept, cov[..., 0, 0])
        return mean, mean + variance

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw counts."""
        return _poisson(draws, np.exp(np.minimum(f[..., 0] + self.intercept, _MAX_LOG_MEAN)))

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the log of the smoothed mean."""
        return cls(np.asarray(_smoothed_log_mean(y)))


@register
class NegativeBinomial(Likelihood):
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

    intercept: Float[Values, "*batch"]
    dispersion: Float[Values, "*batch"]

    def log_shape(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return y eta - (y + r) log(1 + exp(eta) / r), r the dispersion."""
        eta, r = f[..., 0] + self.intercept, self.dispersion
        return y * eta - (y + r) * _softplus(eta - np.log(r))

    def log_constant(self, y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f) - log_shape."""
        r = self.dispersion
        # log Gamma(y + r) - log Gamma(r) - y log r, without the difference of large numbers.
        ratio = (r + y - 0.5) * np.log1p(y / r) - y + stirling(r + y) - stirling(r)
        return ratio - gammaln(y + 1.0)

    def log_prob(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Float[Values, "..."]:
        """Return log p(y | f): the shape and what depends on `y` alone."""
        return self.log_shape(f, y) + self.log_constant(y)

    def expand(self, f: Float[Values, "... 1"], y: Float[Values, "..."]) -> Expansion:
        """Return the shape of the log probability, its gradient and minus its second derivative."""
        return self.around(y)(f)

    def around(self, y: Float[Values, "..."]) -> Callable[[Values], Expansion]:
        """Return `expand` of these targets as a function of f alone."""
        log_r, total = np.log(self.dispersion), y + self.dispersion
        shift, constant = self.intercept - log_r, y * log_r

        def at(f: Values) -> Expansion:
            u = f[..., 0] + shift
            small = np.exp(-np.abs(u))
            share = 1.0 / (1.0 + small)
            value = y * u + constant - total * (np.maximum(u, 0.0) + np.log1p(small))
            rest = share * small
            gradient = y - total * np.where(u > 0.0, share, rest)
            return Expansion(value, gradient[..., None], (total * (rest * share))[..., None, None])

        return at

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
        # That of the constant, again without the difference of large numbers.
        more = np.log1p(y / r) - (y / r) * (1.0 - 0.5 / (r + y)) + stirling_slope(r + y) - stirling_slope(r)
        of_log_p = more - _softplus(u) + each * share
        of_gradient = each * curve - share
        of_precision = curve * (1.0 + each * np.tanh(0.5 * u))
        return {"dispersion": of_log_p + slope[..., 0] * of_gradient + along[..., 0, 0] * of_precision}

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
        """Return the probability of `y` or less, by quadrature over Beta variables."""
        return cdf(y, loc[..., 0] + self.intercept, cov[..., 0, 0], self.dispersion)

    def moments(
        self, loc: Float[Values, "... 1"], cov: Float[Values, "... 1 1"]
    ) -> tuple[Float[Values, "..."], Float[Values, "..."]]:
        """Return mean and variance with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[..., 0] + self.intercept, cov[..., 0, 0])
        return mean, mean + variance + (variance + mean * mean) / self.dispersion

    def sample(self, draws: np.random.Generator, f: Float[Values, "... 1"]) -> Float[Values, "..."]:
        """Draw counts: Poisson ones whose mean is a Gamma variable."""
        mean = np.exp(np.minimum(f[..., 0] + self.intercept, _MAX_LOG_MEAN))
        shape = np.broadcast_to(self.dispersion, mean.shape)
        return _poisson(draws, mean * draws.gamma(shape) / shape)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the mean and, by its excess variance, the dispersion of the targets, from 0.1 to 1,000."""
        mean = np.exp(_smoothed_log_mean(y))
        excess = max(float(np.var(y)) - mean, mean * mean * 1e-3) if len(y) else mean
        return cls(np.asarray(np.log(mean)), np.asarray(np.clip(mean * mean / excess, 0.1, 1e3)))


def _smoothed_log_mean(y: Float[np.ndarray, " n"]) -> float:
    return float(np.log((np.sum(y) + 0.5) / max(len(y), 1)))


def _poisson(draws: np.random.Generator, mean: Any) -> Any:
    """Draw counts; those of a mean beyond all that NumPy takes are the mean."""
    return np.where(mean < _MOST, draws.poisson(np.minimum(mean, _MOST)), mean)


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
