"""Hyperparameters and inducing inputs of one sparse Gaussian process, by a few steps up the bound of a batch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from streamgp.hyperparameters import search
from streamgp.kernels import SquaredExponential
from streamgp.pivoting import greedy
from streamgp.sparse.vfe import Batch, Hyper, Site, bound, no_site

# In logs, of standardised data: guards against overflow, never active at a sensible optimum.
_LENGTHSCALE = (np.log(1e-3), np.log(1e4))
_VARIANCE = (np.log(1e-6), np.log(1e6))
_NOISE_VAR = (np.log(1e-6), np.log(1e3))
EXACT_STEPS = 100
_KERNEL = SquaredExponential()
_RANK = 1e-12  # conditional variance, in shares of the prior one, of a point that is known already
_HUGE = 1e10  # what a search is told where the bound is not a number: it turns back


def first_hyper(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> Hyper:
    """Where a model that knows nothing yet starts: lengthscales and variances of the size of its first batch."""
    lengthscales = np.maximum(X.std(axis=0), 1e-2) * np.sqrt(X.shape[1])
    variance = np.maximum(np.mean(np.square(y)), 1e-2)
    return Hyper(jnp.asarray(lengthscales), jnp.asarray(variance), jnp.asarray(0.1 * variance))


def starting_inputs(
    key: Key[Array, ""],
    X: Float[np.ndarray, "n d"],
    hyper: Hyper,
    num_inducing: int,
    old: Float[Array, "m d"] | None = None,
) -> Float[np.ndarray, "m d"]:
    """Where inducing inputs start for a batch: of those of before and its rows, again and again the least known.

    Bui, Nguyen and Turner (2017) draw some of each. The greedy choice by conditional variance (Burt, Rasmussen and
    van der Wilk 2020) lets go of old ones that others stand for before it lets go of any other. Rows are moved by a
    thousandth of a lengthscale and come again where there are too few, so that no two are the same.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    lengthscales = np.asarray(hyper.lengthscales)
    rows = np.resize(rng.permutation(len(X)), max(len(X), num_inducing))
    moved = X[rows] + 1e-3 * lengthscales * rng.standard_normal((len(rows), X.shape[1]))
    candidates = moved if old is None else np.concatenate([np.asarray(old), moved])
    scaled = candidates / lengthscales
    found = greedy(
        lambda i: np.asarray(_KERNEL.value(scaled - scaled[i])), np.ones(len(scaled)), num_inducing, tolerance=_RANK
    )
    # Where all else is known to the last digit it does not matter which.
    others = np.setdiff1d(np.arange(len(scaled)), found.chosen)[: num_inducing - len(found.chosen)]
    return candidates[np.concatenate([found.chosen, others])]


def improved(
    hyper: Hyper, Z: Float[np.ndarray, "m d"] | None, batch: Batch, site: Site, steps: int, alpha: float = 0.0
) -> tuple[Hyper, Float[Array, "m d"]]:
    """The best of at most `steps` steps of L-BFGS-B up the bound, in logs of the hyperparameters and in `Z`.

    Without `Z` the rows of the batch are the inducing inputs, and stay where they are.
    """
    d, inducing = batch.X.shape[1], np.zeros(0) if Z is None else np.ravel(Z)

    def objective(flat: np.ndarray) -> tuple[Array, Array]:
        return _finite(*_loss_and_gradient(jnp.asarray(flat), batch, site, alpha))

    start = np.concatenate([*(np.ravel(np.log(leaf)) for leaf in jax.tree.leaves(hyper)), inducing])
    limits = [_LENGTHSCALE] * d + [_VARIANCE, _NOISE_VAR] + [(-np.inf, np.inf)] * inducing.size
    return _split(jnp.asarray(search(objective, start, limits, steps).x), batch.X)


def exact_hyper(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> Hyper:
    """Hyperparameters of greatest marginal likelihood on a few hundred rows: the bound with all of them as `Z`."""
    Z = jnp.asarray(X)
    batch = Batch(Z, jnp.asarray(y), jnp.ones(len(X), bool))
    return improved(first_hyper(X, y), None, batch, no_site(Z, y.shape[1]), EXACT_STEPS)[0]


def _finite(value: Array, gradient: Array) -> tuple[Array, Array]:
    """What a search is told: of something that is no number, to turn back."""
    if np.isfinite(value) and np.isfinite(gradient).all():
        return value, gradient
    return jnp.full_like(value, _HUGE), jnp.zeros_like(gradient)


def _split(flat: Float[Array, " p"], X: Float[Array, "n d"]) -> tuple[Hyper, Float[Array, "m d"]]:
    """Hyperparameters and inducing inputs; where there are none of the latter, the rows `X`."""
    d = X.shape[1]
    positive = jnp.exp(flat[: d + 2])
    hyper = Hyper(positive[:d], positive[d], positive[d + 1])
    return hyper, flat[d + 2 :].reshape(-1, d) if flat.size > d + 2 else X


@partial(jax.jit, static_argnames="alpha")
def _loss_and_gradient(flat: Array, batch: Batch, site: Site, alpha: float) -> tuple[Array, Array]:
    def loss(flat: Array) -> Array:
        return -bound(*_split(flat, batch.X), batch, site, alpha) / jnp.maximum(jnp.sum(batch.mask), 1)

    return jax.value_and_grad(loss)(flat)
