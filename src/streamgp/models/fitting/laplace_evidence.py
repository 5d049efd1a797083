"""Empirical Bayes where targets are no Gaussian measurements: Laplace's approximation of the marginal likelihood.

Model: f_i = (phi_i' theta_1, ..., phi_i' theta_C), each theta_c ~ N(0, v I), and p(y_i | f_i) of a `Likelihood`. The
integral over theta is that of a Gaussian at the mode, with the curvature there, in the space of the C F weights,
which costs O(n C^2 F^2 + C^3 F^3). Rasmussen and Williams (2006), Eqs. 3.32, 5.20-5.23 and, for several latent
values, 3.44.

Where a likelihood of one latent value is not log-concave (Student's t), curvature below zero, that of outliers,
counts as zero: the determinant never falls below the prior's. Likelihoods of several must be log-concave.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray
from streamgp.filters.engine.cpu import as_numpy
from streamgp.likelihoods.base import Likelihood, derivatives, halved
from streamgp.models.fitting.hyperparameters import PRIOR_BOUNDS, constrain, limits, search, unconstrain
from streamgp.numerics import tree
from streamgp.numerics.compilation import LIGHT, compiled
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve, log_det

MAX_NEWTON = 50
# Newton's method stops after a step as small as this. The remaining error is of the order of its square.
TOLERANCE = 1e-6
# The most steps of L-BFGS-B.
MAX_STEPS = 80
# The largest prior standard deviation of a latent value: on separable data the evidence is all but flat beyond.
MAX_LATENT_STD = 30.0
# A likelihood's own hyperparameters have a Gaussian prior around where they start, in their coordinates, so that one
# that the targets do not determine (the intercept where there is one class, the rate where all counts are zero) does
# not run away. It costs half a nat over all rows to be this far off.
PRIOR_STD = 5.0
_REACH = 6.0 * PRIOR_STD  # no hyperparameter of a likelihood goes farther than this


def laplace_log_evidence(
    likelihood: Likelihood,
    Phi: Float[AnyArray, "n f"],
    y: Float[Array, " n"],
    prior_var: Float[Array, ""],
    start: Float[Array, "c f"],
    offset: Float[AnyArray, " n"] | None = None,
) -> tuple[Float[Array, ""], Float[Array, "c f"]]:
    """Compute Laplace's approximation of log p(y), and the mode of theta.

    Its gradient in the likelihood, `Phi` and `prior_var` is exact, including that the mode moves with them.

    Parameters
    ----------
    start
        Where Newton's method for the mode sets out, unless zero is better.
    offset
        Added to all latent values of a row, zero by default: the log exposure of a count.
    """
    # With weights theta / sqrt(v) the prior is N(0, I), and v is a matter of the features.
    scale = jnp.sqrt(prior_var)
    Phi = scale * Phi
    fixed, Phi_fixed = jax.lax.stop_gradient((likelihood, Phi))
    shift = jnp.zeros((len(y), 1), Phi.dtype) if offset is None else jnp.asarray(offset)[:, None]
    mode = _mode(fixed, Phi_fixed, y, jax.lax.stop_gradient(start / scale), shift)
    gradient, precision = _derivatives(likelihood, Phi @ mode.T + shift, y)
    precision = jax.lax.stop_gradient(precision)
    L = cholesky(_posterior_precision(Phi_fixed, _clipped(precision)))
    L_newton = L
    if likelihood.num_latents == 1:
        bent = jnp.any(precision < 0.0)
        L_newton = jax.lax.cond(bent, lambda: _newton_factor(Phi_fixed, precision), lambda: L)
    # One more Newton step: nothing in value, but its derivative is that of the mode (the implicit function theorem).
    step = cholesky_solve(L_newton, (gradient.T @ Phi - mode).reshape(-1, 1)).reshape(mode.shape)
    weights = mode + (step - jax.lax.stop_gradient(step))
    f = Phi @ weights.T + shift
    fit = jnp.sum(jax.vmap(likelihood.log_prob)(f, y)) - 0.5 * jnp.sum(weights**2)
    _, precision = _derivatives(likelihood, f, y)
    return fit - 0.5 * _log_det(L, Phi, _clipped(precision)), scale * mode


def _mode(likelihood: Likelihood, Phi: Array, y: Array, start: Array, shift: Array) -> Array:
    """Find the weights of highest posterior density by Newton's method; a step is halved until it loses nothing."""

    def objective(weights: Array) -> Array:
        return jnp.sum(jax.vmap(likelihood.log_shape)(Phi @ weights.T + shift, y)) - 0.5 * jnp.sum(weights**2)

    def newton(carry: tuple) -> tuple:
        weights, value, _, count = carry
        f = Phi @ weights.T + shift
        gradient, precision = _derivatives(likelihood, f, y)
        ascent = (gradient.T @ Phi - weights).reshape(-1, 1)
        direction: Any = cholesky_solve(_newton_factor(Phi, precision), ascent).reshape(weights.shape)
        scale, value = halved(objective, weights, value, direction)
        length = jnp.max(jnp.abs(Phi @ direction.T)) / (1.0 + jnp.max(jnp.abs(f)))
        return weights + scale * direction, value, jnp.where(scale > 0.0, length, 0.0), count + 1

    def unfinished(carry: tuple) -> Array:
        return (carry[2] > TOLERANCE) & (carry[3] < MAX_NEWTON)

    zero, at_zero, at_start = jnp.zeros_like(start), objective(jnp.zeros_like(start)), objective(start)
    better = at_start > at_zero  # False where it is NaN
    first = jnp.where(better, start, zero), jnp.where(better, at_start, at_zero)
    weights, *_ = jax.lax.while_loop(unfinished, newton, (*first, jnp.asarray(jnp.inf, start.dtype), 0))
    return weights


def _derivatives(likelihood: Likelihood, f: Array, y: Array) -> tuple[Array, Array]:
    return jax.vmap(derivatives, in_axes=(None, 0, 0))(likelihood, f, y)


def _clipped(precision: Float[AnyArray, "n c c"]) -> Float[AnyArray, "n c c"]:
    return jnp.maximum(precision, 0.0) if precision.shape[-1] == 1 else precision


def _newton_factor(Phi: AnyArray, precision: AnyArray) -> AnyArray:
    """Return the factor of the posterior precision or, where that is not positive definite, of the clipped one."""
    L = cholesky(_posterior_precision(Phi, precision))
    if precision.shape[-1] > 1:
        return L
    return jax.lax.cond(
        jnp.all(jnp.isfinite(jnp.diagonal(L))),
        lambda: L,
        lambda: cholesky(_posterior_precision(Phi, _clipped(precision))),
    )


def _pairs(C: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns of the pairs of latent values, each pair once, and where to find each pair."""
    rows, columns = np.triu_indices(C)
    where = np.zeros((C, C), int)
    where[rows, columns] = where[columns, rows] = np.arange(len(rows))
    return rows, columns, where


def _posterior_precision(
    Phi: Float[AnyArray, "n f"], precision: Float[AnyArray, "n c c"]
) -> Float[AnyArray, "cf cf"]:
    """Compute I + sum_i W_i (x) phi_i phi_i': one matrix product for each pair of latent values."""
    F, C = Phi.shape[1], precision.shape[-1]
    rows, columns, where = _pairs(C)
    blocks = jax.lax.map(lambda w: (Phi.T * w[None]) @ Phi, precision[:, rows, columns].T)
    return add_diagonal(blocks[where].transpose(0, 2, 1, 3).reshape(C * F, C * F), 1.0)


def _log_det(
    L: Float[AnyArray, "cf cf"], Phi: Float[AnyArray, "n f"], precision: Float[AnyArray, "n c c"]
) -> AnyArray:
    """Return log |A|, A = L L' the posterior precision, as a function of `Phi` and `precision`; `L` is constant.

    Its differential is tr(A^-1 dA): with S_i = the C x C matrix of phi_i' (A^-1)_cd phi_i that is sum_i tr(S_i dW_i)
    for the precisions, and as simple for the features. Differentiating through the factor would cost several times
    more.
    """
    F, C = Phi.shape[1], precision.shape[-1]
    rows, columns, where = _pairs(C)
    fixed, W = jax.lax.stop_gradient((Phi, precision))
    inverse = cholesky_solve(L, jnp.eye(len(L), dtype=L.dtype)).reshape(C, F, C, F)[rows, :, columns, :]
    times = np.where(rows == columns, 1.0, 2.0)

    def pair(d_Phi: Array, each: tuple) -> tuple[Array, Array]:
        block, w, times = each
        moved = fixed @ (block + block.T)
        return d_Phi + times * w[:, None] * moved, 0.5 * jnp.sum(moved * fixed, axis=1)

    each = inverse, W[:, rows, columns].T, jnp.asarray(times, L.dtype)
    d_Phi, S = jax.lax.scan(pair, jnp.zeros_like(fixed), each)
    d_precision = S[where].transpose(2, 0, 1)
    return log_det(L) + jnp.sum((precision - W) * d_precision) + jnp.sum((Phi - fixed) * d_Phi)


@dataclass(frozen=True)
class LaplaceFit:
    """A basis and a likelihood at an optimum of their evidence on the warm-up rows.

    Attributes
    ----------
    log_evidence
        Laplace's approximation of it.
    gain
        Log evidence per row above that of the likelihood alone (f = 0, its own hyperparameters fitted), in nats.
    """

    basis: Basis
    prior_var: float
    likelihood: Likelihood
    log_evidence: float
    gain: float
    start: float
    steps: int


def fit_likelihood(
    basis: Basis,
    likelihood: Likelihood,
    X: Float[Array, "n d"],
    y: Float[Array, " n"],
    start: float = 1.0,
    trainable: tuple[str, ...] | None = None,
    offset: Float[Array, " n"] | None = None,
) -> LaplaceFit:
    """Maximise the evidence over v and the hyperparameters of the basis and the likelihood, by L-BFGS-B.

    The basis and the likelihood set out from where they stand, and v from latent values of variance 1 in the mean of
    the rows. Their prior standard deviation stays below `MAX_LATENT_STD` (with the features of the start).

    Parameters
    ----------
    y
        Targets as the likelihood takes them: classes, counts, grades, numbers.
    start
        What the fit is to be called by.
    trainable
        The hyperparameters of the basis to move; all of its `trainable` ones by default.
    offset
        Added to all latent values of a row, zero by default: the log exposure of a count.
    """
    shift = jnp.zeros(len(y), X.dtype) if offset is None else offset
    trainable = tuple(basis.trainable) if trainable is None else trainable
    # NumPy is used, since nothing needs to be compiled for it.
    size = float(np.mean(np.sum(np.square(as_numpy(basis)(np.asarray(X))), axis=1)))
    hyper = _hyperparameters(basis, likelihood, trainable, -np.log(max(size, 1e-8)))
    flat, unravel = ravel_pytree(hyper)
    mode = jnp.zeros((likelihood.num_latents, basis.num_features), flat.dtype)

    def objective(flat: np.ndarray) -> tuple[Array, Array]:
        nonlocal mode
        (value, (_, found)), gradient = _loss(jnp.asarray(flat), basis, likelihood, trainable, X, y, mode, shift)
        # The next search for the mode starts from here.
        mode = jnp.where(jnp.isfinite(found).all(), found, mode)
        return value, gradient

    most = min(2.0 * np.log(MAX_LATENT_STD) - np.log(max(size, 1e-8)), PRIOR_BOUNDS[1])
    bounds = {
        "basis": limits(basis, trainable),
        "likelihood": _likelihood_limits(likelihood),
        "log_prior_var": np.asarray((PRIOR_BOUNDS[0], most)),
    }
    found = search(objective, flat, _flat_bounds(bounds), MAX_STEPS)
    (_, (log_evidence, _)), _ = _loss(jnp.asarray(found.x), basis, likelihood, trainable, X, y, mode, shift)
    moved, prior_var, likelihood_moved = _at(unravel(jnp.asarray(found.x, flat.dtype)), basis, likelihood, trainable)
    gain = (float(log_evidence) - _null_log_evidence(likelihood, y, shift)) / len(y)
    ready, likelihood_moved = jax.block_until_ready((moved.precomputed(), likelihood_moved))
    return LaplaceFit(ready, float(prior_var), likelihood_moved, float(log_evidence), gain, start, int(found.nit))


def _hyperparameters(
    basis: Basis, likelihood: Likelihood, trainable: tuple[str, ...], log_prior_var: Any = 0.0
) -> dict[str, Any]:
    return {
        "basis": unconstrain(basis, trainable),
        "likelihood": unconstrain(likelihood, tuple(likelihood.trainable)),
        "log_prior_var": jnp.asarray(log_prior_var),
    }


def _at(
    hyper: dict[str, Any], basis: Basis, likelihood: Likelihood, trainable: tuple[str, ...]
) -> tuple[Basis, Array, Likelihood]:
    moved = constrain(likelihood, tuple(likelihood.trainable), hyper["likelihood"])
    return constrain(basis, trainable, hyper["basis"]), jnp.exp(hyper["log_prior_var"]), moved


def _flat_bounds(bounds: Any) -> Float[np.ndarray, "p 2"]:
    return np.concatenate([b.reshape(-1, 2) for b in tree.leaves(bounds)])


def _likelihood_limits(likelihood: Likelihood) -> dict[str, np.ndarray]:
    """Return the limits of its hyperparameters' kinds, at most `_REACH` around where they start."""
    names = tuple(likelihood.trainable)
    start = unconstrain(likelihood, names)
    around = {name: np.asarray(start[name])[..., None] + np.array([-_REACH, _REACH]) for name in names}
    kinds = limits(likelihood, names)
    return {
        name: np.stack(
            [
                np.maximum(kinds[name][..., 0], around[name][..., 0]),
                np.minimum(kinds[name][..., 1], around[name][..., 1]),
            ],
            axis=-1,
        )
        for name in names
    }


def _log_prior(hyper: dict[str, Any], likelihood: Likelihood) -> Array:
    """Return the log prior of a likelihood's hyperparameters around where they start, up to a constant."""
    start = unconstrain(likelihood, tuple(likelihood.trainable))
    squares = (jnp.sum((hyper[name] - start[name]) ** 2) for name in start)
    return -0.5 * sum(squares, jnp.asarray(0.0)) / PRIOR_STD**2


@partial(compiled, options=LIGHT)
@eqx.filter_value_and_grad(has_aux=True)
def _loss(
    flat: Float[Array, " p"],
    basis: Basis,
    likelihood: Likelihood,
    trainable: tuple[str, ...],
    X: Float[Array, "n d"],
    y: Float[Array, " n"],
    start: Float[Array, "c f"],
    offset: Float[Array, " n"],
) -> tuple[Array, tuple[Array, Array]]:
    """Compute the negative log evidence per row with the likelihood's prior; also the log evidence and mode."""
    hyper = ravel_pytree(_hyperparameters(basis, likelihood, trainable))[1](flat)
    moved, prior_var, likelihood_moved = _at(hyper, basis, likelihood, trainable)
    value, mode = laplace_log_evidence(likelihood_moved, moved(X), y, prior_var, start, offset)
    return -(value + _log_prior(hyper["likelihood"], likelihood)) / len(y), (value, mode)


@partial(compiled, options=LIGHT)
@eqx.filter_value_and_grad(has_aux=True)
def _null_loss(
    flat: Float[Array, " p"], likelihood: Likelihood, y: Float[Array, " n"], offset: Float[Array, " n"]
) -> tuple[Array, Array]:
    """Compute the loss of a function which is zero."""
    names = tuple(likelihood.trainable)
    hyper = ravel_pytree(unconstrain(likelihood, names))[1](flat)
    f = jnp.broadcast_to(offset[:, None], (len(y), likelihood.num_latents))
    value = jnp.sum(jax.vmap(constrain(likelihood, names, hyper).log_prob)(f, y))
    return -(value + _log_prior(hyper, likelihood)) / len(y), value


def _null_log_evidence(likelihood: Likelihood, y: Float[Array, " n"], offset: Float[Array, " n"]) -> float:
    """Compute log p(y) with a function which is zero, the hyperparameters of the likelihood fitted."""
    flat: Any = ravel_pytree(unconstrain(likelihood, tuple(likelihood.trainable)))[0]
    if flat.size:

        def objective(flat: np.ndarray) -> tuple[Array, Array]:
            (value, _), gradient = _null_loss(jnp.asarray(flat), likelihood, y, offset)
            return value, gradient

        flat = search(objective, flat, _flat_bounds(_likelihood_limits(likelihood)), MAX_STEPS).x
    return float(_null_loss(jnp.asarray(flat), likelihood, y, offset)[0][1])
