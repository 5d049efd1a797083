"""The predictive distribution of targets with a likelihood: a mixture over experts, integrated over latent values."""

from collections.abc import Callable
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.core import NumericPredictive
from streamgp.likelihoods.base import Likelihood
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.batching import SMALL, split_batches
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.numerics.precision import float64

_INTEGRALS_AT_ONCE = 1 << 10  # integrals whose terms are held in memory at a time


@register
class LatentPredictive(Module):
    """A mixture over k experts for every row; under each, the latent values f are N(loc, cov) and y ~ p(y | f).

    Which methods make sense is up to the likelihood: labels have no mean, and numbers no list of probabilities.
    The others raise a TypeError. Labels and grades are numbered from 0.

    Parameters
    ----------
    log_weights
        Log of the mixture weights of each row; each row sums to one in probability. ``-inf`` marks an expert that is
        switched off.
    loc, cov
        Mean and covariance of the latent values.
    likelihood
        The likelihoods of the k experts for every row: their arrays have two leading axes (n, k).
    known
        How many classes have come so far, where the likelihood has slots for more; None: all.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k c"]
    cov: Float[AnyArray, "n k c c"]
    likelihood: Likelihood
    known: int | None = static_field(default=None)

    @property
    def weights(self) -> Float[AnyArray, "n k"]:
        """Return the mixture weights; rows sum to one."""
        return namespace(self.log_weights).exp(self.log_weights)

    def component_log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, "n k"]:
        """Return the log probability (density) of `y` under each expert."""
        return self._rows(_component_log_density, y[:, 0])

    def log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, " n"]:
        """Return the log probability (density) of `y` under the mixture."""
        return self._rows(_log_density, y[:, 0])

    def probabilities(self) -> Float[AnyArray, "n j"]:
        """Return the probability of every label or grade that is known; rows sum to one, and none is zero."""
        return self._rows(_probabilities)

    @property
    def mean(self) -> Float[AnyArray, "n 1"]:
        """Return the mean of the target; infinite where it overflows."""
        return self._rows(_moments)[:, :1]

    @property
    def variance(self) -> Float[AnyArray, "n 1"]:
        """Return the variance of the target, noise included; infinite where it overflows."""
        return self._rows(_moments)[:, 1:]

    @property
    def std(self) -> Float[AnyArray, "n 1"]:
        """Return the standard deviation of the target."""
        variance = self.variance
        return namespace(variance).sqrt(variance)

    def cdf(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, "n 1"]:
        """Return the probability of a target of `y` or less; of counts and grades, that of less is ``cdf(y - 1)``."""
        return self._rows(_cdf, y[:, 0])[:, None]

    def quantile(self, probability: float | Float[Array, ""]) -> Float[AnyArray, "n 1"]:
        """Return the least count or grade whose `cdf` is no less than a probability; of other targets to 1e-9."""
        of_rows = namespace(self.loc).full(len(self.loc), probability, self.loc.dtype)
        return self._rows(_quantile, of_rows)[:, None]

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[Array, "... n 1"]:
        """Draw targets: an expert for each row, then latent values from it, then the target."""
        return _sample(self, key, prod(shape)).reshape(*shape, -1, 1)

    def _rows(self, function: Callable[..., Array], *arrays: AnyArray) -> AnyArray:
        """Apply a compiled function to rows; to NumPy's, in batches of few sizes, and as NumPy's."""
        if namespace(*tree.leaves((self, arrays))) is not np:
            return function(self, *arrays)
        results = []
        # The precision is that of the prediction, not of the caller.
        with float64(self.loc.dtype == np.float64):
            for rows, size in split_batches(len(self.log_weights), (SMALL, 1)):
                n = rows.stop - rows.start
                batch = tree.map(lambda a, rows=rows, size=size: _filled(a[rows], size), (self, *arrays))
                results.append(np.asarray(function(*batch))[:n])
        return np.concatenate(results)


AnyPredictive = NumericPredictive | LatentPredictive
"""The predictions of models: mixtures of Gaussians or Student's t of the target, or of Gaussians of latent values."""


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Return rows filled up to `size` with copies of the last one."""
    return rows[np.minimum(np.arange(size), len(rows) - 1)]


def _each(function: Callable[..., Any], p: LatentPredictive, y: Float[AnyArray, " n"] | None = None) -> Any:
    """Apply a function of likelihood, latent mean, covariance and target to all rows and experts."""
    experts = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), 0, 0, None))
    rows = tree.map(jnp.asarray, (p.likelihood, p.loc, p.cov, y))
    at_once = max(_INTEGRALS_AT_ONCE // p.loc.shape[1], 1)
    return jax.lax.map(lambda row: experts(*row), rows, batch_size=at_once)


def _log_predictive(likelihood: Likelihood, loc: Array, cov: Array, y: Array) -> Array:
    return likelihood.log_predictive(y, loc, cov)


def _log_probabilities(likelihood: Likelihood, loc: Array, cov: Array, y: None) -> Array:
    return likelihood.log_probabilities(loc, cov)


@eqx.filter_jit
def _component_log_density(p: LatentPredictive, y: AnyArray) -> Float[Array, "n k"]:
    return _each(_log_predictive, p, y)


@eqx.filter_jit
def _log_density(p: LatentPredictive, y: AnyArray) -> Float[Array, " n"]:
    return jax.nn.logsumexp(jnp.asarray(p.log_weights) + _each(_log_predictive, p, y), axis=1)


@eqx.filter_jit
def _probabilities(p: LatentPredictive) -> Float[Array, "n j"]:
    each = _each(_log_probabilities, p)
    log_mixture = jax.nn.logsumexp(jnp.asarray(p.log_weights)[:, :, None] + each, axis=1)[:, : p.known]
    # A probability that is too small for a number stays one that has a logarithm.
    return jnp.maximum(jax.nn.softmax(log_mixture, axis=1), jnp.finfo(log_mixture.dtype).tiny)


@eqx.filter_jit
def _moments(p: LatentPredictive) -> Float[Array, "n 2"]:
    """Return mean and variance of each row."""
    mean, var = _each(_expert_moments, p)
    weights = jnp.exp(jnp.asarray(p.log_weights))
    mixed = (weights * jnp.where(weights > 0.0, mean, 0.0)).sum(1)
    second = jnp.where(weights > 0.0, var + (mean - mixed[:, None]) ** 2, 0.0)
    variance = jnp.where(jnp.isfinite(mixed), (weights * second).sum(1), jnp.inf)
    return jnp.stack([mixed, variance], axis=1)


def _expert_moments(likelihood: Likelihood, loc: Array, cov: Array, y: None) -> tuple[Array, Array]:
    return likelihood.moments(loc, cov)


@eqx.filter_jit
def _cdf(p: LatentPredictive, y: Float[AnyArray, " n"]) -> Float[Array, " n"]:
    each = _each(_expert_cdf, p, y)
    return jnp.clip((jnp.exp(jnp.asarray(p.log_weights)) * each).sum(1), 0.0, 1.0)


def _expert_cdf(likelihood: Likelihood, loc: Array, cov: Array, y: Array) -> Array:
    return likelihood.cdf(y, loc, cov)


@eqx.filter_jit
def _quantile(p: LatentPredictive, probability: Float[AnyArray, " n"]) -> Float[Array, " n"]:
    """Search by bisection between a value whose cdf is less and one where it is not, found by doubling."""
    whole = p.likelihood.whole
    loc, root = jnp.asarray(p.loc)[:, :, 0], jnp.sqrt(jnp.asarray(p.cov)[:, :, 0, 0])
    centre = (jnp.exp(jnp.asarray(p.log_weights)) * loc).sum(1)
    scale = jnp.maximum(root.max(1), 1e-9 * (1.0 + jnp.abs(centre)))

    def is_less(y: Array) -> Array:
        return _cdf(p, y) < probability

    def widen(carry: tuple) -> tuple:
        low, high, step, _ = carry
        above, below = is_less(high), ~is_less(low) & (not whole)
        low, high = (
            jnp.where(below, low - step, jnp.where(above, high, low)),
            jnp.where(below, low, jnp.where(above, high + step, high)),
        )
        return low, high, 2.0 * step, (above | below).any() & (step < 1e300).all()

    def between(low: Array, high: Array) -> Array:
        middle = low + 0.5 * (high - low)
        return jnp.floor(middle) if whole else middle

    def halve(carry: tuple) -> tuple:
        low, high = carry
        middle = between(low, high)
        less = is_less(middle)
        inside = (middle > low) & (middle < high)
        return jnp.where(less & inside, middle, low), jnp.where(~less & inside, middle, high)

    def unfinished(carry: tuple) -> Array:
        low, high = carry
        middle = between(low, high)
        narrow = (high - low <= 1e-10 * (scale + jnp.abs(middle))) & (not whole)
        return ((middle > low) & (middle < high) & ~narrow).any()

    if whole:
        start = jnp.full_like(centre, -1.0), jnp.zeros_like(centre), jnp.ones_like(centre)
    else:
        start = centre - scale, centre + scale, scale
    low, high, *_ = jax.lax.while_loop(lambda carry: carry[3], widen, (*start, jnp.asarray(True)))
    return jax.lax.while_loop(unfinished, halve, (low, high))[1]


@eqx.filter_jit
def _sample(p: LatentPredictive, key: Key, count: int) -> Float[Array, "s n"]:
    pick, noise, last = jax.random.split(key, 3)
    n = len(p.loc)
    component = jax.random.categorical(pick, jnp.asarray(p.log_weights), shape=(count, n))
    loc, cov = (jnp.asarray(a)[jnp.arange(n)[None], component] for a in (p.loc, p.cov))
    f = loc + jnp.sqrt(cov[..., 0]) * jax.random.normal(noise, loc.shape, loc.dtype)
    likelihoods = tree.map(lambda a: jnp.asarray(a)[jnp.arange(n)[None], component], p.likelihood)
    keys = jax.random.split(last, (count, n))
    return jax.vmap(jax.vmap(lambda likelihood, key, f: likelihood.sample(key, f)))(likelihoods, keys, f)
