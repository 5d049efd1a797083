"""Times of rows as users pass them: dates and numbers to seconds, and whether one jumps."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.table import cells
from streamgp.table.clock import Jump, Pace, judge, judge_one, say_jump
from streamgp.table.containers import to_array
from streamgp.table.dates import Order, advise_on_date
from streamgp.table.given import as_numbers
from streamgp.table.numbers import is_missing_number


class JumpError(ValueError):
    """A time is far from that of the row before."""


def as_times(times: Any, rows: int, order: Order = "") -> np.ndarray | None:
    """Return numbers as they are, dates as seconds since 1970, and NaN where there is no telling.

    `order` is what dates of text begin with that have the year at their end.
    """
    if times is None:
        return None
    given = to_array(times)
    if given.shape != (rows,):
        raise ValueError(f"times: expected {rows} of them, one per row, got shape {given.shape}")
    if given.dtype.kind in "mM":
        nanoseconds = given.astype(f"{given.dtype.kind}8[ns]").astype(np.int64)
        return np.where(np.isnat(given), np.nan, nanoseconds / 1e9)
    if given.dtype.kind == "c":
        as_numbers("times", times)
    try:
        return given.astype(np.float64)
    except OverflowError:
        as_numbers("times", given)
        raise
    except (TypeError, ValueError):
        found = cells.to_seconds(given.tolist(), order)
        if rows and np.isnan(found).all() and advise_on_date(given[0]) is not None:
            raise ValueError(f"times: {cells.say_no_time(given.tolist()[0])}") from None
        return found


def unreadable(times: np.ndarray, given: Any) -> str | None:
    """Say of the first text that `as_times` could not read what was expected, and where; None where it read all."""
    lost = np.flatnonzero(np.isnan(times)).tolist()
    texts = ((row, to_array(given).tolist()[row]) for row in lost)
    bad = ((row, text) for row, text in texts if isinstance(text, str) and not is_missing_number(text))
    return next((cells.say_no_time(text, where=f" at row {row}") for row, text in bad), None)


def are_dates(times: Any) -> bool:
    """Return whether times are dates, of any type, rather than numbers."""
    if times is None:
        return False
    given = np.asarray(times)
    if given.dtype.kind in "mfiub" or not given.size:
        return False
    try:
        float(given.flat[0])
    except (TypeError, ValueError):
        return True
    return given.dtype.kind == "M"


def judge_times(
    estimator: Any, times: np.ndarray, last: float, rows: np.ndarray, begins: bool, dated: bool
) -> tuple[Pace, np.ndarray, str | None]:
    """Return how far apart rows are, which to keep, not those whose time is in doubt, and what is wrong with these.

    A time that is refused is remembered, so that the row after it may speak for it.
    """
    skip, pace = estimator.missing == "skip", Pace() if begins else estimator._pace
    verdict = judge(times, last, pace, dated=dated, together=not skip)
    jump = verdict.first
    if jump is not None and not skip:
        estimator._pace = replace(pace, doubted=verdict.pace.doubted)
        raise ValueError(f"times: row {rows[jump.row]}: {_refusal(jump, dated)}")
    fault = None if jump is None else f"row {rows[jump.row]}, times: {say_jump(jump, dated)}"
    return verdict.pace, ~verdict.doubtful, fault


def _refusal(jump: Jump, dated: bool) -> str:
    return f"{say_jump(jump, dated)}; correct the row, or leave such rows out (missing='skip')"


def follow_time(estimator: Any, time: Any, at: float) -> None:
    """Judge the time of one row that is learnt next, by itself and as `at`, a number.

    Raises
    ------
    JumpError
        If it is in doubt.
    """
    last = estimator._learner.last_time
    dated = are_dates([time])
    verdict = judge_one(at, -np.inf if last is None else last, estimator._pace, dated=dated)
    estimator._pace = verdict.pace
    if verdict.first is not None:
        raise JumpError(f"time: {_refusal(verdict.first, dated)}")
