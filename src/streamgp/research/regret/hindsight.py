"""The best functions of the experts' spaces, with all targets known: regret compares a run with them.

The best of an expert's function space minimises sum_t L(f(x_t); y_t) + ||f||^2 / 2 (Lu, Karanikolas and Giannakis
2022, Eq. 30). Everything is computed in float64; noise is Gaussian and constant.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streamgp.filters.engine.blocks import member
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve
from streamgp.numerics.precision import float64, in_float64


class Hindsight(NamedTuple):
    """The function f that minimises sum_t L(f(x_t); y_t) + ||f||^2 / 2 over an expert's function space.

    L(f; y) = -log N(y; f, s2). The space H is that of the kernel v k(x, x'), whether k is given by itself or as
    phi(x)' phi(x'), so f is also the mean of the posterior.

    Attributes
    ----------
    fitted, loss
        f(x_t) and L(f(x_t); y_t), shape (n,).
    coefficients
        alpha_t of f = sum_t alpha_t v k(x_t, .), shape (n,).
    squared_norm
        ||f||^2 in H; with a basis, ||theta||^2 / v.
    objective
        The minimum.
    """

    fitted: np.ndarray
    loss: np.ndarray
    coefficients: np.ndarray
    squared_norm: float
    objective: float


def hindsight_kernel(K: ArrayLike, y: ArrayLike, noise_var: float) -> Hindsight:
    """Find the best function of a kernel's space, by its matrix over all rows: n^3 / 3 multiplications.

    Parameters
    ----------
    K
        v k(x_s, x_t), symmetric, shape (n, n).
    y
        Targets, shape (n,).
    noise_var
        s2.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, or s2 is not positive.
    """
    K, y = as_array("K", K, 2), as_array("y", y, 1)
    if K.shape != (len(y), len(y)):
        raise ValueError(f"K: expected shape {(len(y), len(y))}, the rows of y both ways, got {K.shape}")
    s2 = _variance("noise_var", noise_var)
    with float64():
        L = cholesky(add_diagonal(jnp.asarray(K), s2))
        alpha = np.asarray(cholesky_solve(L, jnp.asarray(y[:, None])))[:, 0]
    fitted = K @ alpha
    return _hindsight(fitted, y, alpha, float(alpha @ fitted), s2)


def hindsight_basis(Phi: ArrayLike, y: ArrayLike, prior_var: float, noise_var: float) -> Hindsight:
    """Find the best function of a basis with weights of prior N(0, v I): n F^2 multiplications, for any n.

    `hindsight_kernel` returns the same for ``v Phi Phi'``.

    Parameters
    ----------
    Phi
        Design matrix, shape (n, F).
    y
        Targets, shape (n,).
    prior_var, noise_var
        v and s2.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite, or a variance is not positive.
    """
    Phi, y = as_array("Phi", Phi, 2), as_array("y", y, 1)
    if len(Phi) != len(y):
        raise ValueError(f"Phi: expected {len(y)} rows, as many as y has, got {len(Phi)}")
    v, s2 = _variance("prior_var", prior_var), _variance("noise_var", noise_var)
    ratio = v / s2
    with float64():
        L = cholesky(add_diagonal(jnp.asarray(ratio * (Phi.T @ Phi)), 1.0))
        theta = np.asarray(cholesky_solve(L, jnp.asarray(ratio * (Phi.T @ y))[:, None]))[:, 0]
    fitted = Phi @ theta
    return _hindsight(fitted, y, (y - fitted) / s2, float(theta @ theta) / v, s2)


def _hindsight(fitted: np.ndarray, y: np.ndarray, alpha: np.ndarray, squared_norm: float, s2: float) -> Hindsight:
    loss = 0.5 * np.log(2.0 * np.pi * s2) + 0.5 * (y - fitted) ** 2 / s2
    return Hindsight(fitted, loss, alpha, squared_norm, float(loss.sum()) + 0.5 * squared_norm)


def best_functions(model: Ensemble, X: ArrayLike, y: ArrayLike, slots: ArrayLike | None = None) -> list[Hindsight]:
    """Find the best function of each expert's basis, with its v and s2; with `slots`, on its own slots.

    Whatever the dynamics of an expert, its best function is one that does not move.

    Parameters
    ----------
    model
        An ensemble with one target and constant noise.
    X, y
        Rows of the run as the ensemble sees them (standardised), shapes (n, D) and (n,).
    slots
        Number of the expert that each row belongs to, shape (n,). Row t then counts for expert ``slots[t]`` only.

    Raises
    ------
    ValueError
        If the model has several targets or adaptive noise, or the rows do not fit it.
    """
    X, y, slots = as_rows(model, X, y, slots)
    fits = []
    for m, expert in enumerate(experts_of(model)):
        own = slice(None) if slots is None else slots == m
        with float64():
            Phi = np.asarray(expert.basis(jnp.asarray(X)))[own]
        fits.append(hindsight_basis(Phi, y[own], float(expert.prior_var), float(expert.noise_var)))
    return fits


def best_fit(fits: Sequence[Hindsight]) -> int:
    """Return m*, the expert whose best function has the smallest penalised objective (Lu et al. 2022, Eq. 30)."""
    return int(np.argmin([fit.objective for fit in fits]))


@in_float64
def experts_of(model: Ensemble) -> list[Expert]:
    """Return the experts of an ensemble one by one, in the order in which they were given."""
    stored = [
        (member(g.basis, i), member(g.noise, (i, j)), member(g.dynamics, (i, j)))
        for g in model.groups
        for i, j in np.ndindex(*g.noise.prior_var.shape)
    ]
    found = {
        at: Expert(basis, noise.prior_var, noise.noise_var, dynamics, model.names[at])
        for at, (basis, noise, dynamics) in zip(model.order, stored, strict=True)
    }
    return [found[m] for m in range(len(found))]


def as_rows(model: Ensemble, X: Any, y: Any, slots: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return inputs, targets and slots as arrays, checked against the model."""
    if model.num_outputs != 1 or model.noise.adapt:
        raise ValueError(
            f"model: expected an ensemble with one target and constant noise, got {model.num_outputs} targets and "
            f"{'adaptive' if model.noise.adapt else 'constant'} noise"
        )
    X, y = as_array("X", X, 2), as_array("y", y, 1)
    if X.shape != (len(y), model.num_inputs):
        raise ValueError(
            f"X: expected shape {(len(y), model.num_inputs)}, the rows of y and the model's inputs, got {X.shape}"
        )
    return X, y, None if slots is None else as_slots(slots, len(y), len(model.order))


def as_slots(slots: Any, rows: int, experts: int) -> np.ndarray:
    """Return slots as an array of expert numbers, checked."""
    slots = np.asarray(slots)
    expected = f"slots: expected {rows} whole numbers from 0 to {experts - 1}, the expert of each row"
    if slots.shape != (rows,) or slots.dtype.kind not in "iu":
        raise ValueError(f"{expected}, got shape {slots.shape} of {slots.dtype}")
    if (wrong := np.flatnonzero((slots < 0) | (slots >= experts))).size:
        raise ValueError(f"{expected}, got {slots[wrong[0]]} at row {wrong[0]}")
    return slots


def as_array(name: str, values: Any, ndim: int) -> np.ndarray:
    """Return finite numbers in float64, checked."""
    array = np.asarray(values, dtype=float)
    if array.ndim != ndim:
        raise ValueError(f"{name}: expected {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity; leave such rows out")
    return array


def _variance(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name}: expected a finite variance above 0, got {value}")
    return float(value)
