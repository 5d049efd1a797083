"""The filters of all experts on the CPU, side by side: one thread a core, an expert at a time, BLAS in one thread.

XLA's own loop over experts leaves a factor of two to three of a CPU's matrix-product rate unused; threads inside
one product of this size leave more. Nothing of it is compiled.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine import blockfilter, native
from streamgp.filters.engine.block_covariances import LARGE
from streamgp.filters.engine.blocks import Blocks, Group, features, forecast_features, member
from streamgp.filters.kalman import ExpertVariances, FilterState, ForecastFeatures, Predicted, predict_rows
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_jax, is_traced
from streamgp.numerics.precision import float64
from streamgp.numerics.threads import one_blas_thread


def supports(*arrays: Any) -> bool:
    """Return whether this engine can take these: numbers in float64, none of them on another device than the CPU."""
    if any(a.dtype != np.float64 for a in arrays) or is_traced(*arrays):
        return False
    return not is_jax(*arrays) or sys.modules["jax"].default_backend() == "cpu"


def update_groups(
    groups: Sequence[Group], beliefs: Sequence[FilterState], blocks: Blocks, live: Sequence[np.ndarray]
) -> tuple[list[FilterState], list[Predicted], Bool[np.ndarray, " rows"]]:
    """Run `xla.update_group`'s filters for every group; experts that are not `live` are not touched."""
    flags = np.zeros(blocks.mask.size, bool)
    m = blocks.mask.shape[0]
    # Blocks at the end with no row in them are no work.
    used = m - int(np.argmax(np.any(np.asarray(blocks.mask)[::-1], axis=1)))
    blocks = tree.map(lambda a: a[:used], blocks)
    y, tau = np.asarray(blocks.y), np.asarray(blocks.tau)
    rows = y, np.asarray(blocks.mask), tau, None if blocks.extra is None else np.asarray(blocks.extra)
    states, parts, waiting = [], [], []
    later_tau = None if blocks.later is None else np.asarray(blocks.later.tau)
    with one_blas_thread():
        for group, belief, alive in zip(groups, beliefs, live, strict=True):
            belief = tree.map(lambda a: np.array(a, order="C"), belief)
            loc, var = (np.full((*alive.shape, m, *a.shape[1:]), value) for a, value in ((y, 0.0), (tau, 1.0)))
            part = Predicted(loc, var, None if belief.guard is None else np.zeros(var.shape, bool))
            basis, noise, dynamics = as_numpy((group.basis, group.noise, group.dynamics))
            moves = _moves(dynamics)
            ready: dict[int, Future] = {}
            for which in _bundles(alive, belief.mean.shape[2]):
                bases = range(which[0].start, which[0].stop)
                for g in bases:
                    if g not in ready:
                        ready[g] = _pool().submit(_features, member(basis, g), blocks, moves, flags)
                job = partial(_run, [ready[g] for g in bases], member(belief, which), rows, later_tau)
                found = tree.map(lambda a, which=which: a[which][:, :, :used], part)
                variances = ExpertVariances(*member(noise, which))
                waiting.append(_pool().submit(job, member(dynamics, which), variances, found))
            states.append(belief)
            parts.append(part)
        for job in waiting:
            job.result()
    return states, parts, flags


def predict_groups(
    groups: Sequence[Group],
    beliefs: Sequence[FilterState],
    X: Float[AnyArray, "n d"],
    tau: Float[AnyArray, " n"],
    live: Sequence[np.ndarray],
) -> list[Predicted]:
    """Run `xla.predict_group`'s predictions for every group; of experts that are not `live` there are none (NaN)."""
    X, tau = np.asarray(X), np.asarray(tau)
    parts, waiting = [], []
    with one_blas_thread():
        for group, belief, alive in zip(groups, beliefs, live, strict=True):
            mean, cov = np.asarray(belief.mean), np.asarray(belief.cov)
            basis, noise, dynamics = as_numpy((group.basis, group.noise, group.dynamics))
            G, R = noise.prior_var.shape
            shape = (G, R, len(tau))
            part = Predicted(np.full((*shape, mean.shape[-1]), np.nan), np.full(shape, np.nan), None)
            for g in np.flatnonzero(np.asarray(alive).any(1)):
                ready = _pool().submit(_features_of_rows, member(basis, g), X)
                for r in np.flatnonzero(alive[g]):
                    theirs = member(dynamics, (g, r)), ExpertVariances(*member(noise, (g, r)))
                    job = partial(_predict_rows, ready, mean[g, r], cov[g, r], tau, *theirs)
                    waiting.append(_pool().submit(job, part.loc[g, r], part.var[g, r]))
            parts.append(part)
        for job in waiting:
            job.result()
    return parts


def _features_of_rows(basis: Basis, X: np.ndarray) -> np.ndarray:
    with float64(), np.errstate(all="ignore"):
        return np.asarray(basis(X))


def _predict_rows(
    ready: Future,
    mean: np.ndarray,
    cov: np.ndarray,
    tau: np.ndarray,
    dynamics: Dynamics,
    noise: ExpertVariances,
    loc: np.ndarray,
    var: np.ndarray,
) -> None:
    loc[:], var[:] = predict_rows(FilterState(mean, cov), ready.result(), tau, dynamics, noise)


def _bundles(live: Bool[np.ndarray, "g r"], num_features: int) -> list[tuple[slice, slice]]:
    """Choose the experts that one thread takes together: a share of all small ones, each large one by itself."""
    G, R = live.shape
    if num_features < LARGE and live.all():
        # The cores get equal shares of experts, which they would not get by bases alone.
        if G % _cores() and R % _cores() == 0:
            return [(slice(0, G), part) for part in _shares(R)]
        return [(part, slice(0, R)) for part in _shares(G)]
    return [(slice(g, g + 1), slice(r, r + 1)) for g, r in zip(*np.nonzero(live), strict=True)]


def _shares(n: int) -> list[slice]:
    """Split n things into as many consecutive parts as there are cores."""
    share = -(-n // _cores())
    return [slice(i, min(i + share, n)) for i in range(0, n, share)]


def _run(
    prepared: Sequence[Future],
    beliefs: FilterState,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None],
    later_tau: np.ndarray | None,
    dynamics: Dynamics,
    noise: ExpertVariances,
    into: Predicted,
) -> None:
    Phi, gram, theirs, between = zip(*(future.result() for future in prepared), strict=True)
    moves = _moves(dynamics)
    if native.supports(beliefs, later_tau):
        native.update_blocks(beliefs, list(Phi), list(gram) if moves else None, rows, dynamics, noise, into)
        return
    grams = _stack(gram) if moves else None
    later = None
    if later_tau is not None:
        later = ForecastFeatures(_stack(theirs), _stack(between) if moves else None, later_tau)
    y, mask, tau, extra = rows
    said = blockfilter.update_blocks(beliefs, _stack(Phi), grams, y, mask, tau, dynamics, noise, later, extra)
    for whole, found in zip(into, said, strict=True):
        if whole is not None:
            whole[:] = found


def _moves(dynamics: Dynamics) -> bool:
    """Return whether the weights of any expert do anything but stand still."""
    return bool(((dynamics.diffusion > 0.0) | (dynamics.decay < 1.0)).any())


def _stack(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the features of several bases; those of a single one, which may be large, without a copy."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)


def _features(basis: Basis, blocks: Blocks, moves: bool, flags: np.ndarray) -> tuple:
    """Compute features of the rows and of later ones, with the products among them where needed."""
    # The setting of JAX, which a user's own basis may call, belongs to a thread.
    with float64(), np.errstate(all="ignore"):
        Phi, outside = features(basis, blocks)
        theirs = None if blocks.later is None else np.ascontiguousarray(forecast_features(basis, blocks.later))
    Phi = np.asarray(Phi)
    flags[: len(outside)][np.asarray(outside)] = True
    if not moves:
        return Phi, None, theirs, None
    return Phi, Phi @ Phi.transpose(0, 2, 1), theirs, None if theirs is None else Phi @ theirs.transpose(0, 2, 1)


def as_numpy(given: Any) -> Any:
    """Return a tree with its arrays as NumPy's."""
    return tree.map(np.asarray, given)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), thread_name_prefix="streamgp")


# The threads of a pool are not in a process that is forked from this one: there it starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
