"""Hyperparameters and inducing inputs of one sparse Gaussian process, by a few steps up the bound of a batch."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from streamgp.fitting.hyperparameters import search
from streamgp.kernels import SquaredExponential
from streamgp.models.sparse.vfe import Batch, Hyper, Site, bound, no_site
from streamgp.numerics.pivoted_cholesky import pivoted_cholesky

# In logs, of standardised data: guards against overflow, never active at a sensible optimum.
_LENGTHSCALE = (np.log(1e-3), np.log(1e4))
_VARIANCE = (np.log(1e-6), np.log(1e6))
_NOISE_VAR = (np.log(1e-6), np.log(1e3))
EXACT_STEPS = 100
_KERNEL = SquaredExponential()
_RANK = 1e-12  # conditional variance, in shares of the prior one, of a point that is known already


class Prior(NamedTuple):
    """Of each hyperparameter's logarithm: normal, around that of `centre`, with standard deviation `sd`.

    Without one, a first batch that shows little but noise makes the variance zero, and the model so sure of a
    constant that no later batch teaches it.
    """

    centre: Hyper
    sd: float


def first_prior(num_inputs: int) -> Prior:
    """Of standardised data, before any row is seen."""
    return Prior(Hyper(jnp.full(num_inputs, num_inputs**0.5), jnp.ones(()), jnp.full((), 0.1)), 1.5)


def next_prior(hyper: Hyper) -> Prior:
    """For the next batch: hyperparameters walk, by half their size or so."""
    return Prior(hyper, 0.5)


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
    """Of the rows of a batch, and of the inducing inputs of before, again and again the least known.

    The greedy choice by conditional variance (Burt, Rasmussen and van der Wilk 2020) lets go of old ones that others
    stand for before it lets go of any other. Rows are moved by a thousandth of a lengthscale and come again where
    there are too few, so that no two are the same.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    lengthscales = np.asarray(hyper.lengthscales)
    rows = np.resize(rng.permutation(len(X)), max(len(X), num_inducing))
    moved = X[rows] + 1e-3 * lengthscales * rng.standard_normal((len(rows), X.shape[1]))
    candidates = moved if old is None else np.concatenate([np.asarray(old), moved])
    scaled = candidates / lengthscales
    found = pivoted_cholesky(
        lambda i: np.asarray(_KERNEL.value(scaled - scaled[i])), np.ones(len(scaled)), num_inducing, tolerance=_RANK
    )
    # Where all else is known to the last digit it does not matter which.
    others = np.setdiff1d(np.arange(len(scaled)), found.chosen)[: num_inducing - len(found.chosen)]
    return candidates[np.concatenate([found.chosen, others])]


def better_start(
    key: Key[Array, ""], hyper: Hyper, batch: Batch, site: Site, alpha: float = 0.0
) -> Float[np.ndarray, "m d"]:
    """The old inducing inputs, or `starting_inputs` of them and the batch: those with the higher bound.

    Rows from where the model has been give it nothing that its own inputs, many steps up the bounds of earlier
    batches, do not say better; rows from elsewhere need some of their own. Bui, Nguyen and Turner (2017) draw a share
    of the rows at random, which forgets on ordered streams and wanders on shuffled ones.
    """
    old = site.inducing
    new = starting_inputs(key, np.asarray(batch.X), hyper, len(old), old)
    gain = _bound(hyper, jnp.asarray(new), batch, site, alpha) - _bound(hyper, old, batch, site, alpha)
    return new if gain > 0.0 else np.asarray(old)


_bound = jax.jit(bound, static_argnames="alpha")


def improved(
    prior: Prior,
    hyper: Hyper,
    Z: Float[np.ndarray, "m d"] | None,
    batch: Batch,
    site: Site,
    steps: int,
    alpha: float = 0.0,
) -> tuple[Hyper, Float[Array, "m d"]]:
    """The best of at most `steps` steps of L-BFGS-B up bound and prior, in logs of the hyperparameters and in `Z`.

    Steps begin at `hyper` and `Z`. Without `Z` the rows of the batch are the inducing inputs, and stay where they
    are.
    """
    d, inducing = batch.X.shape[1], np.zeros(0) if Z is None else np.ravel(Z)

    def objective(flat: np.ndarray) -> tuple[Array, Array]:
        return _loss_and_gradient(jnp.asarray(flat), prior, batch, site, alpha)

    start = np.concatenate([*(np.ravel(np.log(leaf)) for leaf in jax.tree.leaves(hyper)), inducing])
    limits = [_LENGTHSCALE] * d + [_VARIANCE, _NOISE_VAR] + [(-np.inf, np.inf)] * inducing.size
    return _split(jnp.asarray(search(objective, start, limits, steps).x), batch.X)


def exact_hyper(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> Hyper:
    """Of greatest posterior density on a few hundred rows: the bound with all of them as `Z`, and the prior."""
    Z = jnp.asarray(X)
    batch = Batch(Z, jnp.asarray(y), jnp.ones(len(X), bool))
    prior, site = first_prior(X.shape[1]), no_site(Z, y.shape[1])
    return improved(prior, first_hyper(X, y), None, batch, site, EXACT_STEPS)[0]


def _split(flat: Float[Array, " p"], X: Float[Array, "n d"]) -> tuple[Hyper, Float[Array, "m d"]]:
    """Hyperparameters and inducing inputs; where there are none of the latter, the rows `X`."""
    d = X.shape[1]
    positive = jnp.exp(flat[: d + 2])
    hyper = Hyper(positive[:d], positive[d], positive[d + 1])
    return hyper, flat[d + 2 :].reshape(-1, d) if flat.size > d + 2 else X


@partial(jax.jit, static_argnames="alpha")
def _loss_and_gradient(flat: Array, prior: Prior, batch: Batch, site: Site, alpha: float) -> tuple[Array, Array]:
    def loss(flat: Array) -> Array:
        hyper, Z = _split(flat, batch.X)
        away = jax.tree.map(lambda a, b: jnp.sum(jnp.square(jnp.log(a / b))), hyper, prior.centre)
        log_prior = -0.5 * sum(jax.tree.leaves(away)) / prior.sd**2
        return -(bound(hyper, Z, batch, site, alpha) + log_prior) / jnp.maximum(jnp.sum(batch.mask), 1)

    return jax.value_and_grad(loss)(flat)
