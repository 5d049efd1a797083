"""Counts 0, 1, 2, ...: Poisson and negative binomial, with the logarithm of the mean as f + intercept."""

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from streamgp.likelihoods.base import Likelihood, laplace_step
from streamgp.likelihoods.quadrature import FALL, MIN_VARIANCE, NODES, WEIGHTS, log_integral
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.student_t import ndtr

_LOG_2PI = float(np.log(2.0 * np.pi))
# The largest log of a Poisson mean: exp(80) fits in single precision as well.
_MAX_LOG_MEAN = 80.0

# The share of the largest logarithm that a mean may have, so that its cube does not overflow.
_SHARE = 0.3


@register
class Poisson(Likelihood):
    """p(y | f): Poisson with mean exp(f + intercept).

    Predictive probabilities and the distribution function are integrals with eight digits; moments are exact.

    Parameters
    ----------
    intercept
        The log of the mean where f is zero.
    """

    intercept: Float[Array, ""]

    def log_shape(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return y eta - exp(eta), with a straight line in place of an exponential that would overflow."""
        eta = f[0] + self.intercept
        # A straight line where the exponential overflows or nearly so, so that no derivative does.
        capped = jnp.minimum(eta, _MAX_LOG_MEAN)
        return y * eta - jnp.exp(capped) * (1.0 + eta - capped)

    def log_constant(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f) - log_shape."""
        return -gammaln(y + 1.0)

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f): the shape and what depends on `y` alone."""
        return self.log_shape(f, y) + self.log_constant(y)

    def start(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the latent value whose mean is about `y`."""
        return jnp.log(y + 0.5) - self.intercept

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log probability of `y`, by quadrature around the mode."""
        return _log_predictive(self, y, loc, cov)

    def cdf(self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, ""]:
        """Return the probability of `y` or less, by quadrature over Gamma variables."""
        return _cdf(y, loc[0] + self.intercept, cov[0, 0], None)

    def moments(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return mean and variance of a Poisson with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[0] + self.intercept, cov[0, 0])
        return mean, mean + variance

    def sample(self, key: Key, f: Float[Array, " 1"]) -> Float[Array, ""]:
        """Draw a count."""
        return jax.random.poisson(key, jnp.exp(f[0] + self.intercept)).astype(f.dtype)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the log of the smoothed mean."""
        return cls(jnp.asarray(_smoothed_log_mean(y)))


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

    intercept: Float[Array, ""]
    dispersion: Float[Array, ""]

    def log_shape(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return y eta - (y + r) log(1 + exp(eta) / r), r the dispersion."""
        eta, r = f[0] + self.intercept, self.dispersion
        return y * eta - (y + r) * jax.nn.softplus(eta - jnp.log(r))

    def log_constant(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f) - log_shape."""
        r = self.dispersion
        # log Gamma(y + r) - log Gamma(r) - y log r, without the difference of large numbers.
        ratio = (r + y - 0.5) * jnp.log1p(y / r) - y + _stirling(r + y) - _stirling(r)
        return ratio - gammaln(y + 1.0)

    def log_prob(self, f: Float[Array, " 1"], y: Float[Array, ""]) -> Float[Array, ""]:
        """Return log p(y | f): the shape and what depends on `y` alone."""
        return self.log_shape(f, y) + self.log_constant(y)

    def start(self, y: Float[Array, ""]) -> Float[Array, ""]:
        """Return the latent value whose mean is about `y`."""
        return jnp.log(y + 0.5) - self.intercept

    def log_predictive(
        self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]
    ) -> Float[Array, ""]:
        """Return the log probability of `y`, by quadrature around the mode."""
        return _log_predictive(self, y, loc, cov)

    def cdf(self, y: Float[Array, ""], loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> Float[Array, ""]:
        """Return the probability of `y` or less, by quadrature over Beta variables."""
        return _cdf(y, loc[0] + self.intercept, cov[0, 0], self.dispersion)

    def moments(self, loc: Float[Array, " 1"], cov: Float[Array, "1 1"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return mean and variance with a log-normal mean, exactly."""
        mean, variance = _lognormal(loc[0] + self.intercept, cov[0, 0])
        return mean, mean + variance + (variance + mean * mean) / self.dispersion

    def sample(self, key: Key, f: Float[Array, " 1"]) -> Float[Array, ""]:
        """Draw a count: a Poisson whose mean is a Gamma variable."""
        gamma, poisson = jax.random.split(key)
        mean = jnp.exp(f[0] + self.intercept)
        mean = mean * jax.random.gamma(gamma, self.dispersion, dtype=f.dtype) / self.dispersion
        return jax.random.poisson(poisson, mean).astype(f.dtype)

    @classmethod
    def from_targets(cls, y: Float[np.ndarray, " n"]) -> Self:
        """Start from the mean and, by its excess variance, the dispersion of the targets, from 0.1 to 1,000."""
        mean = np.exp(_smoothed_log_mean(y))
        excess = max(float(np.var(y)) - mean, 1e-300) if len(y) else mean
        return cls(jnp.asarray(np.log(mean)), jnp.asarray(np.clip(mean * mean / excess, 0.1, 1e3)))


def _smoothed_log_mean(y: Float[np.ndarray, " n"]) -> float:
    return float(np.log((np.sum(y) + 0.5) / max(len(y), 1)))


def _log_predictive(likelihood: Poisson | NegativeBinomial, y: Array, loc: Array, cov: Array) -> Array:
    cov = jnp.maximum(cov, MIN_VARIANCE)
    mode = loc + cov @ laplace_step(likelihood, y, loc, cov).shift
    shape = log_integral(lambda f: likelihood.log_shape(f[None], y), mode[0], loc[0], cov[0, 0])
    return shape + likelihood.log_constant(y)


def _lognormal(mean: Array, var: Array) -> tuple[Array, Array]:
    """Return mean and variance of exp(eta), eta ~ N(mean, var); bounded where they would overflow."""
    most = _SHARE * jnp.log(jnp.finfo(mean.dtype).max)
    m = jnp.exp(jnp.minimum(mean + 0.5 * var, most))
    return m, m * m * jnp.expm1(jnp.minimum(var, most))


def _stirling(a: Array) -> Array:
    """Return log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2, to 1e-15."""
    small = jnp.minimum(a, 16.0)
    direct = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * _LOG_2PI
    inverse = 1.0 / jnp.maximum(a, 16.0)
    square = inverse * inverse
    series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)))
    return jnp.where(a < 16.0, direct, series)


def _cdf(y: Array, mean: Array, var: Array, dispersion: Array | None) -> Array:
    """Return Pr(Y <= y) for a log mean eta ~ N(mean, var); without a dispersion, of a Poisson.

    Given eta, that is the probability that x exceeds it: of a Poisson, x is the log of a Gamma(y + 1) variable, of a
    negative binomial x = log(r) - logit(B) with B ~ Beta(r, y + 1). So it is the mean of Phi((x - mean) / sqrt(var))
    over x, whose density has its mode at log(y + 1) and tails that are exponential at least. Gauss and Legendre's
    rule on segments, which end at the mode and where Phi is zero or one.
    """
    a = jnp.maximum(jnp.floor(y), 0.0) + 1.0
    root = jnp.sqrt(jnp.maximum(var, MIN_VARIANCE))
    const = 0.5 * (jnp.log(a) - _LOG_2PI) - _stirling(a)
    wide = jnp.sqrt(2.0 * FALL / a)
    if dispersion is None:
        right = jnp.log1p(FALL / a + wide)
    else:
        const = const + _stirling(dispersion + a) - _stirling(dispersion) - 0.5 * jnp.log1p(a / dispersion)
        wide = jnp.sqrt(2.0 * FALL * (1.0 / a + 1.0 / dispersion))
        right = FALL / dispersion + wide
    left = FALL / a + wide

    def log_density(u: Array) -> Array:
        if dispersion is None:
            return a * (u - jnp.expm1(u)) + const
        share = a / (a + dispersion)
        return a * u - (a + dispersion) * jnp.log1p(share * jnp.expm1(u)) + const

    def integrate_segment(low: Array, high: Array) -> Array:
        u = low + (high - low) * NODES.astype(low.dtype)
        below = ndtr((u - at) / root)
        return (high - low) * (jnp.exp(log_density(u)) * below) @ WEIGHTS.astype(low.dtype)

    at = mean - jnp.log(a)
    reach = np.sqrt(2.0 * FALL) * root
    low = jnp.clip(at - reach, -left, right)
    certain = jnp.clip(at + reach, low, right)
    ends = [low, jnp.clip(0.0, low, certain), certain, jnp.clip(0.0, certain, right), right]
    total = sum((integrate_segment(*pair) for pair in pairwise(ends)), jnp.zeros_like(low))
    return jnp.where(y < 0.0, 0.0, jnp.clip(total, 0.0, 1.0))
