"""Thresholds that hold their share in each of several overlapping groups of rows.

Every row belongs to the group of all rows and to one group of each column. Its threshold is a product of one factor
for each of its groups, in this order: the quantile of what the scores of that group were, over the factors before.
The level of each quantile moves with every target of the group, up after a miss of the whole band and down after a
hit (Gibbs and Candes 2021, for each group by itself), and a group whose level is at its end makes the band unbounded,
whatever the others say. So in each group, however groups overlap and whatever the sequence, the share of misses after
n rows is at most (a + h g) / (g n) above the share a that is asked for, with step size g and forecasts h rows ahead:
the level begins at a, and does not fall further than h misses below 0. It is less than 1 / (g n) below a unless two
groups of a row contradict each other, one at either end.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from math import ceil, inf, isnan, prod
from typing import Any

import numpy as np
from jaxtyping import Float, Int

STEP = 0.01  # a group has fewer rows than the stream: twice the step of bands without groups
BEYOND = 20  # about so many remembered scores lie beyond the threshold
FEWEST = 20  # a group with fewer scores says nothing of its own


class GroupThresholds:
    """Thresholds for a sequence of scores, each set before its score is known, for groups of rows.

    Parameters
    ----------
    level
        The share of scores at or under their thresholds, in (0, 1), in each group.
    groups
        How many groups there are, besides that of all rows.
    horizon
        How many rows before its score a threshold is set, at least 1.
    """

    def __init__(self, level: float, groups: int, horizon: int = 1) -> None:
        self.level = level
        self._horizon = horizon
        self._memory = round(BEYOND / (1.0 - level))
        # The first entry is of all rows, the others are of the groups.
        self._miss = [1.0 - level] * (groups + 1)
        self._last: list[deque[float]] = [deque() for _ in self._miss]
        self._sorted: list[list[float]] = [[] for _ in self._miss]
        self._pending: deque[tuple[float, list[int], list[float]]] = deque()

    def update(self, scores: Float[np.ndarray, " n"], groups: Int[np.ndarray, "n c"]) -> Float[np.ndarray, " n"]:
        """Return the thresholds of the next rows, then learn from their scores; infinite where nothing is known.

        A score that is NaN teaches nothing. `groups` are those of each row, by number, from 0 on.
        """
        found = np.empty(len(scores))
        for i, (score, row) in enumerate(zip(scores.tolist(), (groups + 1).tolist(), strict=True)):
            own = [0, *row]
            factors = [self._factor(g) for g in own]
            found[i] = _product(factors)
            if isnan(score):
                continue
            self._pending.append((score, own, factors))
            if len(self._pending) >= self._horizon:
                self._learn(*self._pending.popleft())
        return found

    def _factor(self, g: int) -> float:
        """Return the quantile of a group; infinite where nothing is known, and where its level is at its end."""
        scores, miss = self._sorted[g], self._miss[g]
        if miss <= 0.0 or not (g or scores):
            return inf
        if miss >= 1.0:
            return 0.0
        if g and len(scores) < FEWEST:
            return 1.0
        return scores[min(ceil((1.0 - miss) * (len(scores) + 1)), len(scores)) - 1]

    def _learn(self, score: float, own: list[int], factors: list[float]) -> None:
        threshold = _product(factors)
        if max(score, threshold) > 0.0:  # a threshold of 0 cannot be missed by a score of 0
            step = STEP * ((1.0 - self.level) - float(score > threshold))
            for g in own:
                self._miss[g] += step
        before = 1.0
        for g, factor in zip(own, factors, strict=True):
            self._remember(g, score / before)
            before *= factor
            if not 0.0 < before < inf:
                break

    def _remember(self, g: int, score: float) -> None:
        self._last[g].append(score)
        insort(self._sorted[g], score)
        if len(self._last[g]) > self._memory:
            del self._sorted[g][bisect_left(self._sorted[g], self._last[g].popleft())]

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        pending = [np.array([each[i] for each in self._pending], float) for i in range(3)]
        return {
            "miss": np.array(self._miss),
            "lengths": np.array([len(each) for each in self._last]),
            "last": np.array([score for each in self._last for score in each], float),
            "pending": dict(zip(("score", "groups", "factors"), pending, strict=True)),
        }

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Take over the state that `to_tree` stored."""
        self._miss = tree["miss"].tolist()
        ends = [0, *np.cumsum(tree["lengths"]).tolist()]
        self._last = [deque(tree["last"][a:b].tolist()) for a, b in pairwise(ends)]
        self._sorted = [sorted(each) for each in self._last]
        score, groups, factors = (tree["pending"][name] for name in ("score", "groups", "factors"))
        each = zip(score.tolist(), groups.astype(int).tolist(), factors.tolist(), strict=True)
        self._pending = deque(each)


def _product(factors: list[float]) -> float:
    """Return the product; infinite if a factor is, even beside a zero."""
    return inf if inf in factors else prod(factors)
