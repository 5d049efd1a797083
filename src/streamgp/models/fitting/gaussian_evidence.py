"""Empirical Bayes: the log marginal likelihood of a basis model and its maximisation on the warm-up rows.

Model: ``y ~ N(0, v Phi Phi' + s2 I)`` for each output. The weight-space form costs O(n F^2), the function-space
form O(n^2 F); the cheaper one is taken. Rasmussen and Williams (2006), Eqs. 2.43, 5.8 and 5.9; Waxman and Djuric
(2024), 2.1.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs

from streamgp.bases.base import Basis
from streamgp.models.fitting import hyperparameters
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve, jittered, log_det, mirror_upper


def log_evidence(
    Phi: Float[np.ndarray, "n f"], y: Float[np.ndarray, "n e"], prior_var: Any, noise_var: Any
) -> Float[Any, ""]:
    """Compute log N(y; 0, v Phi Phi' + s2 I), summed over the outputs (columns of `y`)."""
    return evidence_and_gradient(Phi, y, prior_var, noise_var)[0]


def evidence_and_gradient(
    Phi: Float[AnyArray, "n f"], y: Float[AnyArray, "n e"], prior_var: Any, noise_var: Any
) -> tuple[Any, tuple[Any, Any, Any, Any]]:
    """Compute `log_evidence`, and its gradient by all four in closed form."""
    n, F = Phi.shape
    return (_weight_space if n > F else _function_space)(Phi, y, prior_var, noise_var)


def _weight_space(Phi: AnyArray, y: AnyArray, v: Any, s2: Any) -> tuple:
    (n, F), E, xp = Phi.shape, y.shape[1], namespace(Phi, y, v, s2)
    ratio = v / s2
    L = _factor(add_diagonal(ratio * (Phi.T @ Phi), 1.0))
    inverse = _inverse(L)
    mu = ratio * (inverse @ (Phi.T @ y))
    alpha = (y - Phi @ mu) / s2  # K^-1 y
    fit = s2 * xp.sum(alpha**2) + xp.sum(mu**2) / v  # y' K^-1 y, without the cancellation of y'y - ...
    value = -0.5 * (fit + E * (n * xp.log(2 * np.pi * s2) + log_det(L)))
    trace = xp.trace(inverse)
    d_Phi = _plus_product(Phi @ (-E * ratio * inverse), alpha, mu.T)
    d_v = 0.5 / v * (xp.sum(mu**2) / v - E * (F - trace))
    d_s2 = 0.5 * (xp.sum(alpha**2) - E * (n - F + trace) / s2)
    return value, (d_Phi, -alpha, d_v, d_s2)


def _function_space(Phi: AnyArray, y: AnyArray, v: Any, s2: Any) -> tuple:
    (n, E), xp = y.shape, namespace(Phi, y, v, s2)
    gram = Phi @ Phi.T
    L = _factor(add_diagonal(v * gram, s2))
    alpha = cholesky_solve(L, y)
    value = -0.5 * (xp.sum(y * alpha) + E * (n * np.log(2 * np.pi) + log_det(L)))
    d_K = 0.5 * (alpha @ alpha.T - E * _inverse(L))
    return value, (2.0 * v * (d_K @ Phi), -alpha, xp.sum(d_K * gram), xp.trace(d_K))


def _plus_product(C: Float[AnyArray, "n f"], A: Float[AnyArray, "n e"], B: Float[AnyArray, "e f"]) -> AnyArray:
    """Return ``C + A B``, in place of NumPy's `C`: some rows at a time, which stay in the cache."""
    if namespace(C, A, B) is not np:
        return C + A @ B
    for at in range(0, len(C), 128):
        C[at : at + 128] += A[at : at + 128] * B if len(B) == 1 else A[at : at + 128] @ B
    return C


def _factor(A: Float[AnyArray, "n n"]) -> AnyArray:
    """Return the lower Cholesky factor of a symmetric matrix; not a number where it has none."""
    if namespace(A) is not np:
        return cholesky(A)
    (potrf,) = get_lapack_funcs(("potrf",), (A,))
    factor, failed = potrf(jittered(A), lower=True)
    return np.full_like(A, np.nan) if failed else factor


def _inverse(L: Float[AnyArray, "n n"]) -> AnyArray:
    """Return (L L')^-1."""
    if (xp := namespace(L)) is not np:
        return cholesky_solve(L, xp.eye(len(L), dtype=L.dtype))
    (potri,) = get_lapack_funcs(("potri",), (L,))
    inverse = potri(L, lower=True)[0].T  # in the order of NumPy, its upper triangle
    mirror_upper(inverse)
    return inverse


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
_TINY = np.finfo(float).tiny


def unconstrain(
    basis: Basis,
    trainable: tuple[str, ...],
    prior_var: float = INITIAL_PRIOR_VAR,
    noise_var: float = INITIAL_NOISE_VAR,
) -> dict[str, Any]:
    """Return hyperparameters as coordinates that may be any numbers: positive ones as their logs."""
    return hyperparameters.unconstrain(basis, trainable) | {
        "log_prior_var": np.log(prior_var),
        "log_noise_var": np.log(noise_var),
    }


def _constrain(flat: np.ndarray, basis: Basis, trainable: tuple[str, ...]) -> tuple[Basis, float, float]:
    hyper = hyperparameters.unflatten(flat, unconstrain(basis, trainable))
    moved = hyperparameters.constrain(basis, trainable, hyper)
    return moved, float(np.exp(hyper["log_prior_var"])), float(np.exp(hyper["log_noise_var"]))


def limits(basis: Basis, trainable: tuple[str, ...]) -> Float[np.ndarray, "p 2"]:
    """Return the least and the greatest value of each coordinate of `unconstrain`, flattened."""
    bounds = hyperparameters.limits(basis, trainable) | {
        "log_prior_var": np.asarray(hyperparameters.PRIOR_BOUNDS),
        "log_noise_var": np.asarray(_NOISE_BOUNDS),
    }
    return np.concatenate([b.reshape(-1, 2) for b in tree.leaves(bounds)])


def loss_and_gradient(
    flat: Float[np.ndarray, " p"],
    basis: Basis,
    trainable: tuple[str, ...],
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
) -> tuple[float, Float[np.ndarray, " p"]]:
    """Compute the negative log evidence per row and output, in the coordinates of `unconstrain`, flattened.

    Beyond `MAX_RATIO` it rises steeply. No number comes with a gradient of none.
    """
    # What overflows gives no number, from which a search turns back.
    with np.errstate(all="ignore"):
        moved, v, s2 = _constrain(flat, basis, trainable)
        Phi, pullback = moved.features_and_pullback(X)
        value, (by_Phi, _, by_v, by_s2) = evidence_and_gradient(Phi, y, v, s2)
        size = float(np.vdot(Phi, Phi)) / len(Phi)
        beyond = np.log(v / (s2 * MAX_RATIO)) + np.log(max(size, _TINY))
        steep = 2.0 * _STIFFNESS * max(beyond, 0.0)
        by_Phi /= -y.size
        if steep and size > _TINY:
            by_Phi += 2.0 * steep / (size * len(Phi)) * Phi
        gradient = hyperparameters.by_coordinates(moved, trainable, pullback(by_Phi)) | {
            "log_prior_var": steep - by_v * v / y.size,
            "log_noise_var": -steep - by_s2 * s2 / y.size,
        }
        return float(-value / y.size + _STIFFNESS * max(beyond, 0.0) ** 2), hyperparameters.flatten(gradient)


def fixed_loss(
    Phi: Float[np.ndarray, "n f"], y: Float[np.ndarray, "n e"]
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return `loss`, with its gradient, as a function of (log s2, log v) alone, for features that stay as they are.

    In the eigenvectors of Phi' Phi all is a sum over the features: each value costs O(F).
    """
    n, E = y.shape
    gram = Phi.T @ Phi
    if not np.isfinite(gram).all():
        return lambda flat: (np.nan, np.full(2, np.nan))
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)[:, None]
    squares = np.square(vectors.T @ (Phi.T @ y))
    total = np.sum(y * y)
    log_size = np.log(max(np.mean(np.sum(Phi * Phi, axis=1)), _TINY))

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
    flat: Float[np.ndarray, " p"],
    value: float,
    basis: Basis,
    trainable: tuple[str, ...],
    y: Float[np.ndarray, "n e"],
    start: float,
    steps: int,
) -> Fit:
    """Build the fit with the hyperparameters at `flat`, where the loss is `value`."""
    mean_square = np.mean(np.square(y), axis=0)
    # The mean square of a constant target is zero.
    with np.errstate(divide="ignore"):
        null = -0.5 * float(np.sum(np.log(2 * np.pi * mean_square) + 1.0)) / y.shape[1]
    moved, v, s2 = _constrain(flat, basis, trainable)
    return Fit(moved.precomputed(), v, s2, -value * y.size, -value - null, start, steps)


def fit_basis(
    basis: Basis,
    X: Float[AnyArray, "n d"],
    y: Float[AnyArray, "n e"],
    start: float = 1.0,
    trainable: tuple[str, ...] | None = None,
    noise_var: float = INITIAL_NOISE_VAR,
    max_steps: int = MAX_STEPS,
) -> Fit:
    """Maximise the evidence over v, s2 and the basis' own hyperparameters, from where `basis` stands, by L-BFGS-B.

    Parameters
    ----------
    trainable
        The hyperparameters of the basis to move; all of its `trainable` ones by default.
    noise_var
        Where s2 sets out from; v sets out from 1.
    max_steps
        Of the search, unless the basis itself has a lower limit.
    """
    X, y = np.asarray(X, float), np.asarray(y, float)
    basis = tree.map(np.asarray, basis)
    names = tuple(basis.trainable) if trainable is None else trainable
    if names:
        objective: Any = lambda flat: loss_and_gradient(flat, basis, names, X, y)  # noqa: E731
    else:
        objective = fixed_loss(np.asarray(basis(X)), y)
    found = hyperparameters.search(
        objective,
        hyperparameters.flatten(unconstrain(basis, names, noise_var=noise_var)),
        limits(basis, names),
        min(basis.search_steps(len(X)) or MAX_STEPS, max_steps),
    )
    return fit_at(found.x, float(found.fun), basis, names, y, start, int(found.nit))
