"""Samples of hyperparameters around an optimum of the evidence (Waxman and Djuric 2024, 4.1).

The evidence, normalised, is a density over hyperparameters, or rather over their logs where they are positive. Near
an optimum the log evidence is almost a parabola, and so the density almost a Gaussian, with the inverse Hessian of
the negative log evidence as its covariance.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray
from streamgp.models.fitting.gaussian_evidence import Fit, fit_at, limits, loss, unconstrain
from streamgp.numerics import keys
from streamgp.numerics.keys import Key
from streamgp.numerics.linalg import symmetrise

MAX_DIRECTIONS = 300  # a Hessian of more hyperparameters is not computed
# The variance of each coordinate where no Hessian is computed (Waxman and Djuric 2024, 5).
PERTURBATION = 1e-3
# The largest variance of any direction. The parabola does not say how far a direction without curvature, such as the
# log lengthscale of an irrelevant input, stays so. Up to here samples lose on average the half nat of evidence for
# each hyperparameter that they should (on two real sets of 8 and 12 inputs); at four times this, up to 75 nats.
MAX_VARIANCE = 1.0
_loss = eqx.filter_jit(loss)


@eqx.filter_jit
def evidence_hessian(
    flat: Float[Array, " p"], basis: Basis, trainable: tuple[str, ...], X: Float[Array, "n d"], y: Float[Array, "n e"]
) -> Float[AnyArray, "p p"]:
    """Compute the Hessian of the negative log evidence, in the flattened coordinates of `unconstrain`.

    Exact: the derivative of the closed-form gradient, one direction after the other, so that memory is that of one.
    """
    gradient = jax.grad(lambda flat: y.size * loss(flat, basis, trainable, X, y))
    directions = jnp.eye(flat.size, dtype=flat.dtype)
    return symmetrise(jax.lax.map(lambda along: jax.jvp(gradient, (flat,), (along,))[1], directions))


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
    X: Float[Array, "n d"],
    y: Float[Array, "n e"],
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
        return []  # a Hessian costs much more than the fit's gradients
    optimum, _ = ravel_pytree(unconstrain(fit.basis, trainable, fit.prior_var, fit.noise_var))
    low, high = limits(basis, trainable).T
    free = np.flatnonzero((optimum > low + 1e-6) & (optimum < high - 1e-6))
    move = partial(np.multiply, np.sqrt(PERTURBATION))
    if optimum.size <= MAX_DIRECTIONS:
        hessian = evidence_hessian(optimum, basis, trainable, X, y)
        move = partial(np.matmul, covariance_root(np.asarray(hessian)[np.ix_(free, free)]))
    samples = []
    for i in range(count):
        drawn = np.asarray(jax.random.normal(keys.fold_in(key, i), (free.size,), optimum.dtype))
        flat = np.array(optimum)
        flat[free] += move(drawn)
        flat = np.clip(flat, low, high)
        value = float(_loss(jnp.asarray(flat), basis, trainable, X, y))
        samples.append(fit_at(flat, value, basis, trainable, y, fit.start, 0))
    return samples
