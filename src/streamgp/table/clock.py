"""Times that do not go on as the clock of a stream did: values that jump far beyond the usual step.

A stream's usual step is the median of its last steps. A time that is more than 1,000 such steps away from the one
before, and more than a year (of dates and of numbers that count from 1970; of other numbers a million steps), is in
doubt, and so is one that is the next time in another unit, as milliseconds among seconds. The row is refused or left
out, and the clock stays where it was. If the row after it goes on from there, the stream did jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int

FAR = 1_000.0  # usual steps that a gap may have whatever its length
_FAR_OF_NUMBERS = 1_000_000.0  # usual steps that a gap may have where the unit is not known
_NEXT = 2.0  # usual steps within which a number in another unit is the next one
_YEAR = 366 * 86_400.0
_BLOCK = 64  # steps whose median is the usual one
_EARLY = (1, 2, 4, 8, 16, 32)  # steps after which a stream that begins has one already
_FIRST, _LAST = 946_684_800.0, 4_102_444_800.0  # 2000 and 2100, in seconds since 1970
# Of what counts from 1970.
_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
_SPANS = (("year", 365.25 * 86_400.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0), ("second", 1.0))


@dataclass(frozen=True)
class Pace:
    """How far apart the rows of a stream usually are; no method changes it.

    Attributes
    ----------
    usual
        The usual step, NaN while it is not known.
    steps
        Steps since `usual` was last found anew.
    settled
        Whether it comes from as many steps as ever.
    doubted
        The time of the last row of each key, if it was in doubt.
    """

    usual: float = np.nan
    steps: tuple[float, ...] = ()
    settled: bool = False
    doubted: dict[int, float] = field(default_factory=dict)

    def after(self, steps: Float[np.ndarray, " n"]) -> Self:
        """Return what is known after these steps; those that are none count for nothing."""
        return self._through(steps)[0]

    def is_due(self, count: int) -> bool:
        """Return whether the usual step is found anew after so many more steps."""
        total = len(self.steps) + count
        return total == _BLOCK or (not self.settled and total in _EARLY)

    def least(self, steps: Float[np.ndarray, " n"]) -> float:
        """Return the smallest usual step on the way through these, infinite while none is known."""
        return self._through(steps)[1]

    def _through(self, steps: Float[np.ndarray, " n"]) -> tuple[Self, float]:
        every = np.concatenate([self.steps, steps[steps > 0.0]])
        whole = len(every) // _BLOCK * _BLOCK
        found = [] if np.isnan(self.usual) else [self.usual]
        if not self.settled:
            found += [float(np.median(every[:n])) for n in _EARLY if len(self.steps) < n <= len(every)]
        found += np.median(every[:whole].reshape(-1, _BLOCK), axis=1).tolist()
        settled = self.settled or whole > 0
        usual = found[-1] if found else np.nan
        new = replace(self, usual=usual, steps=tuple(every[whole:].tolist()), settled=settled)
        return new, min(found, default=np.inf)

    def to_tree(self) -> dict[str, Any]:
        """Return plain values, for a checkpoint."""
        doubted = [[key, time] for key, time in self.doubted.items()]
        return {"usual": self.usual, "steps": list(self.steps), "settled": self.settled, "doubted": doubted}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        """Return the steps that `to_tree` stored."""
        doubted = {int(key): float(time) for key, time in tree["doubted"]}
        return cls(float(tree["usual"]), tuple(tree["steps"]), bool(tree["settled"]), doubted)


class Jump(NamedTuple):
    """A time in doubt: the number of its row, the time, that of the row before, and the usual step."""

    row: int
    time: float
    before: float
    usual: float


class Verdict(NamedTuple):
    """What is in doubt of rows.

    Attributes
    ----------
    doubtful
        Which rows are.
    jumps
        What is wrong with each of them.
    pace
        What is known after the rows.
    """

    doubtful: Bool[np.ndarray, " n"]
    jumps: list[Jump]
    pace: Pace

    @property
    def first(self) -> Jump | None:
        """Return the first row in doubt; None where there is none."""
        return self.jumps[0] if self.jumps else None


_NONE = np.zeros(1, bool)


def judge(
    times: Float[np.ndarray, " n"],
    last: float | Float[np.ndarray, " k"],
    pace: Pace,
    *,
    dated: bool,
    keys: Int[np.ndarray, " n"] | None = None,
    together: bool = False,
) -> Verdict:
    """Find the rows whose time is in doubt.

    Parameters
    ----------
    times
        Of rows in their order, finite.
    last
        The last time before them, of each key; infinite where there is none.
    pace
        What is known before them.
    dated
        Whether times are dates, in seconds since 1970.
    keys
        The number of the key of each row; None: all have the same one.
    together
        Whether a row in doubt is believed if the one after it is among these rows and goes on from there. Else it
        stays in doubt, as in a stream that comes row by row.
    """
    key = np.zeros(len(times), np.int64) if keys is None else keys
    latest = np.array(last, dtype=np.float64).reshape(-1)
    none = np.zeros(len(times), bool)
    steps = steps_between(times, key, latest)
    is_usual = np.abs(steps).max(initial=0.0) <= FAR * pace.least(np.abs(steps))
    if is_usual and not pace.doubted and not (steps < 0.0).any():
        return Verdict(none, [], pace.after(steps))
    return _judge_each(times, key, latest, pace, dated, together)


def judge_one(time: float, last: float, pace: Pace, *, dated: bool) -> Verdict:
    """Return what `judge` does of a single row, in less time; `last` is infinite before the first."""
    if pace.doubted or time < last or time - last > FAR * pace.usual:
        return judge(np.array([time]), last, pace, dated=dated)
    if time == last or last == -np.inf:
        new = pace
    elif pace.is_due(1):
        new = pace.after(np.array([time - last]))
    else:
        new = replace(pace, steps=(*pace.steps, time - last))
    return Verdict(_NONE, [], new)


def steps_between(
    times: Float[np.ndarray, " n"], key: Int[np.ndarray, " n"], latest: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " n"]:
    """Return the step to each row from the one before of its key, 0 to a first row."""
    order = np.argsort(key, kind="stable")
    own, sorted_times = key[order], times[order]
    begins = np.r_[True, own[1:] != own[:-1]][: len(own)]
    before = np.where(begins, latest[own], np.r_[-np.inf, sorted_times[:-1]][: len(own)])
    steps = np.empty(len(times))
    steps[order] = np.where(np.isfinite(before), sorted_times - before, 0.0)
    return steps


def _judge_each(
    times: Float[np.ndarray, " n"],
    key: Int[np.ndarray, " n"],
    latest: Float[np.ndarray, " k"],
    pace: Pace,
    dated: bool,
    together: bool,
) -> Verdict:
    doubtful, jumps = np.zeros(len(times), bool), {}
    doubted, at = dict(pace.doubted), {}  # `at`: where among these rows the time in doubt of a key is
    last, steps, usual = latest.tolist(), [], pace.usual
    for i, (time, k) in enumerate(zip(times.tolist(), key.tolist(), strict=True)):
        before = last[k]
        far = is_far(before, time, usual, dated)
        goes_on = far and _goes_on(before, doubted.get(k), time, usual, dated)
        if far and not goes_on:
            doubtful[i], jumps[i] = True, Jump(i, time, before, usual)
            doubted[k], at[k] = time, i
            continue
        if goes_on and together and k in at:
            doubtful[at[k]] = False
        if time < before and not far:
            continue  # times that go back are refused elsewhere
        doubted.pop(k, None)
        at.pop(k, None)
        if time >= before:
            last[k] = time
            if time > before > -np.inf and not far:
                steps.append(time - before)
                if pace.is_due(len(steps)):
                    pace, steps = pace.after(np.array(steps)), []
                    usual = pace.usual
    pace = replace(pace.after(np.array(steps)), doubted=doubted)
    return Verdict(doubtful, [jumps[i] for i in np.flatnonzero(doubtful).tolist()], pace)


def is_far(before: float, time: float, usual: float, dated: bool) -> bool:
    """Return whether a time is further from the one before than a gap in a stream can be."""
    step = abs(time - before)
    if not np.isfinite(step) or not step > FAR * usual:
        return False
    unit = _unit(before, dated)
    if step > (_FAR_OF_NUMBERS * usual if unit is None else _YEAR * 1e3**unit):
        return True
    return bool(mixed_unit(before, time, usual, dated))


def mixed_unit(before: float, time: float, usual: float, dated: bool) -> str:
    """Say in which other unit a time is the next one, as "milliseconds among seconds"; "" if in none."""
    if before <= 0.0 or time <= 0.0:
        return ""
    own = _unit(before, dated)
    for power in (1, 2, 3):
        for factor, up in ((1e3**power, power), (1e-3**power, -power)):
            if own is None and abs(time / factor - before) <= _NEXT * usual:
                return (
                    f"{10 ** (3 * power):,} times the next time"
                    if up > 0
                    else f"the next time divided by {10 ** (3 * power):,}"
                )
            if own is not None and 0 <= own + up < len(_UNITS) and abs(time / factor - before) <= FAR * usual:
                return f"{_UNITS[own + up]} among {_UNITS[own]}"
    return ""


def _unit(time: float, dated: bool) -> int | None:
    """Return in which of the units a time counts from 1970; None of a number that does not seem to."""
    if dated:
        return 0
    return next((i for i in range(len(_UNITS)) if _FIRST <= time / 1e3**i <= _LAST), None)


def _goes_on(before: float, doubted: float | None, time: float, usual: float, dated: bool) -> bool:
    """Return whether a time goes on from one in doubt: after it, and no further than that was from the one before.

    What counts from 1970 cannot go on in another unit.
    """
    if doubted is None or (time > before) != (doubted > before):
        return False
    if _unit(before, dated) is not None and mixed_unit(before, time, usual, dated):
        return False
    return 0.0 < time - doubted <= abs(doubted - before)


def say_jump(jump: Jump, dated: bool) -> str:
    """Say what is wrong with a time in doubt, and what to do, for whatever takes rows."""
    time, before, usual = jump.time, jump.before, jump.usual
    unit = _unit(before, dated)
    mixed = mixed_unit(before, time, usual, dated)
    if unit is None:
        far, apart = f"{abs(time - before):.10g}", f"{usual:.10g}"
    else:
        far, apart = (_say_span(span / 1e3**unit) for span in (abs(time - before), usual))
    which = "after" if time > before else "before"
    hint = f"; it looks like {mixed}" if mixed else ""
    advice = (
        "if the clock did jump, leave this row out: one that goes on from there is taken"
        if time > before
        else "if the rows are out of order, sort them by time"
    )
    return (
        f"expected times that go on as the rows before, which usually come {apart} apart, got "
        f"{_say_time(time, dated)}, {far} {which} {_say_time(before, dated)}{hint} ({advice})"
    )


def _say_time(time: float, dated: bool) -> str:
    if dated:
        try:
            return datetime.fromtimestamp(time, UTC).isoformat()
        except (OverflowError, ValueError, OSError):  # a year of five digits
            return f"{time:.15g} seconds since 1970"
    return f"{time:.15g}"


def _say_span(seconds: float) -> str:
    name, size = next(((name, size) for name, size in _SPANS if seconds >= size), _SPANS[-1])
    count = f"{seconds / size:,.3g}" if seconds / size < 1000 else f"{seconds / size:,.0f}"
    return f"{count} {name}{'' if count == '1' else 's'}"


def blamed(times: Sequence[float] | Float[np.ndarray, " n"], row: int, dated: bool) -> Jump | None:
    """Return the row before one that steps back, if that row jumped rather than this one went back.

    For rows of which nothing is known but themselves.
    """
    around = [time for i, time in enumerate(times) if i != row - 1][max(row - 2, 0) : row + 1]
    usual = [b - a for a, b in pairwise(around) if b > a]
    before = times[row - 2] if row > 1 else times[row]
    if not usual or before > times[row] or not is_far(before, times[row - 1], usual[0], dated):
        return None
    return Jump(row - 1, float(times[row - 1]), float(before), usual[0])
