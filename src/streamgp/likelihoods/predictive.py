"""The predictive distribution of targets with a likelihood: a mixture over experts, integrated over latent values."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.arrays import AnyArray, namespace
from streamgp.core import Predictive
from streamgp.data.pieces import pieces
from streamgp.likelihoods.base import Likelihood
from streamgp.serialise import register

_AT_ONCE = 1 << 10  # integrals whose terms are held in memory at a time


@register
class LatentPredictive(eqx.Module):
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
        How many classes have come so far, where the likelihood has room for more; None: all.
    """

    log_weights: Float[AnyArray, "n k"]
    loc: Float[AnyArray, "n k c"]
    cov: Float[AnyArray, "n k c c"]
    likelihood: Likelihood
    known: int | None = eqx.field(static=True, default=None)

    @property
    def weights(self) -> Float[AnyArray, "n k"]:
        """Mixture weights; rows sum to one."""
        return namespace(self.log_weights).exp(self.log_weights)

    def component_log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, "n k"]:
        """Log probability (density) of `y` under each expert."""
        return self._rows(_component_log_density, y[:, 0])

    def log_density(self, y: Float[AnyArray, "n 1"]) -> Float[AnyArray, " n"]:
        """Log probability (density) of `y` under the mixture."""
        return self._rows(_log_density, y[:, 0])

    def probabilities(self) -> Float[AnyArray, "n j"]:
        """Probability of every label or grade that is known; rows sum to one, and none is zero."""
        return self._rows(_probabilities)

    def _rows(self, function: Callable[..., Array], *arrays: AnyArray) -> AnyArray:
        """What a compiled function makes of rows; of NumPy's, in pieces of few sizes, and as NumPy's."""
        if namespace(*jax.tree.leaves((self, arrays))) is not np:
            return function(self, *arrays)
        parts = []
        for rows, size in pieces(len(self.log_weights)):
            n = rows.stop - rows.start
            piece = jax.tree.map(lambda a, rows=rows, size=size: _filled(a[rows], size), (self, *arrays))
            parts.append(np.asarray(function(*piece))[:n])
        return np.concatenate(parts)


AnyPredictive = Predictive | LatentPredictive
"""What models predict: mixtures of Gaussians or Student's t of the target, or of Gaussians of latent values."""


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows filled up to `size` with copies of the last one."""
    return rows[np.minimum(np.arange(size), len(rows) - 1)]


def _each(function: Callable[..., Any], p: LatentPredictive, y: Float[AnyArray, " n"] | None = None) -> Any:
    """A function of an expert's likelihood, latent mean and covariance, and of a target: of all rows and experts."""
    experts = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), 0, 0, None))
    rows = jax.tree.map(jnp.asarray, (p.likelihood, p.loc, p.cov, y))
    at_once = max(_AT_ONCE // p.loc.shape[1], 1)
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
