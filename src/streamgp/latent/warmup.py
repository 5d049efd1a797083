"""Gaussian process latent variable models of the warm-up rows, one a kernel: coordinates and hyperparameters.

The most probable coordinates under a normal prior, with random Fourier features (Lu, Karanikolas and Giannakis 2022,
Section 6; Lawrence 2005 for the model).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases import Fourier
from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import evidence_and_gradient
from streamgp.models.fitting.hyperparameters import search
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.keys import Key

# The squares of the lengthscales are 2^k.
LENGTHSCALES = tuple(2.0 ** (k / 2.0) for k in range(-3, 4))
"""The lengthscales of the kernels that learn side by side."""
FEATURES = 100
MAX_STEPS = 300
# The number of rounds of filling gaps; more rounds change little.
FILL_ROUNDS = 10
# In logs, of rows whose cells have a mean square of one.
_PRIOR_VAR = (np.log(1e-6), np.log(1e6))
_NOISE_VAR = (np.log(1e-6), np.log(1e2))


class LatentFit(NamedTuple):
    """An expert with its hyperparameters, the coordinates of the warm-up rows, and their log joint density."""

    expert: Expert
    coordinates: Float[Array, "n d"]
    log_joint: float


def principal_coordinates(Y: Float[np.ndarray, "n e"], num_latents: int) -> Float[np.ndarray, "n d"]:
    """Return the leading principal components, each of variance one: where the fit starts."""
    left, size, _ = np.linalg.svd(Y, full_matrices=False)
    # A sign that does not depend on the library: the largest entry is positive.
    left = left * np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    coordinates = np.zeros((len(Y), num_latents))
    rank = min(num_latents, int(np.sum(size > 1e-12 * size[0])))
    coordinates[:, :rank] = left[:, :rank] * np.sqrt(len(Y))
    return coordinates


def fill_gaps(Y: Float[np.ndarray, "n e"], seen: Bool[np.ndarray, "n e"], rank: int) -> Float[np.ndarray, "n e"]:
    """Fill the gaps of centred rows by principal components of all rows, found by iteration."""
    if seen.all():
        return Y
    filled = np.where(seen, Y, 0.0)
    for _ in range(FILL_ROUNDS):
        left, size, right = np.linalg.svd(filled, full_matrices=False)
        filled = np.where(seen, Y, (left[:, :rank] * size[:rank]) @ right[:rank])
    return filled


def fit_coordinates(
    lengthscale: float,
    Y: Float[np.ndarray, "n e"],
    start: Float[np.ndarray, "n d"],
    dynamics: Dynamics,
    key: Key,
    num_features: int = FEATURES,
    steps: int = MAX_STEPS,
    cells_per_row: float | None = None,
) -> LatentFit:
    """Maximise log p(Y | X) + log N(X; 0, I) over the coordinates X, the prior variance and the noise variance.

    `cells_per_row` is how many cells of a row are observed in the mean, if the others have been filled.
    """
    n, d = start.shape
    drawn = Fourier.from_data(np.array([[0.0] * d, [1.0] * d]), num_features=num_features, start=1.0, key=key)
    basis = Fourier(drawn.frequencies, jnp.full(d, lengthscale))
    columns = Y
    # Columns enter only through their inner products, so that as many columns as rows are enough.
    if Y.shape[1] > n:
        left, size, _ = np.linalg.svd(Y, full_matrices=False)
        columns = left * size
    padding = Y.shape[1] - columns.shape[1]
    targets = jnp.asarray(columns)

    def objective(flat: np.ndarray) -> tuple[Array, Array]:
        return _loss_and_gradient(jnp.asarray(flat), basis, targets, padding)

    noise_var = max(0.5 * float(np.mean(np.square(Y))), float(np.exp(_NOISE_VAR[0])))
    flat = np.concatenate([start.ravel(), np.log([2.0 * noise_var, noise_var])])
    limits = [(-np.inf, np.inf)] * start.size + [_PRIOR_VAR, _NOISE_VAR]
    found = search(objective, flat, limits, steps)
    # Filled cells have no noise, and the coordinates of a row take up d of its cells.
    cells_per_row = Y.shape[1] if cells_per_row is None else cells_per_row
    noise_var = np.exp(found.x[-1]) * Y.shape[1] / max(cells_per_row - d, 1.0)
    expert = Expert(basis, jnp.exp(jnp.asarray(found.x[-2])), jnp.asarray(noise_var), dynamics)
    return LatentFit(expert, jnp.asarray(found.x[:-2].reshape(n, d)), -float(found.fun) * n)


@jax.custom_vjp
def _log_evidence(Phi: Array, Y: Array, prior_var: Array, noise_var: Array) -> Array:
    """Compute the evidence, with the gradient in closed form."""
    return evidence_and_gradient(Phi, Y, prior_var, noise_var)[0]


def _backward(gradient: tuple, cotangent: Array) -> tuple:
    return tuple(cotangent * g for g in gradient)


_log_evidence.defvjp(evidence_and_gradient, _backward)


@jax.jit(static_argnames="padding")
def _loss_and_gradient(flat: Array, basis: Basis, Y: Array, padding: int) -> tuple[Array, Array]:
    """Compute both per row, as if `padding` columns of zeros stood beside `Y`."""

    def loss(flat: Array) -> Array:
        X, (v, s2) = flat[:-2].reshape(len(Y), -1), jnp.exp(flat[-2:])
        Phi = basis(X)
        value = _log_evidence(Phi, Y, v, s2) - 0.5 * jnp.sum(X * X + jnp.log(2.0 * jnp.pi))
        if padding:
            value += padding * _log_evidence(Phi, jnp.zeros((len(Y), 1)), v, s2)
        return -value / len(Y)

    return jax.value_and_grad(loss)(flat)
