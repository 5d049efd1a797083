"""The recalibration that a row gets, by how large a spread is predicted of it: three maps, learnt from row to row.

What errors look like goes with their size. Where little is expected, now and then a target is far out; where much is,
most come near. One map of levels (see `streamgp.likelihoods.recalibration`) for all rows then covers too little of
the one kind and too much of the other. So there are three, at small, usual and large spreads: with l for the log
standard deviation of the mixture, and t for l less its running mean over its running deviation, they count by

    a = (min(max(-t, 0), 1), the rest, min(max(t, 0), 1)),

and a row's shares are the sum of a_m v_m. All of it is known before the target, and moves steadily with l. A map
learns most of the rows for which it counts, but a little of all, lest it keep what was true of a kind of row that
long has not come: with r for the responsibilities of its factors, by a step of online EM,

    b = 0.1 + 0.9 a,   c_m <- (1 - 0.02 b_m) c_m + b_m r_m,   v_m = c_m / sum c_m.

Where the mixture is right as it is, all that a map learns is error. So each is mixed with the map that changes
nothing, by the probability that it is better: a fixed share (Herbster and Warmuth 1998) by the density of the levels,
learnt at the pace b_m as well.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.likelihoods import running_moments
from streamgp.likelihoods.recalibration import FACTOR_ONE, MIN_LEVEL, STD_FACTORS, densities, scores
from streamgp.numerics import mixtures, tree
from streamgp.numerics.arrays import AnyArray, is_jax, namespace, scan
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.numerics.native import addresses, function

MAPS = 3
PRIOR = np.array([1.0, 2.5, 2.5, 10.0, 2.5, 2.5])  # counts as so many rows that each factor explained
FORGETTING = 0.02  # of the counts, from row to row
LEAST_PACE = 0.1  # at which a map learns of the rows for which it does not count
SWITCHING = 1e-3  # chance per row that a map begins to help, or ceases to
START = np.array([20.0, -1.0, 0.1])  # rows, mean and variance of the log spread before any is known
KERNEL_CONSTANTS = np.array([FORGETTING, LEAST_PACE, SWITCHING, MIN_LEVEL, *running_moments.KERNEL_CONSTANTS])


@register
class RecalibrationBySpread(Module):
    """What is known of the maps of every output; of several rows, one after the other, with their axis before.

    Attributes
    ----------
    counts
        Discounted counts of the rows that each factor explains, for each map.
    helps
        The probability that each map is better than none.
    spread
        Of the log spread: rows, mean and variance (see `streamgp.likelihoods.running_moments`).
    """

    counts: Float[AnyArray, "*n e m j"]
    helps: Float[AnyArray, "*n e m"]
    spread: Float[AnyArray, "*n e 3"]

    @classmethod
    def start(cls, num_outputs: int) -> "RecalibrationBySpread":
        """Return what is known before any row."""
        counts = np.tile(PRIOR, (num_outputs, MAPS, 1))
        return cls(counts, np.full((num_outputs, MAPS), 0.5), np.tile(START, (num_outputs, 1)))

    def of_output(self, e: int) -> "RecalibrationBySpread":
        """Return what is known of one output."""
        return tree.map(lambda a: a[e : e + 1], self)

    def shares(self, log_spread: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e j"]:
        """Return the shares of rows, from what was known before each of them or, where that is one, from it."""
        compiled = None if is_jax(self.counts, log_spread) else _compiled("level_shares")
        if compiled is not None:
            known = [np.ascontiguousarray(a, np.float64) for a in (log_spread, self.counts, self.helps, self.spread)]
            found = np.empty((*log_spread.shape, len(STD_FACTORS)))
            arrays = addresses(KERNEL_CONSTANTS, STD_FACTORS, *known, found)
            compiled(*found.shape, int(self.spread.ndim == 3), *arrays)
            return found
        known = self if self.spread.ndim == 3 else tree.map(lambda a: a[None], self)
        of_maps = known.counts / known.counts.sum(-1, keepdims=True)
        nearness = _nearness(known.spread, log_spread)
        kept = nearness * known.helps
        left = (nearness - kept).sum(-1)[..., None] * FACTOR_ONE.reshape(1, 1, -1)
        return (kept[..., None] * of_maps).sum(-2) + left

    def learn_rows(
        self, u: Float[AnyArray, "n e"], log_spread: Float[AnyArray, "n e"], mask: Bool[AnyArray, " n"]
    ) -> tuple["RecalibrationBySpread", "RecalibrationBySpread"]:
        """Learn at which levels `u` the targets of consecutive rows came; return also what was known before each.

        Rows with a false `mask` teach nothing, nor does a level that is NaN. An outlier counts like any other row: it
        is one of those that the bands are to hold, or not.
        """
        compiled = None if is_jax(u, log_spread, mask, self.counts) else _compiled("learn_level_maps")
        if compiled is not None:
            known = [np.empty((len(u) + 1, *a.shape)) for a in (self.counts, self.helps, self.spread)]
            known[0][0], known[1][0], known[2][0] = self.counts, self.helps, self.spread
            rows = np.ascontiguousarray(u), np.ascontiguousarray(log_spread), np.ascontiguousarray(mask)
            compiled(*u.shape, len(STD_FACTORS), *addresses(KERNEL_CONSTANTS, STD_FACTORS, *rows, *known))
            return RecalibrationBySpread(*(a[-1] for a in known)), RecalibrationBySpread(*(a[:-1] for a in known))
        xp = namespace(u, mask, log_spread)
        learnt = xp.isfinite(u) & mask[:, None]
        density = densities(scores(xp.where(learnt, u, 0.5)))
        given = tree.map(xp.asarray, self)
        return scan(lambda state, row: (_learn(state, *row), state), given, (density, log_spread, learnt))


def log_spread(
    log_weights: Float[AnyArray, "n k"], loc: Float[AnyArray, "n k e"], var: Float[AnyArray, "n k e"]
) -> Float[AnyArray, "n e"]:
    """Return the log standard deviation of the mixture that is predicted of each row."""
    xp = namespace(log_weights, loc, var)
    with np.errstate(over="ignore", invalid="ignore"):
        return mixtures.log_std(mixtures.moments_of_rows(xp.exp(log_weights), loc, var)[1])


def _nearness(spread: Float[AnyArray, "... e 3"], log_spread: Float[AnyArray, "... e"]) -> Float[AnyArray, "... e m"]:
    """Return how much each map counts for rows; it sums to one."""
    xp = namespace(spread, log_spread)
    t = (log_spread - spread[..., 1]) / xp.sqrt(spread[..., 2] + running_moments.LEAST_VARIANCE)
    small, large = xp.clip(-t, 0.0, 1.0), xp.clip(t, 0.0, 1.0)
    return xp.stack([small, 1.0 - small - large, large], axis=-1)


def _learn(
    state: RecalibrationBySpread,
    density: Float[AnyArray, "e j"],
    log_spread: Float[AnyArray, " e"],
    learnt: Bool[AnyArray, " e"],
) -> RecalibrationBySpread:
    """Learn one row; what `numerics/kernel/recalibration.c` does for many."""
    xp = namespace(state.counts, density)
    pace = LEAST_PACE + (1.0 - LEAST_PACE) * _nearness(state.spread, log_spread)
    pace = xp.where(learnt[:, None], pace, 0.0)
    explained = state.counts * density[:, None]
    total = explained.sum(-1)
    counts = (1.0 - FORGETTING * pace)[..., None] * state.counts + (pace / total)[..., None] * explained
    odds = state.helps * total / state.counts.sum(-1)
    helps = (1.0 - SWITCHING) * odds / (odds + 1.0 - state.helps) + 0.5 * SWITCHING
    spread = xp.where(learnt[:, None], running_moments.learn(state.spread, log_spread), state.spread)
    return RecalibrationBySpread(counts, state.helps + pace * (helps - state.helps), spread)


@cache
def _compiled(name: str) -> Any:
    """Return a function of `numerics/kernel/recalibration.c`; None where it was not built."""
    counts = 4 if name == "level_shares" else 3
    return function(name, [ctypes.c_int64] * counts + [ctypes.c_void_p] * (11 - counts))
