"""Tests of the coverage of each of many groups of rows, valid at any time, with false discoveries controlled.

Of a group whose band holds its share, a row is missed with at most some probability given all rows before, and held
with at most another. Ratios of likelihoods of Bernoulli variables, of several shares against the nearest of these,
then have no upward drift. The evidence against a group is their product since row s of the group, averaged over s
with weights 1 / (s (s + 1)), so that what begins late is found too, and over the shares. It is an e-value whenever
one looks. Groups are told by the e-BH procedure (Wang and Ramdas 2022), and the evidence against a group stops when
it is told: since its e-value stays, and the bar only falls as more are told, all that were told at any time are what
e-BH tells then. So of the groups told, a share of at most `rate` is told falsely, in expectation, whenever one stops.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.change_tests import e_bh

RATE = 0.05
# Misses within so large a part of what is allowed are as promised: 2 points of a band of 90%.
SLACK = 0.2
# Logs of the odds of a miss, over those of what is allowed, that are bet on.
_MORE, _FEWER = (0.3, 0.7, 1.2, 2.0, 3.0), (-0.5, -1.2, -2.5)


@dataclass(frozen=True)
class Miscovered:
    """A group found to be covered otherwise than promised.

    Attributes
    ----------
    group
        Its number.
    row, since
        The row at which it was found, and the one at which it probably began.
    evidence
        Its e-value.
    coverage
        The share of its rows since then that were held.
    """

    group: int
    row: int
    since: int
    evidence: float
    coverage: float


class CoverageTests:
    """Tests whether each of so many groups of rows is held to the level, within `SLACK` of the misses allowed.

    Parameters
    ----------
    level
        The share of rows that is to be held, in (0, 1).
    tested
        Which of the groups are.
    rate
        The share of false discoveries, between 0 and 1.
    at_least
        Whether more may be held: bands of whole numbers hold more than their share.
    """

    def __init__(
        self, level: float, tested: Bool[np.ndarray, " g"], rate: float = RATE, at_least: bool = False
    ) -> None:
        self.rate = rate
        # Which groups need no test: those that never did, and those that were found.
        self._told = ~tested
        self._rows = np.zeros(len(tested))
        gains, self._weights = _bets(1.0 - level, at_least)
        self._on_hit, self._on_miss = gains
        shape = (len(tested), len(self._weights))
        # For every group and bet: the log of the evidence, and of its part that began at the best single row. Then
        # that row, and the rows and misses since.
        self._log_sums, self._best = np.full((2, *shape), -np.inf)
        self._since, self._count, self._missed = np.zeros((3, *shape))

    @property
    def e_values(self) -> Float[np.ndarray, " g"]:
        """Return the evidence against each group: an e-value of its being held as promised."""
        return np.exp(self._log_sums) @ self._weights

    def update(
        self, missed: Bool[np.ndarray, " n"], groups: Int[np.ndarray, "n c"], rows: Int[np.ndarray, " n"]
    ) -> list[Miscovered]:
        """Return the groups that are found as these rows come, each told once.

        Parameters
        ----------
        missed
            Which rows were not in their bands.
        groups
            Those of each row.
        rows
            Their numbers in the stream.
        """
        found: list[Miscovered] = []
        for miss, own, row in zip(missed.tolist(), groups, rows.tolist(), strict=True):
            own = own[~self._told[own]]
            if len(own) and self._add(own, miss, row):
                found += self._tell(row)
        return found

    def _add(self, own: Int[np.ndarray, " c"], miss: bool, row: int) -> bool:
        """Take a row of some groups; return whether the evidence may be enough."""
        self._rows[own] += 1.0
        start = -np.log(self._rows[own] * (self._rows[own] + 1.0))[:, None]
        gain = self._on_miss if miss else self._on_hit
        self._log_sums[own] = sums = np.logaddexp(self._log_sums[own], start) + gain
        best = self._best[own]
        anew = start > best
        self._best[own] = np.where(anew, start, best) + gain
        self._since[own] = np.where(anew, row, self._since[own])
        self._count[own] = np.where(anew, 1.0, self._count[own] + 1.0)
        self._missed[own] = np.where(anew, float(miss), self._missed[own] + float(miss))
        # However many groups are found, each has at least as much evidence as this.
        return bool((np.exp(sums) @ self._weights).max() >= 1.0 / self.rate)

    def _tell(self, row: int) -> list[Miscovered]:
        e_values = self.e_values
        new = np.flatnonzero(e_bh(e_values, self.rate) & ~self._told)
        self._told[new] = True
        found = []
        for g in new.tolist():
            bet = int(np.argmax(self._best[g]))
            held = 1.0 - self._missed[g, bet] / self._count[g, bet]
            found.append(Miscovered(g, row, int(self._since[g, bet]), float(e_values[g]), float(held)))
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {name: getattr(self, f"_{name}").copy() for name in _STATE}

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Take over the state that `to_tree` stored."""
        for name in _STATE:
            setattr(self, f"_{name}", tree[name].copy())


_STATE = ("told", "rows", "log_sums", "best", "since", "count", "missed")


def _bets(allowed: float, at_least: bool) -> tuple[Float[np.ndarray, "2 b"], Float[np.ndarray, " b"]]:
    """Return what each bet gains by a hit and by a miss, as logs; and the weights: each side tested has its part."""
    gains, weights = [], []
    for side, odds in ((1.0, np.array(_MORE)), (-1.0, np.array(_FEWER)))[: 1 if at_least else 2]:
        nearest = allowed * (1.0 + side * SLACK)
        share = 1.0 / (1.0 + np.exp(-odds) * (1.0 - nearest) / nearest)
        gains.append(np.log([(1.0 - share) / (1.0 - nearest), share / nearest]))
        weights.append(np.full(len(odds), (1.0 if at_least else 0.5) / len(odds)))
    return np.concatenate(gains, axis=1), np.concatenate(weights)
