"""Labels of rows from long ago, learnt in the beliefs of today.

With ``theta_t = a theta_s + N(0, b v I)`` since the row's own time s, the row says of today's weights what a row with
the features ``a phi`` and the noise ``s2 + b v |phi|^2`` does. For weights that stand still that is exact, and for
mean-reverting ones if nothing was learnt in between; else it leaves out how far the weights moved as the rows since
have told.
"""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray
from streamgp.filters.engine import blockfilter
from streamgp.filters.engine.blocks import BLOCK, Group, member
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.kalman import ExpertVariances, FilterState


def learn_old_rows(
    groups: Sequence[Group],
    beliefs: Sequence[FilterState],
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    ages: Float[np.ndarray, " n"],
    extra: Float[np.ndarray, " n"] | None,
    live: Sequence[Bool[np.ndarray, "g r"]],
) -> list[FilterState]:
    """Return the beliefs after rows of these ages, in the order of their coming.

    Parameters
    ----------
    ages
        Time since each row, in units.
    extra
        Variance that the noise of each row has in addition.
    live
        Which filters of each group learn.
    """
    found = []
    for group, belief, alive in zip(groups, beliefs, live, strict=True):
        learnt, group = jax.tree.map(partial(np.array, dtype=np.float64), belief), as_numpy(group)
        for g in np.flatnonzero(np.any(alive, axis=1)).tolist():
            Phi = _features(member(group.basis, g), X)
            for r in np.flatnonzero(alive[g]).tolist():
                _learn(learnt, (g, r), Phi, y, ages, extra, group)
        dtype = np.asarray(belief.mean).dtype
        # What a guard knows is of the latest rows.
        found.append(FilterState(learnt.mean.astype(dtype), learnt.cov.astype(dtype), belief.guard))
    return found


def _features(basis: Basis, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(basis(X), np.float64)


def _learn(
    beliefs: FilterState,
    expert: tuple[int, int],
    Phi: Float[np.ndarray, "n f"],
    y: Float[np.ndarray, "n e"],
    ages: Float[np.ndarray, " n"],
    extra: AnyArray | None,
    group: Group,
) -> None:
    """Let one expert learn, in place."""
    g, r = expert
    one = slice(g, g + 1), slice(r, r + 1)
    dynamics, noise = member(group.dynamics, expert), ExpertVariances(*member(group.noise, expert))
    moved = np.asarray(dynamics.process_variance(ages)) * noise.prior_var * np.einsum("nf,nf->n", Phi, Phi)
    moved = moved if extra is None else moved + extra
    Phi = np.asarray(dynamics.transition(ages))[:, None] * Phi
    for at in range(0, len(y), BLOCK):
        rows = slice(at, at + BLOCK)
        blockfilter.update_blocks(
            member(beliefs, one),
            Phi[None, None, rows],
            None,  # the weights stand still meanwhile
            y[None, rows],
            np.ones((1, len(y[rows])), bool),
            np.zeros((1, len(y[rows]))),
            member(group.dynamics, one),
            ExpertVariances(*member(group.noise, one)),
            extra=moved[None, rows],
        )
