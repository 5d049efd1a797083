"""The weights of highest posterior density where targets are no Gaussian measurements, and the curvature there.

Weights are theta / sqrt(v), a priori N(0, I); the features hold sqrt(v).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Expansion, Likelihood
from streamgp.likelihoods.step import MAX_HALVINGS
from streamgp.numerics.linalg import cholesky_solve, factor

MAX_NEWTON = 50
# Newton's method stops after a step as small as this. The remaining error is of the order of its square.
TOLERANCE = 1e-6


class Mode(NamedTuple):
    """The weights (C, F) of highest posterior density, the latent values there, and the likelihood around them."""

    weights: Float[np.ndarray, "c f"]
    f: Float[np.ndarray, "n c"]
    expansion: Expansion


def find_mode(likelihood: Likelihood, Phi: Any, y: Any, start: Any, shift: Any) -> Mode:
    """Find the weights of highest posterior density by Newton's method; a step is halved until it loses nothing."""

    def at(weights: Any) -> tuple[float, Mode]:
        f = Phi @ weights.T + shift
        expansion = likelihood.expand(f, y)
        return np.sum(expansion.value) - 0.5 * np.sum(weights * weights), Mode(weights, f, expansion)

    value, mode = at(np.zeros_like(start))
    at_start = at(start)
    if at_start[0] > value:  # not where it is no number
        value, mode = at_start
    for _ in range(MAX_NEWTON):
        weights, f, (_, gradient, precision) = mode
        ascent = (gradient.T @ Phi - weights).reshape(-1, 1)
        direction = cholesky_solve(newton_factor(Phi, precision), ascent).reshape(weights.shape)
        length = np.max(np.abs(Phi @ direction.T)) / (1.0 + np.max(np.abs(f)))
        found = _largest_gain(at, weights, value, direction)
        if found is None:
            break
        value, mode = found
        if not length > TOLERANCE:
            break
    return mode


def _largest_gain(
    at: Callable[[Any], tuple[float, Mode]], weights: Any, value: float, direction: Any
) -> tuple[float, Mode] | None:
    """Return the value and mode at the end of the largest of 1, 1/2, 1/4, ... of a direction that loses nothing."""
    for k in range(MAX_HALVINGS):
        found = at(weights + 0.5**k * direction)
        # False for NaN, which counts as worse.
        if found[0] >= value - 1e-13 * abs(value):
            return found
    return None


def clipped(precision: Float[np.ndarray, "n c c"]) -> Float[np.ndarray, "n c c"]:
    """Return precisions of which those of one latent value that are below zero are zero."""
    return np.maximum(precision, 0.0) if precision.shape[-1] == 1 else precision


def newton_factor(Phi: Any, precision: Any) -> Any:
    """Return the factor of the posterior precision or, where that is not positive definite, of the clipped one."""
    L = factor(posterior_precision(Phi, precision))
    if precision.shape[-1] > 1 or np.isfinite(np.diagonal(L)).all():
        return L
    return factor(posterior_precision(Phi, clipped(precision)))


def _pairs(C: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the pairs of latent values, each pair once."""
    return np.triu_indices(C)


def posterior_precision(
    Phi: Float[np.ndarray, "n f"], precision: Float[np.ndarray, "n c c"]
) -> Float[np.ndarray, "cf cf"]:
    """Compute I + sum_i W_i (x) phi_i phi_i': one matrix product for each pair of latent values."""
    F, C = Phi.shape[1], precision.shape[-1]
    A = np.empty((C, F, C, F))
    for c, d in zip(*_pairs(C), strict=True):
        w = precision[:, c, d]
        if c == d and (w >= 0.0).all():
            rooted = np.sqrt(w)[:, None] * Phi
            block = rooted.T @ rooted  # of a matrix with itself, at half the cost
        else:
            block = Phi.T @ (w[:, None] * Phi)
        A[c, :, d], A[d, :, c] = block, block.T
    A = A.reshape(C * F, C * F)
    A[np.diag_indices(C * F)] += 1.0
    return A


def by_log_det(
    L: Float[np.ndarray, "cf cf"], Phi: Float[np.ndarray, "n f"], precision: Float[np.ndarray, "n c c"]
) -> tuple[Float[np.ndarray, "n c c"], Float[np.ndarray, "n f"]]:
    """Return the gradient of -log |A| / 2, A = L L' the posterior precision, by the precisions and by the features.

    With S_i the C x C matrix of phi_i' (A^-1)_cd phi_i, that by W_i is -S_i / 2.
    """
    F, C = Phi.shape[1], precision.shape[-1]
    inverse = cholesky_solve(L, np.eye(len(L))).reshape(C, F, C, F)
    along, by_Phi = np.empty_like(precision), np.zeros_like(Phi)
    for c, d in zip(*_pairs(C), strict=True):
        block = inverse[c, :, d]
        moved = Phi @ (block + block.T)
        along[:, c, d] = along[:, d, c] = -0.25 * np.einsum("nf,nf->n", moved, Phi)
        by_Phi -= (0.5 if c == d else 1.0) * precision[:, c, d, None] * moved
    return along, by_Phi
