"""Tests of sudden changes: of the level, of the size of the errors, or of the slope on the prediction.

An ensemble follows such a change within a few rows, and its guard sets the first of them aside. So the errors tested
here are not the model's own but those of its `references`, which do not follow. Each is looked at in three ways:

- level: errors lie on one side;
- slope: errors lie on the side on which the prediction is of its usual mean, or on the other;
- scale: errors are large.

What errors are in ordinary times is learnt from the stream: how they go with the one before, which is then taken off
(of an error that stays only its beginning is new), and how large they are, if larger than expected. A row counts for
a factor of 100 at most, so that fewer than four are no alarm: where up to one row in a hundred is a glitch to either
side the bets are fair, whatever the glitches are. A target that repeats the one before, where that is not usual, is
left to the test of stuck targets.

A change that was found is told once the model has followed it, eight rows after it began at the latest. After it the
tests rest for some rows; references that are still off are then taken as they are, until they are back.
"""

from dataclasses import dataclass, replace
from math import copysign, isnan, nan, sqrt

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.change_tests import Bets, Column, Detector, log_mean
from streamgp.evaluation.references import KINDS
from streamgp.numerics.checkpoint.encoding import register

# Bets are on a mean of the errors so far from zero, in standard deviations.
SHIFT = 2.0
# A mean of the errors this far from zero, on either side, is tolerated.
TOLERATED = 0.125
CAP = float(np.log(100.0))
SLOPE_CAP = float(np.log(60.0))  # a level tells more than a slope where both explain the errors
RATIO, TOLERATED_RATIO = 3.0, 1.05  # bets on errors so many times larger than those tolerated
SCALE_CAP = float(np.log(40.0))  # lower than `SLOPE_CAP`, since a slope tells more than a scale
NO_BET = -10.0
FIRST = 20  # first rows, in which the usual size of the errors is learnt
REST = 20  # rows after an alarm
# An alarm comes at most so many rows after the change, while the model has not followed it.
WAIT = 8
# The memory of the size of the errors, usually and after an alarm.
MEMORY, MEMORY_AFTER = 100.0, 25.0
# So many rows it counts that errors are as large as expected. A model that was fitted to few rows often expects too
# small ones, and that is no change.
AS_EXPECTED = 10.0
MEAN_MEMORY = 10.0  # memory of the mean of the errors after an alarm
# A row counts in this mean by at most so many standard deviations away from zero.
MOST_STEP = 8.0
CORRELATION_MEMORY = 300.0
CHANCE = 0.115  # twice the standard deviation of the correlation of so many rows
MOST_SHARE = 0.98
CENTRE_MEMORY = 500.0
LARGEST = 1e6  # standard deviations
# An error counts in the size up to so many standard deviations.
ORDINARY = 2.0
USUAL_SIZE = 0.6745  # median of the absolute value of a normal score
# This share of the mean square of a normal error is left by the limit `ORDINARY`.
_SHARE = 0.9205
# After an alarm, a level counts as usual again once the mean of the errors is below this.
BACK = 0.25
# From this share of repeated targets on, repeats are usual.
REPEATS = 0.25
# A change is measured on so many latest rows.
KEPT = 40
BETS = {"level": [0, 1, 5, 6], "slope": [2, 3, 7, 8], "scale": [4, 9]}
_EACH = 5  # bets on each reference
# Of the latest rows: number, time, the model's error, of each reference error and score, side.
ROW, TIME, ERROR, FIRST_OFF, FIRST_SCORE, SIDE = 0, 1, 2, 3, 3 + KINDS, 3 + 2 * KINDS
_COLUMNS = SIDE + 1


@register
@dataclass(frozen=True)
class Found:
    """A change that was found, and is not told yet.

    Attributes
    ----------
    kind, reference
        What changed, and beside which reference.
    log_sum
        The log of the evidence.
    start
        The row since which the evidence has been growing.
    within
        The error of the model below which it has followed.
    rows
        Rows since the start.
    followed
        Whether the model has followed it.
    """

    kind: str
    reference: int
    log_sum: float
    start: float
    within: float
    rows: int
    followed: bool

    @property
    def is_due(self) -> bool:
        """Return whether there is nothing left to wait for before the change is told."""
        return self.kind == "scale" or self.followed or self.rows >= WAIT


@register
@dataclass(frozen=True)
class MoveTests:
    """The tests of one target; no method changes it.

    Attributes
    ----------
    detector
        The evidence: of each reference the level above and below, the slope above and below, and the scale.
    last
        The last score of each reference; NaN before the first.
    sizes
        Of each reference the averages of products of successive scores, of their squares, and of the squares of what
        is new in them.
    means
        Of each reference that was off after an alarm the average of its scores since then; NaN of the others.
    centre
        The average prediction.
    repeats
        The share of targets that repeat the one before.
    latest
        What is kept of the latest rows, the oldest first.
    seen, tested
        Rows seen, and rows tested.
    since_alarm
        Rows since the last change was found.
    found
        A change that is not told yet.
    """

    detector: Detector
    last: Float[np.ndarray, " r"]
    sizes: Float[np.ndarray, "r 3"]
    means: Float[np.ndarray, " r"]
    latest: Float[np.ndarray, "kept columns"]
    centre: float = 0.0
    repeats: float = 0.0
    seen: int = 0
    tested: int = 0
    since_alarm: int = REST
    found: Found | None = None

    @classmethod
    def start(cls) -> "MoveTests":
        """Return the tests before the first row."""
        sizes = np.tile([0.0, 1.0, 1.0], (KINDS, 1))
        latest = np.full((KEPT, _COLUMNS), np.nan)
        return cls(Detector.start(KINDS * _EACH), np.full(KINDS, np.nan), sizes, np.full(KINDS, np.nan), latest)

    def restart(self, found: Found | None, told: bool) -> "MoveTests":
        """Return the tests after an alarm, or after a change was found, which is told by now or is not."""
        start = np.nan if found is None else found.start
        since = self.latest[self.latest[:, ROW] >= start, FIRST_SCORE : FIRST_SCORE + KINDS]
        means = np.median(since, axis=0) if len(since) else np.zeros(KINDS)
        known = np.array([_share(product, square, self.tested) for product, square, _ in self.sizes.tolist()])
        means = means * (1.0 - known[:, 0]) / known[:, 1] / np.sqrt(np.maximum(self.sizes[:, 2], 1.0))
        sizes = self.sizes.copy()
        # The errors are expected to stay as large as they have become.
        if found is not None and found.kind != "level" and len(since):
            typical = np.median(np.abs(since), axis=0) / USUAL_SIZE
            sizes[:, 2] = np.maximum(sizes[:, 2], np.square(typical))
        return replace(
            self,
            detector=self.detector.restart(),
            sizes=sizes,
            means=means,
            since_alarm=0,
            found=None if told else found,
        )

    def told(self) -> "MoveTests":
        """Return the tests after the change that was found was told."""
        return replace(self, found=None)

    def update(self, rows: "MovedRows", tested: bool) -> tuple["MoveTests", dict[str, Column]]:
        """Return the tests after rows, and each kind's log M after each; not `tested`, only repeats are learnt."""
        run = _Run(self)
        n = len(rows.rows)
        news, means = np.zeros((n, KINDS)), np.full((n, KINDS), np.nan)
        sides, live, told = np.zeros(n), np.zeros(n, bool), None
        lists = (rows.scores, rows.predicted, rows.repeats, rows.errors)
        for i, (z, predicted, repeat, error) in enumerate(zip(*(a.tolist() for a in lists), strict=True)):
            sides[i] = run.side(predicted)
            if run.is_due(error) and told is None:
                told = i
            if run.repeat(repeat) or not tested:
                continue
            live[i], means[i] = run.is_live, run.means
            news[i] = run.step(z)
        bets = _bets(news[live], means[live], sides[live])
        detector, log_sums = self.detector.update(bets, rows.rows[live])
        path = np.full((n, bets.shape[1]), -np.inf)
        path[live] = log_sums
        times = np.full(n, np.nan) if rows.times is None else rows.times
        new = np.column_stack([rows.rows, times, rows.errors, rows.deviations, rows.scores, sides])
        after = run.after(replace(self, detector=detector, latest=np.vstack([self.latest, new])[-KEPT:]))
        paths = {kind: log_mean(path[:, where]) for kind, where in BETS.items()}
        if self.found is not None and told is not None:
            paths[self.found.kind][told] = self.found.log_sum
        return after, paths

    def find(self, kind: str, log_sum: float) -> Found:
        """Return the change of a kind that the evidence speaks for."""
        where = BETS[kind]
        best = where[int(np.argmax(self.detector.log_sums[where]))]
        start, reference = float(self.detector.starts[best]), best // _EACH
        since = self.latest[self.latest[:, ROW] >= start] if np.isfinite(start) else self.latest[-1:]
        within = float(0.5 * np.median(np.abs(since[:, FIRST_OFF + reference])))
        followed = not abs(since[-1, ERROR]) > within
        return Found(kind, reference, log_sum, start, within, len(since) - 1, followed)


@dataclass(frozen=True)
class MovedRows:
    """Rows to test.

    Attributes
    ----------
    rows, times
        Their numbers, and their times if they have some.
    errors, predicted
        Of the model: target less mean, and the mean.
    deviations, scores
        Of the references: target less mean, and the same in standard deviations (n, KINDS).
    repeats
        Whether each target is the one before.
    """

    rows: Column
    times: Column | None
    errors: Column
    predicted: Column
    deviations: Float[np.ndarray, "n r"]
    scores: Float[np.ndarray, "n r"]
    repeats: np.ndarray


class _Run:
    """The fields of `MoveTests` while rows pass by, as plain numbers."""

    def __init__(self, tests: MoveTests) -> None:
        self.last, self.sizes, self.means = tests.last.tolist(), tests.sizes.tolist(), tests.means.tolist()
        self.centre, self.repeats = tests.centre, tests.repeats
        self.seen, self.tested, self.since_alarm = tests.seen, tests.tested, tests.since_alarm
        self.found = tests.found

    def after(self, tests: MoveTests) -> MoveTests:
        """Return the tests with what is known by now."""
        return replace(
            tests,
            last=np.array(self.last),
            sizes=np.array(self.sizes),
            means=np.array(self.means),
            centre=self.centre,
            repeats=self.repeats,
            seen=self.seen,
            tested=self.tested,
            since_alarm=self.since_alarm,
            found=self.found,
        )

    @property
    def is_live(self) -> bool:
        """Return whether the next row is bet on."""
        return self.since_alarm >= REST and self.tested >= FIRST

    def side(self, predicted: float) -> float:
        """Return on which side of its mean so far a prediction is, and learn it."""
        off = predicted - self.centre
        self.centre += off / min(self.seen + 1.0, CENTRE_MEMORY)
        return copysign(1.0, off) if self.seen and off else 0.0

    def is_due(self, error: float) -> bool:
        """Return whether the change that was found is to be told at a row with this error of the model."""
        if self.found is None:
            return False
        followed = self.found.followed or not abs(error) > self.found.within
        self.found = replace(self.found, rows=self.found.rows + 1, followed=followed)
        return self.found.is_due

    def repeat(self, repeat: bool) -> bool:
        """Return whether a target is an unusual repeat, and learn whether it is one."""
        unusual = repeat and self.repeats < REPEATS
        self.seen += 1
        self.repeats += (repeat - self.repeats) / min(self.seen + 1.0, CENTRE_MEMORY)
        return unusual

    def step(self, z: list[float]) -> list[float]:
        """Return what is new in the scores of a row, in its usual size, and learn what is usual."""
        found = []
        rows = min(self.tested, CORRELATION_MEMORY)
        for r, value in enumerate(z):
            last, mean, (product, square, size) = self.last[r], self.means[r], self.sizes[r]
            share, left = _share(product, square, self.tested)
            new = value if isnan(last) else (value - share * last) / left
            new = min(max(new, -LARGEST), LARGEST) / sqrt(max(size, 1.0))
            found.append(new)
            self.last[r] = value
            if rows:
                now, before = min(max(value, -3.0), 3.0), min(max(last, -3.0), 3.0)
                self.sizes[r][0] += (now * before - product) / rows
                self.sizes[r][1] += (0.5 * (now * now + before * before) - square) / rows
            off, memory = (new, min(self.tested + AS_EXPECTED, MEMORY)) if isnan(mean) else (new - mean, MEMORY_AFTER)
            self.sizes[r][2] += (min(off * off, ORDINARY**2) * max(size, 1.0) / _SHARE - size) / memory
            if not isnan(mean):
                low, high = min(mean, 0.0) - MOST_STEP, max(mean, 0.0) + MOST_STEP
                mean += (min(max(new, low), high) - mean) / MEAN_MEMORY
                self.means[r] = mean if self.since_alarm < REST or abs(mean) > BACK else nan
        self.tested += 1
        self.since_alarm += 1
        return found


def _share(product: float, square: float, rows: int) -> tuple[float, float]:
    """Return how much of an error goes over into the next, and the size of the rest, in units of that of the errors.

    It is less what it may be by chance; of the first rows that is not taken off, since too much is safer than too
    little.
    """
    if not rows or square <= 0.0:
        return 0.0, 1.0
    correlation = min(product / square, MOST_SHARE)
    share = correlation - CHANCE * min(rows / CORRELATION_MEMORY, 1.0)
    return (share, sqrt(1.0 + share * (share - 2.0 * correlation))) if share > 0.0 else (0.0, 1.0)


def _bets(news: Float[np.ndarray, "n r"], means: Float[np.ndarray, "n r"], sides: Column) -> Bets:
    """Return the log bets on what is new in the scores, of each reference in turn.

    Of a reference that is off a level is beyond all from its mean to zero, and nothing else can be told.
    """
    every = []
    for new, mean in zip(news.T, means.T, strict=True):
        is_off = ~np.isnan(mean)
        high, low = np.fmax(mean, 0.0) + TOLERATED, np.fmin(mean, 0.0) - TOLERATED
        every += [np.minimum(SHIFT * off - 0.5 * SHIFT**2, CAP) for off in (new - high, low - new)]
        sided = new * sides
        slopes = [SHIFT * (off - TOLERATED) - 0.5 * SHIFT**2 for off in (sided, -sided)]
        scale = 0.5 * (1.0 - RATIO**-2.0) * np.square(new / TOLERATED_RATIO) - np.log(RATIO)
        others = [*(np.minimum(slope, SLOPE_CAP) for slope in slopes), np.minimum(scale, SCALE_CAP)]
        every += [np.where(is_off, NO_BET, bets) for bets in others]
    return np.stack(every, axis=1)
