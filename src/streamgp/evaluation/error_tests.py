"""Tests of one-step predictions: signs and sizes of the errors, their dependence, and their score.

All look at z = Phi^-1(u), with u the probability that the model gave to values below the target: if the model is
right, the u are uniform and independent (Rosenblatt 1952; Dawid 1984), and z are standard normal. Each kind of test
tolerates a little, for which its bets are fair as well:

- level: the mean of z within 1/8 of 0, the share of targets above their median within 5 points of a half;
- scale: the standard deviation of z from 1 / 1.15 to 1.15;
- dependence: two successive errors have the same sign with a chance from 45 to 55%;
- shape: u falls in no tenth of its range with more than 1.1 times its chance;
- score: naive forecasts have a density that is larger on average by no more than a factor of exp(0.2).
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from streamgp.evaluation.change_tests import Bets, Column, log_mean, mean_bets, scale_bets, share_bets
from streamgp.evaluation.watch import CAP, Kinds, Statistics, Watch, averages
from streamgp.numerics import student_t
from streamgp.numerics.checkpoint.encoding import register

SHIFT, SCALE, SHARE, DENSITY, SCORE = 0.125, 1.15, 0.05, 1.1, 0.2
BINS = 10
# The largest abs(z) that is used.
LARGEST = 8.0
# The memories, in rows, of the histograms that bet on the next row.
MEMORIES = (100.0, 500.0)
REST = 100  # rows after an alarm in which what is usual is learnt anew
# The cap is low, so that a more specific kind of alarm comes first.
SCORE_CAP = 0.5
# After so many rows the naive forecasts have followed a change.
NAIVE_REST = 500
NAIVE_MEMORY = 100.0
# The degrees of freedom of Student's t for the naive forecasts.
NAIVE_DOF = 5.0
# The number of rows before the first bet.
NAIVE_ROWS = 20
BETS = {"level": slice(0, 8), "scale": slice(8, 16), "dependence": slice(16, 24), "shape": slice(24, 26)}
_Z, _SQUARE, _SAME = 0, 1, 2  # the columns of the statistics; the rest are bins
# The average ratio of the densities of the naive forecasts and of the model.
_USUAL_RATIO = 1.0
# It is above DENSITY, since it bounds the largest of ten averages over some 1,000 rows.
_USUAL_BINS = 1.25


@register
@dataclass(frozen=True)
class ErrorTests:
    """Level, scale, dependence and shape of one target's errors; no method changes it.

    Attributes
    ----------
    watch
        The evidence.
    sign
        Of the last error: -1 or 1; 0 before the first.
    histograms
        Shares of the tenths among the last u, with each memory.
    """

    watch: Watch
    sign: float
    histograms: Float[np.ndarray, "memories bins"]

    @classmethod
    def start(cls) -> "ErrorTests":
        """Return the tests before the first row."""
        return cls(Watch.start(26, 3 + BINS, 4, REST), 0.0, np.full((len(MEMORIES), BINS), 1.0 / BINS))

    def restart(self) -> "ErrorTests":
        """Return the tests after an alarm."""
        return replace(self, watch=self.watch.restart())

    def update(self, u: Column, rows: Column) -> tuple["ErrorTests", dict[str, Column]]:
        """Return the tests after rows, at least one, with these u in [0, 1]; and each kind's log M after each row."""
        z = np.clip(ndtri(u), -LARGEST, LARGEST)
        signs = np.where(u > 0.5, 1.0, -1.0)
        before = np.append(self.sign, signs[:-1])
        same = np.where(before == 0.0, 0.5, signs == before)
        places = np.minimum((u * BINS).astype(int), BINS - 1)
        tenths = np.eye(BINS)[places]
        histograms = [averages(tenths, h, m) for h, m in zip(self.histograms, MEMORIES, strict=True)]
        densities = np.stack([BINS * h[np.arange(len(u)), places] for h in histograms], axis=1)

        def bets(reference: Statistics, adapted: Kinds, rest: slice) -> Bets:
            level, scale, dependence, shape = adapted.T
            mean = np.where(level, reference[:, _Z], 0.0)
            deviation = np.where(scale, np.sqrt(reference[:, _SQUARE]), 1.0)
            excess = np.where(dependence, reference[:, _SAME] - 0.5, 0.0)
            usual = np.where(shape, BINS * reference[np.arange(len(reference)), 3 + places[rest]], 1.0)
            low, high = np.minimum(mean, 0.0) - SHIFT, np.maximum(mean, 0.0) + SHIFT
            least, most = np.minimum(deviation, 1.0) / SCALE, np.maximum(deviation, 1.0) * SCALE
            share = np.clip([np.minimum(excess, 0.0) - SHARE, np.maximum(excess, 0.0) + SHARE], -0.49, 0.49) + 0.5
            by_share = share_bets(same[rest], *share)
            by_share[before[rest] == 0.0] = 0.0
            by_shape = np.log(densities[rest] / (DENSITY * np.maximum(usual, 1.0))[:, None])
            wary = np.column_stack([mean_bets(z[rest], low, high, most), scale_bets(z[rest], least, most), by_shape])
            wary /= _inflation(np.maximum(excess, 0.0))[:, None]
            return np.column_stack([wary[:, :16], by_share, wary[:, 16:]])

        statistics = np.column_stack([z, z * z, same, tenths])
        watch, log_sums = self.watch.update(statistics, rows, bets, _usual)
        after = ErrorTests(watch, float(signs[-1]), np.stack([h[-1] for h in histograms]))
        return after, {kind: log_mean(log_sums[:, where]) for kind, where in BETS.items()}

    def leading(self, kind: str) -> tuple[float, Float[np.ndarray, " m"]]:
        """Return the row since which the leading bet of a kind has been winning, and the averages since then."""
        return leading(self.watch, BETS[kind])


def _inflation(excess: Column) -> Column:
    """Return how many times larger the variance of a mean is than that of independent errors.

    `excess` is by how much the share of errors with the sign of the one before exceeds a half. Of an autoregression
    of order 1 with correlation r it is arcsin(r) / pi, and the variance (1 + r) / (1 - r) times as large. A fair bet
    to a power below 1 is fair (Jensen), and so are products of them, in the long run, of errors that so depend.
    """
    r = np.sin(np.pi * np.minimum(excess, 0.45))
    return (1.0 + r) / (1.0 - r)


def leading(watch: Watch, where: slice) -> tuple[float, Float[np.ndarray, " m"]]:
    """Return the row since which the largest of some bets has been winning, and the averages of the rows since."""
    d = watch.detector
    best = where.start + int(np.argmax(d.log_sums[where]))
    return float(d.starts[best]), d.totals[best] / max(float(d.counts[best]), 1.0)


def _usual(reference: Statistics) -> Kinds:
    """Return whether averages are, by kind, what is tolerated of a model."""
    deviation = np.sqrt(reference[:, _SQUARE])
    return np.column_stack(
        [
            np.abs(reference[:, _Z]) <= SHIFT,
            (deviation >= 1.0 / SCALE) & (deviation <= SCALE),
            np.abs(reference[:, _SAME] - 0.5) <= SHARE,
            (BINS * reference[:, 3:] <= _USUAL_BINS).all(axis=1),
        ]
    )


@register
@dataclass(frozen=True)
class ScoreTest:
    """The model's log score against that of naive forecasts; no method changes it.

    A naive forecast is an equal mixture of two Student's t: around the last target, and around the average of some
    100; each with the mean square of such errors.

    Attributes
    ----------
    watch
        The evidence.
    last, average, squares
        Of every target: the last, the average, and the averages of the squared errors of both (2, E).
    rows
        How many have been seen.
    """

    watch: Watch
    last: Float[np.ndarray, " e"]
    average: Float[np.ndarray, " e"]
    squares: Float[np.ndarray, "2 e"]
    rows: int = 0

    @classmethod
    def start(cls, targets: int) -> "ScoreTest":
        """Return the test before the first row."""
        zeros = np.zeros(targets)
        return cls(Watch.start(1, 2, 1, NAIVE_REST), zeros, zeros, np.zeros((2, targets)))

    def restart(self) -> "ScoreTest":
        """Return the test after an alarm."""
        return replace(self, watch=self.watch.restart())

    def update(
        self, y: Float[np.ndarray, "n e"], log_density: Column, rows: Column, tested: bool
    ) -> tuple["ScoreTest", Column]:
        """Return the test after rows, at least one, with these log densities under the model; and log M after each.

        Rows that are not tested teach the naive forecasts only.
        """
        naive, after = self._naive(y)
        if not tested:
            return after, np.full(len(y), -np.inf)
        advantage = np.clip(naive - log_density, -LARGEST, LARGEST)
        advantage[: max(0, NAIVE_ROWS - self.rows)] = -LARGEST

        def bets(reference: Statistics, adapted: Kinds, rest: slice) -> Bets:
            # As long as the naive forecasts stay better after an alarm, nothing is bet: that was told.
            return np.where(adapted, -LARGEST, np.minimum(advantage[rest, None] - SCORE, SCORE_CAP))

        statistics = np.column_stack([advantage, np.exp(np.minimum(advantage, CAP))])
        watch, log_sums = self.watch.update(statistics, rows, bets, lambda r: r[:, 1:] <= _USUAL_RATIO)
        return replace(after, watch=watch), log_sums[:, 0]

    def _naive(self, y: Float[np.ndarray, "n e"]) -> tuple[Column, "ScoreTest"]:
        """Return the log densities of the naive forecasts, each made from the rows before."""
        if not self.rows:
            first = replace(self, last=y[0], average=y[0], rows=1)
            density, after = first._naive(y[1:]) if len(y) > 1 else (np.zeros(0), first)
            return np.append(-np.inf, density), after
        last = np.vstack([self.last, y])
        average = averages(y, self.average, NAIVE_MEMORY)
        errors = np.stack([y - last[:-1], y - average[:-1]], axis=1)  # (n, 2, E)
        squares = averages(np.square(errors).reshape(len(y), -1), self.squares.ravel(), NAIVE_MEMORY)
        squares = squares.reshape(-1, *self.squares.shape)
        floor = np.finfo(float).tiny + 1e-20 * np.square(average[:-1])[:, None]
        # The weights of averages that begin at nothing add up to less than one.
        seen = 1.0 - (1.0 - 1.0 / NAIVE_MEMORY) ** np.maximum(self.rows - 1.0 + np.arange(len(y)), 1.0)
        variance = np.maximum(squares[:-1] / seen[:, None, None], floor)
        # After a target that never moved, any other value has density zero.
        with np.errstate(over="ignore"):
            density = np.logaddexp.reduce(student_t.log_density(errors, variance, np.full(1, NAIVE_DOF)), axis=1)
        after = replace(self, last=last[-1], average=average[-1], squares=squares[-1], rows=self.rows + len(y))
        return (density - np.log(2.0)).sum(axis=1), after
