"""Samples of hyperparameters around an optimum of the evidence (Waxman and Djuric 2024, 4.1).

The evidence, normalised, is a density over hyperparameters, or rather over their logs where they are positive. Near
an optimum the log evidence is almost a parabola, and so the density almost a Gaussian, with the inverse Hessian of
the negative log evidence as its covariance.
"""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis
from streamgp.models.fitting.gaussian_evidence import Fit, fit_at, limits, loss_and_gradient, unconstrain
from streamgp.models.fitting.hyperparameters import flatten
from streamgp.numerics import keys, tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.keys import Key

MAX_DIRECTIONS = 300  # a Hessian of more hyperparameters is not computed
# The variance of each coordinate where no Hessian is computed (Waxman and Djuric 2024, 5).
PERTURBATION = 1e-3
# The largest variance of any direction. The parabola does not say how far a direction without curvature, such as the
# log lengthscale of an irrelevant input, stays so. Up to here samples lose on average the half nat of evidence for
# each hyperparameter that they should (on two real sets of 8 and 12 inputs); at four times this, up to 75 nats.
MAX_VARIANCE = 1.0
# The step of differences, in the coordinates: the error that it leaves and that of rounding are of the same size.
_STEP = 1e-4


def evidence_hessian(
    flat: Float[np.ndarray, " p"],
    basis: Basis,
    trainable: tuple[str, ...],
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    along: Any = None,
) -> Float[np.ndarray, "q q"]:
    """Compute the Hessian of the negative log evidence, in the flattened coordinates of `unconstrain`.

    By central differences of the gradient, which is exact.

    Parameters
    ----------
    along
        The positions of the coordinates to compute it in; all by default.
    """
    along = np.arange(flat.size) if along is None else along

    def gradient(flat: np.ndarray) -> np.ndarray:
        return y.size * loss_and_gradient(flat, basis, trainable, X, y)[1][along]

    rows = [gradient(flat + step) - gradient(flat - step) for step in _STEP * np.eye(flat.size)[along]]
    hessian = np.stack(rows) / (2.0 * _STEP)
    return 0.5 * (hessian + hessian.T)


def covariance_root(hessian: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Return the symmetric square root of the covariance that a Hessian stands for.

    That is the inverse root of the Hessian, with every eigenvalue below 1 / `MAX_VARIANCE` raised to it: flat
    directions, and those along which the evidence rises because the fit ended at a saddle or was stopped.
    """
    curvature, directions = np.linalg.eigh(hessian)
    return (directions / np.sqrt(np.maximum(curvature, 1.0 / MAX_VARIANCE))) @ directions.T


def laplace_samples(
    fit: Fit,
    basis: Basis,
    trainable: tuple[str, ...],
    X: Float[AnyArray, "n d"],
    y: Float[AnyArray, "n e"],
    count: int,
    key: Key,
) -> list[Fit]:
    """Draw `count` bases with hyperparameters from the Laplace approximation of the evidence around `fit`.

    Where there are more than `MAX_DIRECTIONS` hyperparameters, they are the optimum's with independent Gaussian
    perturbations of variance `PERTURBATION`. Hyperparameters at a bound of the fit stay there, as the optimum lies
    beyond; no other leaves its bounds. More samples leave the first ones as they are.

    Parameters
    ----------
    fit, basis, trainable, X, y
        An optimum, and what `streamgp.models.fitting.gaussian_evidence.fit_basis` was given for it.
    key
        Random key; sample i depends on it and on i alone.
    """
    if not count:
        return []  # a Hessian costs as much as the fit
    X, y = np.asarray(X, float), np.asarray(y, float)
    basis = tree.map(np.asarray, basis)
    optimum = flatten(unconstrain(fit.basis, trainable, fit.prior_var, fit.noise_var))
    low, high = limits(basis, trainable).T
    free = np.flatnonzero((optimum > low + 1e-6) & (optimum < high - 1e-6))
    move = partial(np.multiply, np.sqrt(PERTURBATION))
    if optimum.size <= MAX_DIRECTIONS:
        move = partial(np.matmul, covariance_root(evidence_hessian(optimum, basis, trainable, X, y, free)))
    samples = []
    for i in range(count):
        flat = optimum.copy()
        flat[free] += move(keys.generator(keys.fold_in(key, i)).normal(size=free.size))
        flat = np.clip(flat, low, high)
        value, _ = loss_and_gradient(flat, basis, trainable, X, y)
        samples.append(fit_at(flat, value, basis, trainable, y, fit.start, 0))
    return samples
