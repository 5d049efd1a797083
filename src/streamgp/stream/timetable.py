"""Which steps of a stream's clock usually have a row, and how many passed without one before each row that comes."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.checkpoint.encoding import register
from streamgp.stream.clock import DAY, HOUR, MINUTE, WEEK, is_dated, is_steady
from streamgp.stream.passed_rows import LONGEST

FEWEST = 8  # rows that show a clock
MOST_SHARED = 0.1  # of the rows may have the time of another: where more do, they are not one row for each step
WHOLE, MOST_WHOLE = 0.25, 0.9  # so near to whole steps are most gaps
MOST_STEPS = 10_080  # of a cycle with closed steps: the minutes of a week
SHOWN = 2  # whole cycles that show which steps are closed
CYCLES = MINUTE, HOUR, DAY, WEEK
ALIKE = 0.005  # by which a step may differ from a whole part of one of these
FARTHEST = 1e12  # steps from one row to the next


@register
@dataclass(frozen=True)
class Timetable:
    """The steps of a clock, and how far they have come; no method changes it.

    A step is open where a row usually comes: rows of working days have no Sundays to miss. Rows and clock are
    compared from the first row on, so that rows out of order, or two of one time, make up for steps taken as missed.

    Attributes
    ----------
    step
        The usual time from one row to the next, in units of the clock.
    is_open
        Of the steps of a week, or of a day, which are open; empty where all are.
    start
        A time at which the first of those lies.
    cycle
        After so many open steps the clock is where it was in its week, day or hour: gaps of more than `LONGEST` steps
        are shortened by whole ones.
    last
        The time of the last row that came; NaN before the first.
    ahead
        By how many rows, those that were missed among them, the stream is ahead of the clock.
    missed
        The number of open steps so far that had no row.
    """

    step: float
    is_open: Bool[np.ndarray, " p"]
    start: float
    cycle: int
    last: float = np.nan
    ahead: int = 0
    missed: int = 0

    @classmethod
    def of(cls, times: Float[np.ndarray, " n"]) -> "Timetable | None":
        """Return the timetable of rows with these times, ascending, before the first; None of an unsteady clock."""
        every = np.diff(times)
        gaps = every[every > 0.0]
        if len(times) < FEWEST or np.mean(every <= 0.0) > MOST_SHARED or not is_steady(times):
            return None
        usual = float(np.median(gaps))
        step = float(np.mean(gaps[np.abs(gaps / usual - 1.0) <= WHOLE]))
        if np.mean(np.abs(gaps / step - np.rint(gaps / step)) <= WHOLE) < MOST_WHOLE:
            return None
        if not is_dated(times):
            return cls(step, np.zeros(0, bool), 0.0, 1)
        step = next((part for cycle in CYCLES if (part := _part(cycle, step))), step)
        lengths = {cycle: round(cycle / step) for cycle in CYCLES if cycle >= 2.0 * step and _part(cycle, step)}
        start = step * float(np.angle(np.mean(np.exp(2j * np.pi * times / step)))) / (2.0 * np.pi)
        is_open = np.zeros(0, bool)
        shown = [cycle for cycle in (WEEK, DAY) if cycle in lengths and SHOWN * cycle <= np.ptp(times) + step]
        if shown:
            is_open = _open(np.rint((times - start) / step).astype(np.int64), lengths[shown[0]])
        each = [int(is_open.sum())] if len(is_open) else sorted(lengths.values(), reverse=True)
        return cls(step, is_open, start, next((n for n in each if n <= LONGEST), 1))

    def restarted(self) -> "Timetable":
        """Return the same before the first row."""
        return replace(self, last=np.nan, ahead=0, missed=0)

    def check_restored(self) -> None:
        """Raise ValueError if there is no step, or no open one."""
        if not (
            self.step > 0.0 and self.cycle > 0 and self.ahead >= 0 and (self.is_open.any() or not len(self.is_open))
        ):
            raise ValueError(f"expected a clock with open steps, got one of {self.step}, in cycles of {self.cycle}")

    def follows(self, last: float, time: float) -> bool:
        """Return whether a row comes at the first open step after a time, for a quick look at single rows."""
        if not len(self.is_open):
            return 0.5 < (time - last) / self.step < 1.5
        if not (abs(time) < np.inf and abs(last) < np.inf):
            return False
        at = round((time - self.start) / self.step)
        return at - round((last - self.start) / self.step) == 1 and bool(self.is_open[at % len(self.is_open)])

    def before_each(self, times: Float[np.ndarray, " n"], waiting: int = 0) -> Int[np.ndarray, " n"]:
        """Return how many open steps had no row before each row, were it the next one after so many that wait."""
        known = np.isfinite(times) & np.isfinite(self.last)
        steps = np.zeros(len(times), np.int64)
        steps[known] = self._shortened(self._steps(np.full(known.sum(), self.last), times[known]))
        return np.maximum(steps - 1 - self.ahead - waiting, 0)

    def along(
        self, times: Float[np.ndarray, " n"], rows: int | Int[np.ndarray, " n"] = 1
    ) -> "tuple[Int[np.ndarray, ' n'], Timetable]":
        """Return how many open steps had no row before each of the next rows, in order, and what is known after them.

        Parameters
        ----------
        times
            Of the rows; NaN where unknown, as if no time had passed.
        rows
            How many rows came with each, itself and those before it that have no time here.
        """
        known = np.flatnonzero(np.isfinite(times))
        steps, gaps = np.zeros(len(times), np.int64), np.zeros(len(times))
        if np.isnan(self.last):  # until there is a time, no row is ahead of it
            first = 1 + int(known[0]) if len(known) else len(times)
            steps[:first] = np.broadcast_to(rows, len(times))[:first]
            after = known[1:]
        else:
            after = known
        if len(after):
            came = times[known]
            gaps[after] = self._steps(np.concatenate([[self.last], came])[-len(after) - 1 : -1], came[-len(after) :])
            steps[after] = self._shortened(gaps[after])
        excess = self.ahead + np.cumsum(rows - steps)
        lowest = np.minimum.accumulate(np.concatenate([[0], excess]))
        missed = lowest[:-1] - lowest[1:]
        left_out = np.where(gaps > LONGEST, gaps - steps, 0.0)
        total = self.missed + int(missed[gaps >= 0.0].sum() + left_out.sum())
        last = float(times[known[-1]]) if len(known) else self.last
        ahead = int(excess[-1] - lowest[-1]) if len(times) else self.ahead
        return missed, replace(self, last=last, ahead=ahead, missed=total)

    def passed_to(self, time: float) -> "tuple[int, Timetable]":
        """Return how many open steps had no row before the next one, and what is known once they are passed over."""
        missed, after = self.along(np.array([time]))
        rows = int(missed[0])
        return rows, replace(self, ahead=self.ahead + rows, missed=after.missed) if rows else self

    def _steps(self, before: Float[np.ndarray, " n"], after: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return how many open steps lie after one time and not after another: whole numbers."""
        if not len(self.is_open):
            return np.clip(np.rint((after - before) / self.step), -FARTHEST, FARTHEST)
        return np.clip(self._place(after) - self._place(before), -FARTHEST, FARTHEST)

    def _place(self, times: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return which of the open steps the last one up to each time is."""
        whole, at = np.divmod(np.rint((times - self.start) / self.step), float(len(self.is_open)))
        return whole * self._counted[-1] + self._counted[at.astype(np.int64)]

    @cached_property
    def _counted(self) -> Float[np.ndarray, " p"]:
        return np.cumsum(self.is_open, dtype=np.float64)

    def _shortened(self, steps: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return steps that lie in the same place of the cycle, where they were too many, or far back."""
        ahead = steps - self.cycle * np.ceil((steps - LONGEST) / self.cycle)
        back = np.mod(steps - 1.0, self.cycle) + 1.0
        return np.where(steps > LONGEST, ahead, np.where(steps < -LONGEST, back, steps)).astype(np.int64)


def _part(cycle: float, step: float) -> float | None:
    """Return the whole part of a cycle that a step is; None if it is none."""
    parts = round(cycle / step)
    return cycle / parts if parts and abs(cycle / (parts * step) - 1.0) <= ALIKE else None


def _open(steps: Int[np.ndarray, " n"], length: int) -> Bool[np.ndarray, " p"]:
    """Return which steps of a cycle of so many are open; empty where all are, or the missing ones lie anywhere.

    Closed is what was missing more often than not, and by more than chance.
    """
    if length > MOST_STEPS:
        return np.zeros(0, bool)
    came = np.unique(steps)
    covered = np.bincount(np.arange(came[0], came[-1] + 1) % length, minlength=length)
    present = np.bincount(came % length, minlength=length)
    closed = present < 0.5 * (covered - np.sqrt(covered))
    missing = covered - present
    explained = missing[closed].sum()
    if 2 * explained < missing.sum() or explained <= present[closed].sum():
        return np.zeros(0, bool)
    return ~closed
