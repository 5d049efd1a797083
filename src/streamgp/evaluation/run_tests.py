"""Tests of runs: a target that stands still, and targets or rows that do not come.

How often such a run goes on is learnt from the stream itself, for each length on a scale of powers of two, because
targets may be whole numbers, or held for a while, and gaps may be usual. Bets are fair as long as the odds that a run
goes on are at most twice those learnt, or its chance 10%. Under a model of a continuous target no two are equal: so
the bets on equal ones are fair there whatever was learnt.
"""

from dataclasses import dataclass, replace
from math import log

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.change_tests import Column, Detector, log_mean
from streamgp.numerics.checkpoint.encoding import register

LENGTHS = 24  # classes of lengths: 0, 1, 2-3, 4-7, ...
# Odds up to so many times the learnt ones are tolerated.
TOLERATED = 2.0
# The tolerated probability that a run goes on is at least this.
LEAST = 0.1
# Runs of the next shorter class count as so many rows.
PRIOR = 20.0
# Bets are on so many times the tolerated odds.
ODDS = (4.0, 100.0)
# The most ticks of one gap.
MOST_TICKS = 1000
# The usual gap is the median of so many gaps.
GAPS = 100


@register
@dataclass(frozen=True)
class RunTest:
    """A bet on each row that the run under way goes on; no method changes it.

    Attributes
    ----------
    detector
        The evidence.
    went_on, ended
        For each class of lengths, the rows at which a run went on, and at which it ended.
    length, since
        Of the run under way, and the row of its first.
    reported
        Whether there has been an alarm about it: then nothing is bet until it ends, and it counts, in each class of
        lengths, as a single row: what has been an alarm is not usual.
    """

    detector: Detector
    went_on: Float[np.ndarray, " lengths"]
    ended: Float[np.ndarray, " lengths"]
    length: int = 0
    since: float = np.nan
    reported: bool = False

    @classmethod
    def start(cls) -> "RunTest":
        """Return the test before the first row."""
        return cls(Detector.start(len(ODDS)), np.zeros(LENGTHS), np.zeros(LENGTHS))

    def restart(self) -> "RunTest":
        """Return the test after an alarm."""
        return replace(self, detector=self.detector.restart(), reported=True)

    def update(
        self, hits: Bool[np.ndarray, " n"], rows: Column, tested: bool, ticks: Int[np.ndarray, " n"] | None = None
    ) -> tuple["RunTest", Column]:
        """Return the test after rows at which the run goes on or not, and log M after each row.

        `ticks` are how many rows should have come before each one and did not.
        """
        run, bets, places = _Run(self), np.zeros((len(hits), len(ODDS))), []
        missing = [0] * len(hits) if ticks is None else ticks.tolist()
        for i, (hit, gap, row) in enumerate(zip(hits.tolist(), missing, rows.tolist(), strict=True)):
            if tested and not run.reported:
                places.append(i)
                bets[i] = run.bets(hit, gap)
            for _ in range(gap):
                run.step(True, row)
            run.step(hit, row)
        path = np.full(len(hits), -np.inf)
        detector, log_sums = self.detector.update(bets[places], rows[places])
        path[places] = log_mean(log_sums)
        went_on, ended = np.array(run.went_on), np.array(run.ended)
        return RunTest(detector, went_on, ended, run.length, run.since, run.reported), path

    def tolerated(self, length: int) -> float:
        """Return the largest chance that a run of this length goes on for which the bets are fair."""
        return _Run(self).tolerated(length)


class _Run:
    """The fields of a `RunTest` while rows pass by, as plain numbers: they are many, and each changes few."""

    def __init__(self, test: RunTest) -> None:
        self.went_on, self.ended = test.went_on.tolist(), test.ended.tolist()
        self.length, self.since, self.reported = test.length, test.since, test.reported

    def tolerated(self, length: int) -> float:
        p, prior = 0.5, 2.0
        for k in range(_class(length) + 1):
            p = (self.went_on[k] + prior * p) / (self.went_on[k] + self.ended[k] + prior)
            prior = PRIOR
        return max(TOLERATED * p / (1.0 - p + TOLERATED * p), LEAST)

    def bets(self, hit: bool, gap: int) -> list[float]:
        """Return the log bets on a gap and the row after it: that the odds are so many times those tolerated."""
        total = [0.0] * len(ODDS)
        for length, went_on in [*((self.length + k, True) for k in range(gap)), (self.length + gap, hit)]:
            p = self.tolerated(length)
            for i, odds in enumerate(ODDS):
                total[i] += (log(odds) if went_on else 0.0) - log(1.0 - p + odds * p)
        return total

    def step(self, hit: bool, row: float) -> None:
        """Go on by a row, at which the run goes on or ends."""
        if hit:
            self.since = self.since if self.length else row
            self.length += 1
            return
        last = _class(self.length)
        for k in range(last + 1):
            seen = max(min(1 << k, self.length) - ((1 << k) >> 1), 0)
            self.went_on[k] += min(seen, 1) if self.reported else seen
        self.ended[last] += 1.0
        self.length, self.reported = 0, False


def _class(length: int) -> int:
    return min(length.bit_length(), LENGTHS - 1)


@register
@dataclass(frozen=True)
class GapClock:
    """How many rows a gap in time stands for; no method changes it.

    Attributes
    ----------
    gaps
        The first 100 gaps between rows, whose median is the usual one.
    known
        How many there are.
    last
        The time of the last row; NaN before the first.
    """

    gaps: Float[np.ndarray, " gaps"]
    known: int = 0
    last: float = np.nan

    @classmethod
    def start(cls) -> "GapClock":
        """Return the clock before the first row."""
        return cls(np.zeros(GAPS))

    @property
    def usual(self) -> float:
        """Return the usual gap; 0 while it is not known."""
        return float(np.median(self.gaps)) if self.known == GAPS else 0.0

    def update(self, times: Column) -> tuple["GapClock", Int[np.ndarray, " n"]]:
        """Return the clock after rows at these times, and the rows missing before each."""
        gaps = np.diff(np.append(self.last, times))
        gaps = np.where(np.isfinite(gaps), gaps, 0.0)
        counted = np.append(np.isfinite(self.last), np.ones(len(times) - 1, bool))
        new = gaps[counted][: GAPS - self.known]
        stored = self.gaps.copy()
        stored[self.known : self.known + len(new)] = new
        after = GapClock(stored, self.known + len(new), float(times[-1]))
        ticks = np.zeros(len(times), int)
        if after.usual > 0.0:
            # Rows are held to be missing only after the gaps by which the usual one is known.
            late = slice(np.flatnonzero(counted)[len(new) - 1] + 1 if len(new) else 0, None)
            ticks[late] = np.clip(np.round(gaps[late] / after.usual) - 1, 0, MOST_TICKS).astype(int)
        return after, ticks
