"""Hyperparameters and inducing inputs of one sparse Gaussian process, by a few steps up the bound of a batch."""

from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.bases.kernels import SquaredExponential
from streamgp.models.fitting.hyperparameters import search
from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.keys import Key
from streamgp.numerics.pivoted_cholesky import pivoted_cholesky
from streamgp.research.sparse.vfe import Batch, KernelHyperparameters, SparsePosterior, bound, empty_posterior

# Bounds in logs, for standardised data: they prevent overflow and are not active at a sensible optimum.
_LENGTHSCALE = (np.log(1e-3), np.log(1e4))
_VARIANCE = (np.log(1e-6), np.log(1e6))
_NOISE_VAR = (np.log(1e-6), np.log(1e3))
EXACT_STEPS = 100
_KERNEL = SquaredExponential()
# A point is determined by the others if its conditional variance is below this share of the prior variance.
_RANK = 1e-12


class Prior(NamedTuple):
    """A normal prior of each hyperparameter's logarithm, around that of `centre`, with standard deviation `sd`.

    Without it, a first batch with little but noise makes the variance zero, and the model so certain of a constant
    that no later batch changes it.
    """

    centre: KernelHyperparameters
    sd: float


def initial_prior(num_inputs: int) -> Prior:
    """Return the prior for standardised data, before any row is seen."""
    return Prior(KernelHyperparameters(jnp.full(num_inputs, num_inputs**0.5), jnp.ones(()), jnp.full((), 0.1)), 1.5)


def next_prior(hyperparameters: KernelHyperparameters) -> Prior:
    """Return the prior for the next batch: hyperparameters walk, by half their size or so."""
    return Prior(hyperparameters, 0.5)


def initial_hyperparameters(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> KernelHyperparameters:
    """Return where a new model starts: lengthscales and variances of the size of its first batch."""
    lengthscales = np.maximum(X.std(axis=0), 1e-2) * np.sqrt(X.shape[1])
    variance = np.maximum(np.mean(np.square(y)), 1e-2)
    return KernelHyperparameters(jnp.asarray(lengthscales), jnp.asarray(variance), jnp.asarray(0.1 * variance))


def choose_inducing_inputs(
    key: Key,
    X: Float[np.ndarray, "n d"],
    hyperparameters: KernelHyperparameters,
    num_inducing: int,
    old: Float[Array, "m d"] | None = None,
) -> Float[np.ndarray, "m d"]:
    """Choose inducing inputs among the rows of a batch and the `old` inducing inputs.

    The next one is always the point of the largest conditional variance (Burt, Rasmussen and van der Wilk 2020), so
    that redundant old ones are dropped first. Rows are moved by a thousandth of a lengthscale and are repeated where
    there are too few, so that no two are the same.
    """
    rng = keys.generator(key)
    lengthscales = np.asarray(hyperparameters.lengthscales)
    rows = np.resize(rng.permutation(len(X)), max(len(X), num_inducing))
    moved = X[rows] + 1e-3 * lengthscales * rng.standard_normal((len(rows), X.shape[1]))
    candidates = moved if old is None else np.concatenate([np.asarray(old), moved])
    scaled = candidates / lengthscales
    found = pivoted_cholesky(
        lambda i: np.asarray(_KERNEL.value(scaled - scaled[i])), np.ones(len(scaled)), num_inducing, tolerance=_RANK
    )
    # Where all others are determined to the last digit it does not matter which.
    others = np.setdiff1d(np.arange(len(scaled)), found.chosen)[: num_inducing - len(found.chosen)]
    return candidates[np.concatenate([found.chosen, others])]


def choose_start(
    key: Key,
    hyperparameters: KernelHyperparameters,
    batch: Batch,
    past: SparsePosterior,
    alpha: float = 0.0,
) -> Float[np.ndarray, "m d"]:
    """Return the old inducing inputs, or `choose_inducing_inputs` of them and the batch, by the higher bound.

    In a region that the model has seen, its own inputs are better than new rows, after many steps up the bounds of
    earlier batches; rows from elsewhere need some of their own. Bui, Nguyen and Turner (2017) draw a share of the
    rows at random, which forgets on ordered streams and wanders on shuffled ones.
    """
    old = past.inducing
    new = choose_inducing_inputs(key, np.asarray(batch.X), hyperparameters, len(old), old)
    gain = _bound(hyperparameters, jnp.asarray(new), batch, past, alpha) - _bound(
        hyperparameters, old, batch, past, alpha
    )
    return new if gain > 0.0 else np.asarray(old)


_bound = jax.jit(bound, static_argnames="alpha")


def optimise(
    prior: Prior,
    hyperparameters: KernelHyperparameters,
    Z: Float[np.ndarray, "m d"] | None,
    batch: Batch,
    past: SparsePosterior,
    steps: int,
    alpha: float = 0.0,
) -> tuple[KernelHyperparameters, Float[Array, "m d"]]:
    """Take at most `steps` steps of L-BFGS-B up bound and prior, in logs of the hyperparameters and in `Z`.

    Steps begin at `hyperparameters` and `Z`; the best point is returned. Without `Z` the rows of the batch are the
    inducing inputs, and are not moved.
    """
    d, inducing = batch.X.shape[1], np.zeros(0) if Z is None else np.ravel(Z)

    def objective(flat: np.ndarray) -> tuple[Array, Array]:
        return _loss_and_gradient(jnp.asarray(flat), prior, batch, past, alpha)

    start = np.concatenate([*(np.ravel(np.log(leaf)) for leaf in tree.leaves(hyperparameters)), inducing])
    limits = [_LENGTHSCALE] * d + [_VARIANCE, _NOISE_VAR] + [(-np.inf, np.inf)] * inducing.size
    return _split(jnp.asarray(search(objective, start, limits, steps).x), batch.X)


def fit_exact_hyperparameters(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]) -> KernelHyperparameters:
    """Return those of greatest posterior density on a few hundred rows: with all of them as `Z`, and the prior."""
    Z = jnp.asarray(X)
    batch = Batch(Z, jnp.asarray(y), jnp.ones(len(X), bool))
    prior, past = initial_prior(X.shape[1]), empty_posterior(Z, y.shape[1])
    return optimise(prior, initial_hyperparameters(X, y), None, batch, past, EXACT_STEPS)[0]


def _split(flat: Float[Array, " p"], X: Float[Array, "n d"]) -> tuple[KernelHyperparameters, Float[Array, "m d"]]:
    """Return hyperparameters and inducing inputs; where there are none of the latter, the rows `X`."""
    d = X.shape[1]
    positive = jnp.exp(flat[: d + 2])
    hyperparameters = KernelHyperparameters(positive[:d], positive[d], positive[d + 1])
    return hyperparameters, flat[d + 2 :].reshape(-1, d) if flat.size > d + 2 else X


@partial(jax.jit, static_argnames="alpha")
def _loss_and_gradient(
    flat: Array, prior: Prior, batch: Batch, past: SparsePosterior, alpha: float
) -> tuple[Array, Array]:
    def loss(flat: Array) -> Array:
        hyperparameters, Z = _split(flat, batch.X)
        distances = tree.map(lambda a, b: jnp.sum(jnp.square(jnp.log(a / b))), hyperparameters, prior.centre)
        log_prior = -0.5 * sum(tree.leaves(distances)) / prior.sd**2
        return -(bound(hyperparameters, Z, batch, past, alpha) + log_prior) / jnp.maximum(jnp.sum(batch.mask), 1)

    return jax.value_and_grad(loss)(flat)
