"""Filters that rest: most of the time most of them carry next to no weight, and need not work.

A filter that rests neither predicts nor learns. To the rule of the weights it predicts what the others predict
together, so that its weight neither gains nor loses at a row (the specialists of Freund, Schapire, Singer and Warmuth
1997). It works one period in four, and all of them work again when the mixture does worse than it did: then the time
that has passed is added to their beliefs, as for rows that were never there.

Everything depends on the count of rows: who rests is decided after every 1,024th, and whether the mixture does worse
is looked at after every 16th.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import split_by_group
from streamgp.filters.kalman import FilterState
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module

PERIOD = 1024  # rows after which it is decided anew who rests
BLOCK = 16  # rows whose mean log score is compared with that of the blocks before
ROTA = 4  # a resting filter works one period in so many
NEGLIGIBLE = 0.03  # the weight, in the mean over a period, of all filters together that go to rest
SMALL = 32  # features up to which a filter costs too little to rest
MIN_BLOCKS, MEMORY = 16, 64  # blocks before one is compared with them, and so many at most count
DEVIATIONS, MARGIN = 6.0, 0.25  # by which the mean log score of a block has to be lower, and nats a row at least
GRACE = 1  # whole periods for which a filter works that has just begun; those that have woken, one more
KEPT = 3  # periods after the last one in which it had weight, for which a filter goes on


@register
class Scores(Module):
    """The mean log score of the mixture by blocks of rows: those of the open block, and how the full ones were.

    Attributes
    ----------
    rows, total
        Of the open block: rows with a score, and the sum of these.
    blocks, mean, var
        How many were full, and the mean and variance of their mean scores, of which the latest count for most.
    """

    rows: Float[AnyArray, ""]
    total: Float[AnyArray, ""]
    blocks: Float[AnyArray, ""]
    mean: Float[AnyArray, ""]
    var: Float[AnyArray, ""]

    @classmethod
    def none(cls) -> "Scores":
        """Return the scores before any row."""
        return cls(*(np.zeros(()) for _ in range(5)))

    def add(self, scores: Float[np.ndarray, " n"]) -> "Scores":
        """Return them with rows of the open block; rows without a score (NaN) do not count."""
        known = scores[np.isfinite(scores)]
        total = np.asarray(sum(known.tolist(), float(self.total)))  # one by one: sums do not depend on the cuts
        return replace(self, rows=np.asarray(self.rows + len(known)), total=total)

    def close(self) -> tuple["Scores", bool]:
        """Return them after the end of the block, and whether it was worse than those before."""
        if not self.rows:
            return self, False
        value = self.total / self.rows
        if self.blocks >= MIN_BLOCKS and value < self.mean - max(DEVIATIONS * np.sqrt(self.var), MARGIN):
            return Scores.none(), True
        step, off = 1.0 / min(float(self.blocks) + 1.0, MEMORY), value - self.mean
        mean, var = self.mean + step * off, (1.0 - step) * (self.var + step * off * off)
        return Scores(np.zeros(()), np.zeros(()), *map(np.asarray, (self.blocks + 1.0, mean, var))), False


@register
class Resting(Module):
    """Who rests, and what the next decision is made from; everything by filter, in the user's order.

    Attributes
    ----------
    asleep
        Who rests.
    missed
        The time that has passed since the last row that they learnt, in units of the clock.
    grace
        For how many periods a filter works whatever its weight.
    weight, rows
        The sum of each filter's weight over the rows of the period, and how many there were.
    worked, counted
        Rows learnt by all filters together, and what it had been if none had rested.
    scores
        How well the mixture predicts.
    worse
        Whether it has just become worse, so that all are to wake.
    at
        How many rows were learnt; NaN in the warm-up, in which nobody rests.
    """

    asleep: Bool[AnyArray, " f"]
    missed: Float[AnyArray, " f"]
    grace: Int[AnyArray, " f"]
    weight: Float[AnyArray, " f"]
    rows: Float[AnyArray, ""]
    worked: Float[AnyArray, ""]
    counted: Float[AnyArray, ""]
    scores: Scores
    worse: Bool[AnyArray, ""]
    at: Float[AnyArray, ""]

    @classmethod
    def start(cls, num_filters: int, at: float = np.nan) -> "Resting":
        """Return the state in which all work."""
        zeros, zero = np.zeros(num_filters), np.zeros(())
        grace = np.full(num_filters, GRACE)
        none, is_worse, at_now = np.zeros(num_filters, bool), np.zeros((), bool), np.asarray(float(at))
        return cls(none, zeros, grace, zeros, zero, zero, zero, Scores.none(), is_worse, at_now)

    def absent(self, copies: int) -> Bool[AnyArray, " k"]:
        """Return which experts rest, where every filter has so many."""
        return namespace(self.asleep).repeat(self.asleep, copies)

    def after(self, weight: Float[AnyArray, " k"], rows: Any, elapsed: Any) -> "Resting":
        """Return it after so many rows, over which the experts' weights add up to these, and the time they took."""
        xp = namespace(weight)
        return replace(
            self,
            missed=xp.where(self.asleep, self.missed + elapsed, self.missed),
            weight=self.weight + weight.reshape(len(self.asleep), -1).sum(1),
            rows=xp.asarray(self.rows + rows),
            worked=xp.asarray(self.worked + rows * (~self.asleep).sum()),
            counted=xp.asarray(self.counted + rows * len(self.asleep)),
            at=xp.asarray(self.at + rows),
        )

    @property
    def rows_left(self) -> int:
        """How many rows come before it is decided anew who rests."""
        return PERIOD - int(self.at) % PERIOD

    @property
    def share_working(self) -> float:
        """Which share of the filters has worked, in the mean over the rows."""
        return float(self.worked / self.counted) if self.counted else 1.0

    def scored(self, scores: Float[np.ndarray, " n"], at: int) -> "Resting":
        """Return it with the scores of rows, the first of which has the number `at`, up to the first alarm."""
        found, worse = self.scores, bool(self.worse)
        while len(scores) and not worse:
            n = min(BLOCK - at % BLOCK, len(scores))
            found, at = found.add(scores[:n]), at + n
            scores = scores[n:]
            if at % BLOCK == 0:
                found, worse = found.close()
        return replace(self, scores=found, worse=np.asarray(worse))

    def alarm(self, scores: Float[np.ndarray, " n"], at: int) -> int | None:
        """Return after how many of these rows the mixture is found to do worse; None if it is not."""
        state, start = self, at
        while len(scores):
            n = min(BLOCK - at % BLOCK, len(scores))
            state, at, scores = state.scored(scores[:n], at), at + n, scores[n:]
            if state.worse:
                return at - start
        return None

    def is_due(self, at: int) -> bool:
        """Return whether somebody may wake or go to rest after row `at`."""
        return bool(self.worse) or at % PERIOD == 0

    def decided(self, features: Int[np.ndarray, " f"], at: int) -> "Resting":
        """Return it with what follows after row `at`: who works from here on.

        What the others missed is still to be added to the beliefs of those who wake.
        """
        zeros, zero = np.zeros(len(self.asleep)), np.zeros(())
        begun = replace(self, weight=zeros, rows=zero, worse=np.zeros((), bool))
        if self.worse:
            return replace(begun, asleep=np.zeros(len(zeros), bool), grace=np.full(len(zeros), GRACE + 1))
        if self.rows < PERIOD // 2:
            return begun
        asleep, grace = np.asarray(self.asleep), np.asarray(self.grace)
        weight = np.where(asleep | (features <= SMALL), np.inf, np.asarray(self.weight) / float(self.rows))
        order = np.argsort(weight, kind="stable")
        negligible = np.zeros(len(weight), bool)
        negligible[order[np.cumsum(weight[order]) <= NEGLIGIBLE]] = True
        resting = asleep | (negligible & (grace == 0))
        on_duty = (np.arange(len(resting)) + at // PERIOD) % ROTA == 0
        grace = np.where(negligible | asleep, np.maximum(grace - 1, 0), KEPT)
        return replace(begun, asleep=resting & ~on_duty, grace=grace)

    def joined(self, new: Bool[np.ndarray, " f"]) -> "Resting":
        """Return it with `new` filters in the places of others, whose beliefs are of now."""
        return replace(
            self,
            asleep=np.asarray(self.asleep) & ~new,
            missed=np.where(new, 0.0, self.missed),
            grace=np.where(new, GRACE + 1, self.grace),
        )


def caught_up(beliefs: FilterState, dynamics: Dynamics, prior_var: AnyArray, missed: AnyArray) -> FilterState:
    """Return beliefs (G, R) after a time in which nothing was learnt; those that missed nothing stay as they are."""
    missed = np.asarray(missed)
    if not missed.any():
        return beliefs
    left, grown = np.asarray(dynamics.transition(missed)), np.asarray(dynamics.process_variance(missed))
    mean, cov = np.array(beliefs.mean), np.array(beliefs.cov)
    for g, r in zip(*np.nonzero(missed), strict=True):
        mean[g, r] *= left[g, r]
        cov[g, r] *= left[g, r] ** 2
        cov[g, r].reshape(-1)[:: cov.shape[-1] + 1] += grown[g, r] * np.asarray(prior_var)[g, r]
    return FilterState(mean, cov, beliefs.guard)


def rested(model: Any, state: Any, scores: Float[np.ndarray, " n"]) -> Any:
    """Let filters of an ensemble rest or wake, if it is time to, after rows with these scores; return its state."""
    at = int(state.resting.at)
    before = state.resting.scored(scores, at - len(scores))
    if not before.is_due(at):
        return replace(state, resting=before)
    shapes = [beliefs.cov.shape for beliefs in state.filters]
    features = np.concatenate([np.full(G * R, F) for G, R, F, _ in shapes])[np.argsort(model.order)]
    after = before.decided(features, at)
    if not (np.asarray(after.asleep) != np.asarray(before.asleep)).any():
        return replace(state, resting=after)
    missed = split_by_group(np.where(after.asleep, 0.0, after.missed), model.order, [shape[:2] for shape in shapes])
    filters = tuple(
        caught_up(beliefs, group.dynamics, group.noise.prior_var, time)
        for beliefs, group, time in zip(state.filters, model.groups, missed, strict=True)
    )
    resting = replace(after, missed=np.where(after.asleep, after.missed, 0.0))
    return replace(state, filters=filters, resting=resting)
