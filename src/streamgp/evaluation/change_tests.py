"""Tests of a change at an unknown time by betting: e-values, their Shiryaev-Roberts sums, and many streams at once.

A bet on the next observation is an e-value: a number that is never negative and whose mean, given the past, is at
most 1 if nothing has changed. Bets on rows s, s + 1, ..., t multiply. The sum over all starting points s of these
products obeys M_t = e_t (M_{t-1} + 1), and M_t - t has no upward drift, so that with an alarm at M_t >= c, and a new
start from 0 after it, the expected number of false alarms in n rows is at most n / c, on any stream for which the
bets are fair (Shin, Ramdas and Rinaldo 2023, "E-detectors"; Roberts 1966). So is the mean of sums of several bets.

All is in logarithms.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import logsumexp
from streamgp.numerics.checkpoint.encoding import register

# Bets on means: so far beyond the tolerated mean, in standard deviations.
SHIFTS = np.array([0.25, 0.5, 1.0, 2.0])
# Bets on scales: so many times the tolerated scale.
RATIOS = np.array([1.2, 1.5, 2.0, 3.0])
# Bets on odds: so many times the tolerated odds.
ODDS = np.array([1.5, 2.5, 5.0, 12.0])

Column = Float[np.ndarray, " n"]
Bets = Float[np.ndarray, "n a"]


def mean_bets(z: Column, low: Column | float, high: Column | float, spread: Column | float) -> Bets:
    """Return log bets on a mean above `high` (4) and below `low` (4); fair of Gaussian `z` between.

    They are likelihood ratios to the nearer end. With a standard deviation of at most `spread` they are fair for
    every mean from `low` to `high`: means add up, and a smaller deviation lowers the mean of a convex function.
    """
    over, under = (np.subtract(z, high))[:, None], (np.subtract(low, z))[:, None]
    both = [SHIFTS * over - 0.5 * SHIFTS**2, SHIFTS * under - 0.5 * SHIFTS**2]
    return np.hstack(both) / np.square(np.broadcast_to(spread, len(z)))[:, None]


def scale_bets(z: Column, low: Column | float, high: Column | float) -> Bets:
    """Return log bets on a standard deviation above `high` (4) and below `low` (4); fair of those between.

    They are likelihood ratios of centred Gaussian `z` to the nearer end, and monotone in abs(z).
    """
    over, under = np.square(np.divide(z, high))[:, None], np.square(np.divide(z, low))[:, None]
    up = 0.5 * (1.0 - RATIOS**-2.0) * over - np.log(RATIOS)
    return np.hstack([up, np.log(RATIOS) - 0.5 * (RATIOS**2 - 1.0) * under])


def share_bets(hit: Column, low: Column | float, high: Column | float) -> Bets:
    """Return log bets on a chance of a hit above `high` (4) and below `low` (4); fair for every chance between."""
    return np.hstack([odds_bets(hit, high, ODDS), odds_bets(1.0 - hit, np.subtract(1.0, low), ODDS)])


def odds_bets(hit: Column, chance: Column | float, odds: Float[np.ndarray, " a"]) -> Bets:
    """Return log bets that the odds of a hit are so many times those of `chance`; fair for any chance up to it."""
    p = np.broadcast_to(chance, len(hit))[:, None]
    q = odds * p / (1.0 - p + odds * p)
    return np.where(hit[:, None] > 0.5, np.log(q / p), np.log((1.0 - q) / (1.0 - p)))


@register
@dataclass(frozen=True)
class Detector:
    """Shiryaev-Roberts sums of several bets, and since when each has been winning; no method changes it.

    Attributes
    ----------
    log_sums
        log M of each bet.
    wealth
        Log of the product of each bet since its start, the best there is: never negative (Page 1954).
    starts
        The row at which that product begins; NaN where it is the next one.
    counts, totals
        Rows since then, and the sums over them of what goes with each row.
    """

    log_sums: Float[np.ndarray, " a"]
    wealth: Float[np.ndarray, " a"]
    starts: Float[np.ndarray, " a"]
    counts: Float[np.ndarray, " a"]
    totals: Float[np.ndarray, "a m"]

    @classmethod
    def start(cls, bets: int, statistics: int = 0) -> "Detector":
        """Return a detector without evidence."""
        zeros = np.zeros(bets)
        return cls(zeros - np.inf, zeros, zeros + np.nan, zeros, np.zeros((bets, statistics)))

    def update(
        self, log_e: Bets, rows: Column, statistics: Float[np.ndarray, "n m"] | None = None
    ) -> tuple["Detector", Bets]:
        """Return the detector after rows with these log bets, and log M after each of them."""
        n = len(log_e)
        if not n:
            return self, log_e
        path = np.cumsum(log_e, axis=0)
        # M_t = exp(S_t) (M_0 + sum over s <= t of exp(-S_{s-1})), with S the sum of the log bets.
        before = np.vstack([self.log_sums, -np.zeros_like(self.log_sums), -path[:-1]])
        log_sums = path + np.logaddexp.accumulate(before, axis=0)[1:]

        wealth = self.wealth + path
        wealth = wealth - np.minimum(np.minimum.accumulate(wealth, axis=0), 0.0)
        # The last row of each bet with no wealth left.
        ruined = np.where(wealth <= 0.0, np.arange(n)[:, None], -1).max(axis=0)
        begun = np.isnan(self.starts) & (ruined < 0)
        starts = np.where(begun, rows[0], self.starts)
        anew = ruined >= 0
        starts = np.where(anew, np.append(rows, np.nan)[ruined + 1], starts)
        sums = np.zeros((n + 1, 0)) if statistics is None else _cumulative(statistics)
        since = sums[-1] - sums[ruined + 1]
        return Detector(
            log_sums[-1],
            wealth[-1],
            starts,
            np.where(anew, n - 1.0 - ruined, self.counts + n),
            np.where(anew[:, None], since, self.totals + since),
        ), log_sums

    def restart(self) -> "Detector":
        """Return the detector without evidence."""
        return Detector.start(*self.totals.shape)


def _cumulative(statistics: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n+1 m"]:
    """Return sums of the rows so far, from none on (n + 1, m)."""
    return np.vstack([np.zeros(statistics.shape[1]), np.cumsum(statistics, axis=0)])


def log_mean(log_sums: np.ndarray) -> np.ndarray:
    """Return the log of the mean over the last axis."""
    return logsumexp(log_sums) - np.log(log_sums.shape[-1])


def e_bh(e_values: Any, rate: float) -> Bool[np.ndarray, " n"]:
    """Return which of many hypotheses to reject so that at most a share `rate` of these is true, in expectation.

    The e-BH procedure (Wang and Ramdas 2022, Definition 1): the k largest e-values, with k the greatest number for
    which the k-th largest is at least n / (k rate). It holds whatever the dependence between them.

    Parameters
    ----------
    e_values
        One for each hypothesis (n,), such as `Alarms.e_value` of many streams: not negative, and in expectation at
        most 1 where nothing has changed.
    rate
        The false discovery rate, between 0 and 1.

    Raises
    ------
    ValueError
        If a number is negative or NaN, or the rate is no share.
    """
    e_values = np.asarray(e_values, dtype=float)
    if e_values.ndim != 1 or not (e_values >= 0.0).all():
        raise ValueError("e_values: expected numbers that are not negative, one for each stream, shape (n,)")
    if not 0.0 < rate < 1.0:
        raise ValueError(f"rate: expected the share of false discoveries, between 0 and 1, got {rate!r}")
    n = len(e_values)
    order = np.argsort(-e_values, kind="stable")
    enough = np.flatnonzero(e_values[order] * np.arange(1, n + 1) * rate >= n)
    found = np.zeros(n, bool)
    found[order[: enough[-1] + 1 if len(enough) else 0]] = True
    return found
