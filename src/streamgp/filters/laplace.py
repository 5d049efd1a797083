"""The filter of experts whose targets are labels, counts or grades: `streamgp.filters.kalman` with Laplace steps.

Expert: C functions share the features of a row, ``f_c = phi(x_t)' theta_c``, and the target follows a likelihood
p(y | f). The weights of all functions are one vector, that of function c and feature j at ``c F + j``, with one
Gaussian belief. Each target moves it by a Laplace step (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4), which
changes whatever is correlated with f by what it changes in f, so that a block of rows is worked through on the
joint covariance of its own C values each, and the weights learn from all of them at once. The numbers are those of
the steps taken one by one.

Experts come in stacks, of any leading axes; the steps of a row are taken for the experts of all stacks together.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters import kalman
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.kalman import FilterState
from streamgp.filters.laplace_kernel import LaplaceKernel, takes
from streamgp.likelihoods import Likelihood, laplace_step
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.linalg import solve_lower_each

# The least eigenvalue, in shares of the largest variance, of which it is believed that it is above zero.
_CLEAR = 1e-13


class Latent(NamedTuple):
    """Gaussian belief over the C latent values of each row."""

    loc: Float[AnyArray, "*batch n c"]
    cov: Float[AnyArray, "*batch n c c"]


class Experts(NamedTuple):
    """A stack of experts, and the features of the rows of a block, zero for those left out.

    Features may have a leading axis of one where several experts share them.
    """

    belief: FilterState
    dynamics: Dynamics
    prior_var: Float[AnyArray, "*batch"]
    Phi: Float[AnyArray, "*batch n f"]


class Block(NamedTuple):
    """What the experts of all stacks learn from.

    Attributes
    ----------
    y, mask
        Targets, and which of them are learnt; the others may be anything.
    tau
        Time from the last row before the block to each row, not decreasing; a row that is left out repeats
        the time before it.
    offset
        Added to every latent value of a row: the log exposure of a count. Those left out may be anything.
    """

    y: Float[AnyArray, " n"]
    mask: Bool[AnyArray, " n"]
    tau: Float[AnyArray, " n"]
    offset: Float[AnyArray, " n"]


class _Ahead(NamedTuple):
    """What a block's latent values are before any of its steps.

    Attributes
    ----------
    loc, K
        Their mean (..., n, C) and covariance (..., n C, n C).
    weights
        Their covariance with the weights at the end of the block, (..., n C, C F).
    decay, gained
        What the mean of the weights is multiplied by until then, and what each weight gains in variance.
    """

    loc: Any
    K: Any
    weights: Any
    decay: Any
    gained: Any


def prior_state(num_features: int, num_latents: int, prior_var: Float[AnyArray, "*batch"]) -> FilterState:
    """Return the belief before any row, N(0, v I): mean (C F, 1), covariance (C F, C F), of one expert or a stack."""
    return kalman.prior_state(num_latents * num_features, 1, prior_var)


def predict_rows(
    experts: Experts, tau: Float[AnyArray, " n"], offset: Float[AnyArray, " n"], num_latents: int
) -> Latent:
    """Predict the latent values of each row, each `tau` after the last row learnt; `offset` is added to them."""
    Phi, lead = experts.Phi, experts.prior_var.shape
    moves, each = _along(experts.dynamics, 1), np.broadcast_to(tau, (*lead, len(tau)))
    a, b = moves.transition(each), moves.process_variance(each) * experts.prior_var[..., None]
    cross = _cross(experts, num_latents)
    explained = np.einsum("...ncdf,...nf->...ncd", cross.reshape(*cross.shape[:-1], num_latents, -1), Phi)
    gained = (b * np.einsum("...nf,...nf->...n", Phi, Phi))[..., None, None] * np.eye(num_latents)
    loc = a[..., None] * _at_rows(experts, num_latents) + offset[:, None]
    return Latent(loc, possible((a * a)[..., None, None] * explained + gained))


def update_block(
    stacks: Sequence[Experts], block: Block, likelihood: Likelihood
) -> tuple[list[FilterState], list[Latent]]:
    """Learn from a block; return each stack's new belief and the one-step-ahead latent values of each row.

    Those of row i are what all rows before it say; they take no part of its own target, not even in their rounding.

    Parameters
    ----------
    likelihood
        Those of all experts, of one stack after the other: its arrays have one leading axis.
    """
    C, n = likelihood.num_latents, len(block.y)
    prepared = [_ahead(experts, block, C) for experts in stacks]
    shapes = [experts.prior_var.shape for experts in stacks]
    loc, K = (_joined(parts, shapes) for parts in ([each.loc for each in prepared], [each.K for each in prepared]))
    predicted, shift, shrink, gains = _steps(likelihood, K, loc, np.where(block.mask, block.y, 0.0), block.mask)
    # What one step does to the rows after it, it does to the weights at the block's end: their covariances with the
    # rows, G, obey G_i = C_i - sum over j < i of G_j gains_ji, C_i those before any step.
    each = (*predicted, shift.reshape(-1, n * C), _roots(shrink), np.swapaxes(gains, -1, -2) + np.eye(n * C))
    beliefs, parts = [], []
    for experts, before, (loc, cov, *steps) in zip(stacks, prepared, _split(each, shapes), strict=True):
        beliefs.append(_learnt(experts.belief, before, *steps))
        parts.append(Latent(loc, cov))
    return beliefs, parts


def _learnt(belief: FilterState, ahead: _Ahead, shift: Any, roots: Any, mixing: Any) -> FilterState:
    """Return the belief over the weights after a block's steps."""
    G = solve_lower_each(mixing, ahead.weights) if mixing.shape[-1] > 1 else ahead.weights
    mean = ahead.decay[..., None] * belief.mean[..., 0] + (shift[..., None, :] @ G)[..., 0, :]
    n, C = roots.shape[-3:-1]
    rooted = np.swapaxes(roots, -1, -2) @ G.reshape(*G.shape[:-2], n, C, -1) if C > 1 else roots * G[..., None, :]
    rooted = rooted.reshape(G.shape)
    # A product of a matrix with its own transpose is symmetric to the last bit.
    gone = np.swapaxes(rooted, -1, -2) @ rooted
    kept = belief.cov if np.all(ahead.decay == 1.0) else (ahead.decay * ahead.decay)[..., None, None] * belief.cov
    cov = np.subtract(kept, gone, out=gone)
    diagonal = np.einsum("...ii->...i", cov)
    diagonal += ahead.gained[..., None]
    return FilterState(mean[..., None], cov)


def _ahead(experts: Experts, block: Block, C: int) -> _Ahead:
    """Return the joint belief over a block's latent values and the weights before any step."""
    Phi, tau = experts.Phi, block.tau
    n, F = Phi.shape[-2:]
    lead = experts.prior_var.shape
    a = _along(experts.dynamics, 1).transition(np.broadcast_to(tau, (*lead, n)))
    cross = _cross(experts, C)
    transposed = np.swapaxes(Phi, -1, -2)[..., None, :, :]
    K = np.moveaxis(cross.reshape(*lead, n * C, C, F), -2, -3) @ transposed
    K = np.moveaxis(K.reshape(*lead, C, n, C, n), -4, -1)
    weights = cross.reshape(*lead, n * C, C * F)
    if np.all(a == 1.0):
        decays = np.ones(lead)
    else:
        K = (a[..., :, None] * a[..., None, :])[..., :, None, :, None] * K
        decays = a[..., -1]
        weights = np.repeat(decays[..., None] * a, C, axis=-1)[..., None] * weights
    loc = a[..., None] * _at_rows(experts, C) + block.offset[:, None]
    gained = np.zeros(lead)
    if np.any(np.asarray(experts.dynamics.diffusion) > 0.0):
        b = _process_covariance(experts.dynamics, lead, tau) * experts.prior_var[..., None, None]
        gram = Phi @ np.swapaxes(Phi, -1, -2)
        weights = weights.reshape(*lead, n, C, C, F)
        fresh = b[..., -1, :, None] * Phi
        for c in range(C):
            K[..., c, :, c] += b * gram
            weights[..., c, c, :] += fresh
        weights, gained = weights.reshape(*lead, n * C, C * F), b[..., -1, -1]
    return _Ahead(loc, K.reshape(*lead, n * C, n * C), weights, decays, gained)


def _along(dynamics: Dynamics, axes: int) -> Dynamics:
    """Return the dynamics of a stack with so many axes of length one after its own."""
    return tree.map(lambda a: np.asarray(a)[(..., *(None,) * axes)], dynamics)


def _process_covariance(dynamics: Dynamics, lead: tuple[int, ...], tau: Any) -> Any:
    """Return what the dynamics' noise adds to the covariance of the weights at any two times, in prior variances."""
    moves, n = _along(dynamics, 2), len(tau)
    earlier = moves.process_variance(np.broadcast_to(np.minimum(tau[:, None], tau), (*lead, n, n)))
    if np.all(moves.decay == 1.0):
        return earlier
    return earlier * moves.decay ** np.abs(tau[:, None] - tau)


def _cross(experts: Experts, C: int) -> Float[np.ndarray, "*batch n {C} k"]:
    """Return the covariance of the C values of each row with all the weights, time standing still."""
    cov, Phi = experts.belief.cov, experts.Phi
    F = Phi.shape[-1]
    if C == 1:
        return (Phi @ cov)[..., None, :]
    cross = Phi[..., None, :, :] @ cov.reshape(*cov.shape[:-2], C, F, C * F)
    return np.moveaxis(cross, -3, -2)


def _at_rows(experts: Experts, C: int) -> Float[np.ndarray, "*batch n {C}"]:
    """Return the mean of the C values of each row, time standing still."""
    mean = experts.belief.mean[..., 0]
    return experts.Phi @ np.swapaxes(mean.reshape(*mean.shape[:-1], C, -1), -1, -2)


def _joined(parts: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Any:
    """Return arrays of several stacks as one of all experts."""
    flat = [part.reshape(-1, *part.shape[len(shape) :]) for part, shape in zip(parts, shapes, strict=True)]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _split(arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[list[Any]]:
    """Return each stack's part of arrays of all experts."""
    parts, at = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append([a[at : at + size].reshape(*shape, *a.shape[1:]) for a in arrays])
        at += size
    return parts


def _steps(likelihood: Likelihood, K: Any, loc: Any, y: Any, mask: Any) -> tuple[Latent, Any, Any, Any]:
    """Take the Laplace steps of a block, one row after the other, on the joint beliefs over its latent values.

    K (experts, n C, n C) and loc (experts, n, C) are overwritten. Returns what each row's values are before its own
    step, the step itself (`Step`), and its gains: the step's `shrink` times the covariance with all later values of
    the block at that time, (experts, n C, n C).
    """
    e, n, C = loc.shape
    predicted = Latent(np.empty((e, n, C)), np.empty((e, n, C, C)))
    shift, shrink, gains = np.zeros((e, n, C)), np.zeros((e, n, C, C)), np.zeros(K.shape)
    kernel: LaplaceKernel | None = None
    if takes(likelihood):
        K, loc = np.ascontiguousarray(K), np.ascontiguousarray(loc)
        arrays = {"y": np.asarray(y, np.float64), "mask": np.asarray(mask), "cov": K, "loc": loc, "gains": gains}
        arrays |= {"own_loc": predicted.loc, "own_cov": predicted.cov, "shift": shift, "shrink": shrink}
        kernel = LaplaceKernel(likelihood, _CLEAR, arrays)
    flat = loc.reshape(e, n * C)
    for i in _left_over(kernel, n):
        own, later = slice(i * C, (i + 1) * C), slice((i + 1) * C, None)
        predicted.loc[:, i] = loc[:, i]
        predicted.cov[:, i] = cov = possible(K[:, own, own])
        if not mask[i]:
            continue
        step = laplace_step(likelihood, y[i], loc[:, i], cov)
        shift[:, i], shrink[:, i] = step
        if i + 1 == n:
            break
        V = K[:, own, later]
        gains[:, own, later] = G = step.shrink * V if C == 1 else step.shrink @ V
        if C == 1:
            flat[:, later] += step.shift * V[:, 0]
            K[:, later, later] -= V[:, 0, :, None] * G
        else:
            flat[:, later] += (step.shift[:, None, :] @ V)[:, 0]
            K[:, later, later] -= np.swapaxes(V, -1, -2) @ G
    return predicted, shift, shrink, gains


def _left_over(kernel: LaplaceKernel | None, rows: int) -> Iterator[int]:
    """Yield the rows that are to be taken in NumPy, each once the kernel has taken those before it."""
    i = 0
    while (i := i if kernel is None else kernel.steps(i)) < rows:
        yield i
        i += 1


def _roots(shrink: Any) -> Any:
    """Return R with R R' = shrink, of many matrices; what rounding has left below zero counts as zero."""
    if shrink.shape[-1] == 1:
        return np.sqrt(np.maximum(shrink, 0.0))
    values, vectors = np.linalg.eigh(shrink)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def possible(cov: Float[AnyArray, "*batch c c"]) -> Float[AnyArray, "*batch c c"]:
    """Return the closest covariances: eigenvalues that rounding has left a little below zero become zero."""
    if cov.shape[-1] == 1:
        return np.maximum(cov, 0.0)
    cov = 0.5 * (cov + np.swapaxes(cov, -1, -2))
    margin = _CLEAR * np.einsum("...ii->...i", cov).max(-1)
    try:
        # Far cheaper than eigenvalues, and nearly always enough.
        np.linalg.cholesky(cov - margin[..., None, None] * np.eye(cov.shape[-1]))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
        found = (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        cov = np.where(values.min(-1)[..., None, None] > 0.0, cov, 0.5 * (found + np.swapaxes(found, -1, -2)))
    return cov
