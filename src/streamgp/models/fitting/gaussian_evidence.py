"""Empirical Bayes: the log marginal likelihood of a basis model and its maximisation on the warm-up rows.

Model: ``y ~ N(0, v Phi Phi' + s2 I)`` for each output. The weight-space form costs O(n F^2), the function-space
form O(n^2 F); the cheaper one is taken. Rasmussen and Williams (2006), Eqs. 2.43, 5.8 and 5.9; Waxman and Djuric
(2024), 2.1.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.filters.engine.cpu import as_numpy
from streamgp.models.fitting import hyperparameters
from streamgp.numerics import tree
from streamgp.numerics.compilation import LIGHT, compiled
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve, log_det


@jax.custom_vjp
def log_evidence(
    Phi: Float[Array, "n f"],
    y: Float[Array, "n e"],
    prior_var: Float[Array, ""],
    noise_var: Float[Array, ""],
) -> Float[Array, ""]:
    """Compute log N(y; 0, v Phi Phi' + s2 I), summed over the outputs (columns of `y`).

    Its gradient is the closed form, since differentiating through the factorisation would cost several times more.
    """
    return _evidence_and_gradient(Phi, y, prior_var, noise_var)[0]


def _evidence_and_gradient(Phi: Array, y: Array, v: Array, s2: Array) -> tuple:
    n, F = Phi.shape
    return (_weight_space if n > F else _function_space)(Phi, y, v, s2)


def _weight_space(Phi: Array, y: Array, v: Array, s2: Array) -> tuple:
    (n, F), E = Phi.shape, y.shape[1]
    ratio = v / s2
    L = cholesky(add_diagonal(ratio * (Phi.T @ Phi), 1.0))
    inverse = cholesky_solve(L, jnp.eye(F, dtype=Phi.dtype))
    mu = ratio * (inverse @ (Phi.T @ y))
    alpha = (y - Phi @ mu) / s2  # K^-1 y
    fit = s2 * jnp.sum(alpha**2) + jnp.sum(mu**2) / v  # y' K^-1 y, without the cancellation of y'y - ...
    value = -0.5 * (fit + E * (n * jnp.log(2 * jnp.pi * s2) + log_det(L)))
    trace = jnp.trace(inverse)
    d_Phi = alpha @ mu.T - E * ratio * (Phi @ inverse)
    d_v = 0.5 / v * (jnp.sum(mu**2) / v - E * (F - trace))
    d_s2 = 0.5 * (jnp.sum(alpha**2) - E * (n - F + trace) / s2)
    return value, (d_Phi, -alpha, d_v, d_s2)


def _function_space(Phi: Array, y: Array, v: Array, s2: Array) -> tuple:
    n, E = y.shape
    gram = Phi @ Phi.T
    L = cholesky(add_diagonal(v * gram, s2))
    alpha = cholesky_solve(L, y)
    value = -0.5 * (jnp.sum(y * alpha) + E * (n * jnp.log(2 * jnp.pi) + log_det(L)))
    d_K = 0.5 * (alpha @ alpha.T - E * cholesky_solve(L, jnp.eye(n, dtype=Phi.dtype)))
    return value, (2.0 * v * (d_K @ Phi), -alpha, jnp.sum(d_K * gram), jnp.trace(d_K))


def _backward(gradient: tuple, cotangent: Array) -> tuple:
    return tuple(cotangent * g for g in gradient)


log_evidence.defvjp(_evidence_and_gradient, _backward)


@dataclass(frozen=True)
class Fit:
    """A basis model at an optimum of its evidence on the warm-up rows.

    Attributes
    ----------
    gain
        Log evidence per row and output above that of pure noise, in nats; minus infinity where it is no number.
    """

    basis: Basis
    prior_var: float
    noise_var: float
    log_evidence: float
    gain: float
    start: float
    steps: int


INITIAL_PRIOR_VAR = 1.0
# The initial noise variance of standardised targets (Waxman and Djuric 2024, 4.1).
INITIAL_NOISE_VAR = 0.25
# Noise is never taken for less than 1% of the standard deviation of a target: a thousand rows cannot vouch for more.
NOISE_FLOOR = 1e-4
MAX_STEPS = 200
_NOISE_BOUNDS = (np.log(NOISE_FLOOR), np.log(1e2))
# The most that the prior variance of the function may be of the noise variance, in the mean of the rows: what lies
# beyond leaves a covariance few digits, and evidence that still rises there is mostly that of rounding.
MAX_RATIO = 1e10
# The penalty beyond a bound, in nats per row and squared nat. The evidence rises by half a nat per nat at most.
_STIFFNESS = 10.0


def unconstrain(
    basis: Basis,
    trainable: tuple[str, ...],
    prior_var: float = INITIAL_PRIOR_VAR,
    noise_var: float = INITIAL_NOISE_VAR,
) -> dict[str, Any]:
    """Return hyperparameters as coordinates that may be any numbers: positive ones as their logs."""
    return hyperparameters.unconstrain(basis, trainable) | {
        "log_prior_var": jnp.log(jnp.asarray(prior_var)),
        "log_noise_var": jnp.log(jnp.asarray(noise_var)),
    }


def _constrain(basis: Basis, trainable: tuple[str, ...], hyper: dict[str, Any]) -> tuple[Basis, Array, Array]:
    moved = hyperparameters.constrain(basis, trainable, hyper)
    return moved, jnp.exp(hyper["log_prior_var"]), jnp.exp(hyper["log_noise_var"])


def limits(basis: Basis, trainable: tuple[str, ...]) -> Float[np.ndarray, "p 2"]:
    """Return the least and the greatest value of each coordinate of `unconstrain`, flattened."""
    bounds = hyperparameters.limits(basis, trainable) | {
        "log_prior_var": np.asarray(hyperparameters.PRIOR_BOUNDS),
        "log_noise_var": np.asarray(_NOISE_BOUNDS),
    }
    return np.concatenate([b.reshape(-1, 2) for b in tree.leaves(bounds)])


def loss(
    flat: Float[Array, " p"], basis: Basis, trainable: tuple[str, ...], X: Float[Array, "n d"], y: Float[Array, "n e"]
) -> Float[Array, ""]:
    """Compute the negative log evidence per row and output, in the coordinates of `unconstrain`, flattened.

    Beyond `MAX_RATIO` it rises steeply.
    """
    _, unravel = ravel_pytree(unconstrain(basis, trainable))
    moved, v, s2 = _constrain(basis, trainable, unravel(flat))
    Phi = moved(X)
    size = jnp.maximum(jnp.mean(jnp.sum(Phi * Phi, axis=1)), jnp.finfo(Phi.dtype).tiny)
    beyond = jnp.log(v * size / (s2 * MAX_RATIO))
    return -log_evidence(Phi, y, v, s2) / y.size + _STIFFNESS * jnp.square(jnp.maximum(beyond, 0.0))


_loss_and_gradient = compiled(jax.value_and_grad(loss), LIGHT)


def fixed_loss(
    Phi: Float[np.ndarray, "n f"], y: Float[np.ndarray, "n e"]
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return `loss`, with its gradient, as a function of (log s2, log v) alone, for features that stay as they are.

    In the eigenvectors of Phi' Phi all is a sum over the features: each value costs O(F), and nothing is compiled.
    """
    n, E = y.shape
    gram = Phi.T @ Phi
    if not np.isfinite(gram).all():
        return lambda flat: (np.nan, np.full(2, np.nan))
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)[:, None]
    squares = np.square(vectors.T @ (Phi.T @ y))
    total = np.sum(y * y)
    log_size = np.log(max(np.mean(np.sum(Phi * Phi, axis=1)), np.finfo(float).tiny))

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log_noise, log_prior = flat
        s2, ratio = np.exp(log_noise), np.exp(log_prior - log_noise)
        grown = 1.0 + ratio * values
        explained = ratio * squares / grown
        fit = (total - explained.sum()) / s2
        evidence = -0.5 * (fit + E * (n * (np.log(2 * np.pi) + log_noise) + np.log(grown).sum()))
        by_ratio = 0.5 * (np.sum(explained / grown) / s2 - E * np.sum(ratio * values / grown))
        beyond = max(log_prior - log_noise + log_size - np.log(MAX_RATIO), 0.0)
        gradient = np.array([by_ratio - 0.5 * (fit - E * n), -by_ratio]) / y.size
        steep = 2.0 * _STIFFNESS * beyond * np.array([-1.0, 1.0])
        return -evidence / y.size + _STIFFNESS * beyond**2, gradient + steep

    return evaluate


def fit_at(
    flat: Any,
    value: float,
    basis: Basis,
    trainable: tuple[str, ...],
    y: Float[Array, "n e"],
    start: float,
    steps: int,
) -> Fit:
    """Build the fit with the hyperparameters at `flat`, where the loss is `value`; wait for its arrays."""
    _, unravel = ravel_pytree(unconstrain(basis, trainable))
    # NumPy is used, since JAX would compile a program for each number of rows.
    mean_square = np.mean(np.square(np.asarray(y)), axis=0)
    # The mean square of a constant target is zero.
    with np.errstate(divide="ignore"):
        null = -0.5 * float(np.sum(np.log(2 * np.pi * mean_square) + 1.0)) / y.shape[1]
    moved, v, s2 = _constrain(basis, trainable, unravel(jnp.asarray(flat, y.dtype)))
    ready = jax.block_until_ready(moved.precomputed())
    return Fit(ready, float(v), float(s2), -value * y.size, -value - null, start, steps)


def fit_basis(
    basis: Basis,
    X: Float[Array, "n d"],
    y: Float[Array, "n e"],
    start: float = 1.0,
    trainable: tuple[str, ...] | None = None,
    noise_var: float = INITIAL_NOISE_VAR,
) -> Fit:
    """Maximise the evidence over v, s2 and the basis' own hyperparameters, from where `basis` stands, by L-BFGS-B.

    Parameters
    ----------
    trainable
        The hyperparameters of the basis to move; all of its `trainable` ones by default.
    noise_var
        Where s2 sets out from; v sets out from 1.
    """
    trainable = tuple(basis.trainable) if trainable is None else trainable
    flat, _ = ravel_pytree(unconstrain(basis, trainable, noise_var=noise_var))
    if trainable:
        objective: Any = lambda flat: _loss_and_gradient(jnp.asarray(flat), basis, trainable, X, y)  # noqa: E731
    else:
        objective = fixed_loss(np.asarray(as_numpy(basis)(np.asarray(X)), float), np.asarray(y, float))
    found = hyperparameters.search(
        objective,
        flat,
        limits(basis, trainable),
        basis.search_steps(len(X)) or MAX_STEPS,
    )
    return fit_at(found.x, float(found.fun), basis, trainable, y, start, int(found.nit))
