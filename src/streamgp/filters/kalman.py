"""The exact filter of one expert, a block of rows at a time: a row is a block of one.

Expert: ``theta_t = decay theta_{t-1} + noise``, ``y_t = phi(x_t)' theta_t + N(0, s2)``. The joint covariance of a
block's targets and its Cholesky factor hold every one-step-ahead prediction of the row-by-row Kalman filter,
so a block costs matrix products instead of row-by-row passes over the covariance, and gives the same numbers.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.guard import Guard, bounded, learn
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace, scan
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import add_diagonal, factor, jittered, solve_lower, symmetrise
from streamgp.numerics.module import Module


@register
class FilterState(Module):
    """Gaussian belief over the weights: mean of each output, one covariance for all of them.

    With a `guard`, outliers among the rows are hardly learnt.
    """

    mean: Float[AnyArray, "*batch f e"]
    cov: Float[AnyArray, "*batch f f"]
    guard: Guard | None = None


@register
class ExpertVariances(NamedTuple):
    """Prior variance v of the weights and noise variance s2 of the targets."""

    prior_var: Float[AnyArray, ""]
    noise_var: Float[AnyArray, ""]


class Predicted(NamedTuple):
    """A filter's predictions of rows before it learnt them.

    Attributes
    ----------
    loc, var
        Mean and variance of each row's target or, where there were later rows, of theirs.
    is_outlier
        Which of the rows learnt were outliers; None without a guard.
    """

    loc: Float[AnyArray, "*batch n e"]
    var: Float[AnyArray, "*batch n"]
    is_outlier: Bool[AnyArray, "*batch n"] | None


class ForecastFeatures(NamedTuple):
    """For every row of a block, another row to forecast once that row is learnt, and none after it.

    Features, the products of the block's own with them (None: all weights are static), and times as the block's.
    """

    Phi: Float[AnyArray, "*batch n f"]
    gram: Float[AnyArray, "*batch n n"] | None
    tau: Float[AnyArray, "*batch n"]


def prior_state(
    num_features: int, num_outputs: int, prior_var: Float[AnyArray, "*batch"], guarded: bool = False
) -> FilterState:
    """Return the belief before any row, N(0, v I), of one expert or of a stack."""
    xp, dtype = namespace(prior_var), prior_var.dtype
    lead = (1,) * prior_var.ndim
    mean = xp.zeros((*prior_var.shape, num_features, num_outputs), dtype)
    eye = xp.eye(num_features, dtype=dtype).reshape(*lead, num_features, num_features)
    guard = tree.map(lambda a: xp.asarray(a, dtype), Guard.start(prior_var.shape, num_outputs))
    return FilterState(mean, prior_var[..., None, None] * eye, guard if guarded else None)


def predict_rows(
    state: FilterState,
    Phi: Float[AnyArray, "n f"],
    tau: Float[AnyArray, " n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, " n"]]:
    """Predict mean and variance of the target of each row, each as if it came `tau` after the last row learnt."""
    a, b = dynamics.transition(tau), dynamics.process_variance(tau) * noise.prior_var
    xp = namespace(Phi, state.cov)
    explained = xp.maximum(xp.einsum("nf,nf->n", Phi @ state.cov, Phi), 0.0)
    var = a * a * explained + b * xp.einsum("nf,nf->n", Phi, Phi) + noise.noise_var
    return a[:, None] * (Phi @ state.mean), var


def predict_row(
    product: Float[np.ndarray, "*batch f"],
    phi: Float[np.ndarray, "*#batch f"],
    keep: Float[np.ndarray, "*batch"] | None,
    grown: Float[np.ndarray, "*batch"] | None,
    noise: Float[np.ndarray, "*#batch"],
) -> tuple[Float[np.ndarray, "*batch f"], Float[np.ndarray, "*batch"]]:
    """Predict a row with features phi by filters whose covariance is ``keep P + grown I``.

    The `product` is P phi, and overwritten; None stands for a factor of 1 and a growth of 0.

    Returns
    -------
    gain, var
        The covariance times phi, and the variance of the target. A target that is off by e then adds ``e gain / var``
        to the mean, and takes ``gain gain' / var`` from the covariance.
    """
    if keep is not None:
        product *= keep[..., None]
    if grown is not None:
        product += grown[..., None] * phi
    return product, np.vecdot(product, phi) + noise


def update_block(
    state: FilterState,
    Phi: Float[AnyArray, "n f"],
    gram: Float[AnyArray, "n n"],
    y: Float[AnyArray, "n e"],
    mask: Bool[AnyArray, " n"],
    tau: Float[AnyArray, " n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
    later: ForecastFeatures | None = None,
    extra: Float[AnyArray, " n"] | None = None,
) -> tuple[FilterState, Predicted]:
    """Learn from a block; return the new belief and what was predicted of each row.

    A belief whose numbers are no longer finite starts again from the prior.

    Parameters
    ----------
    Phi, gram
        Features, with the rows that `mask` leaves out set to zero, and ``Phi Phi'``.
    tau
        Time from the last row before the block to each row, not decreasing; a row that is left out repeats
        the time before it.
    later
        Rows to predict in place of those.
    extra
        Variance that the noise of each row has in addition.
    """
    a, b = dynamics.block(tau)
    b = b * noise.prior_var
    xp = namespace(state.mean, Phi, y, tau, *noise)
    y = xp.where(mask[:, None], y, 0.0)
    cross = Phi @ state.cov
    K = add_diagonal(a[:, None] * a[None] * (cross @ Phi.T) + b * gram, noise.noise_var)
    if extra is not None:
        K = K + xp.diag(extra)
    prior = a[:, None] * (Phi @ state.mean)
    residual = y - prior
    guard, variance, is_outlier = state.guard, None, None
    if guard is None:
        L = factor(K)
    else:
        L, residual, variance, is_outlier, guard = _guarded(guard, K, residual, mask)
    C = (a[-1] * a)[:, None] * cross + b[-1][:, None] * Phi
    solved = solve_lower(L, xp.concatenate([C, residual], axis=1))
    W, z = solved[:, : Phi.shape[1]], solved[:, Phi.shape[1] :]
    scale = xp.diagonal(L)
    mean = a[-1] * state.mean + W.T @ z
    cov = symmetrise(add_diagonal(a[-1] * a[-1] * state.cov - W.T @ W, b[-1, -1]))
    new = _restarted(FilterState(mean, cov, guard), noise.prior_var)
    if later is not None:
        return new, Predicted(*_forecast(state, cross, a, L, z, tau, dynamics, noise, later), is_outlier)
    # Equal to y - scale z, but row i of it takes no part of y_i, not even in its rounding.
    predicted = prior + (L - xp.diag(scale)) @ z
    return new, Predicted(predicted, scale * scale if variance is None else variance, is_outlier)


def _guarded(
    guard: Guard, K: Float[AnyArray, "n n"], residual: Float[AnyArray, "n e"], mask: Bool[AnyArray, " n"]
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, Guard]:
    """Factorise a block's covariance with the noise of outliers raised; return what goes with it.

    Returns the factor, the residuals (of outliers far out, shortened), the variance of every row before its noise
    was raised, which rows are outliers, and what the guard remembers.
    """
    xp = namespace(K, residual, mask)

    def eliminate(carry: tuple, i: AnyArray) -> tuple:
        guard, left, residual = carry
        variance, innovation = left[i, i], residual[i]
        learnt, found, raised = learn(guard, innovation / xp.sqrt(variance))
        guard = tree.map(lambda a, b: xp.where(mask[i], a, b), learnt, guard)
        found = found & mask[i]
        used, shortened = bounded(xp.where(found, raised, 1.0))
        pivot = xp.sqrt(variance * used)
        column = xp.where(rows > i, left[:, i], 0.0) / pivot
        step = innovation * shortened / pivot
        left, residual = left - column[:, None] * column[None], residual - column[:, None] * step[None]
        outputs = xp.where(rows == i, pivot, column), variance, found, (1.0 - shortened) * innovation
        return (guard, left, residual), outputs

    rows = xp.arange(len(mask))
    start = tree.map(xp.asarray, guard), jittered(K), residual
    (guard, _, _), (columns, variance, is_outlier, beyond) = scan(eliminate, start, rows)
    return columns.T, residual - beyond, variance, is_outlier, guard


def _restarted(state: FilterState, prior_var: Float[AnyArray, ""]) -> FilterState:
    """Return the belief, or the prior where a number of it is not finite."""
    features, outputs = state.mean.shape
    prior = prior_state(features, outputs, prior_var, state.guard is not None)
    xp = namespace(state.mean, state.cov)
    sound = xp.isfinite(state.mean).all() & xp.isfinite(state.cov).all()
    return tree.map(lambda a, b: xp.where(sound, a, b), state, prior)


def _forecast(
    state: FilterState,
    cross: Float[AnyArray, "n f"],
    a: Float[AnyArray, " n"],
    L: Float[AnyArray, "n n"],
    z: Float[AnyArray, "n e"],
    tau: Float[AnyArray, " n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
    later: ForecastFeatures,
) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, " n"]]:
    """Forecast mean and variance of the targets of the later rows.

    With V = L^-1 C, C the covariance of the block's targets with theirs, the first k rows of V and z hold all that
    the first k rows of the block say: the triangle of V leaves out what comes after each one's own row.
    """
    C = a[:, None] * dynamics.transition(later.tau)[None] * (cross @ later.Phi.T)
    if later.gram is not None:  # weights that stand still gain no variance
        C = C + noise.prior_var * dynamics.process_covariance(tau, later.tau) * later.gram
    xp = namespace(L, C)
    V = xp.triu(solve_lower(L, C))
    loc, var = predict_rows(state, later.Phi, later.tau, dynamics, noise)
    # Of inputs far out the difference may be lost in rounding.
    return loc + V.T @ z, xp.maximum(var - (V * V).sum(0), noise.noise_var)


def update_blocks(
    state: FilterState,
    Phi: Float[AnyArray, "m n f"],
    gram: Float[AnyArray, "m n n"],
    y: Float[AnyArray, "m n e"],
    mask: Bool[AnyArray, "m n"],
    tau: Float[AnyArray, "m n"],
    dynamics: Dynamics,
    noise: ExpertVariances,
    later: ForecastFeatures | None = None,
    extra: Float[AnyArray, "m n"] | None = None,
) -> tuple[FilterState, Predicted]:
    """Run `update_block` over consecutive blocks; `tau` counts from the end of the block before."""

    def step(state: FilterState, block: tuple) -> tuple:
        Phi, gram, y, mask, tau, later, extra = block
        return update_block(state, Phi, gram, y, mask, tau, dynamics, noise, later, extra)

    return scan(step, state, (Phi, gram, y, mask, tau, later, extra))
