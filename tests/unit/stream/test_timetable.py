"""Steps of a clock that had no row, beside a loop that goes through the steps one by one."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from streamgp.stream.passed_rows import LONGEST, PassedRows
from streamgp.stream.timetable import Timetable

HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0
MONDAY = 1_704_067_200.0  # 2024-01-01


def hours(n: int, step: float = HOUR) -> np.ndarray:
    return MONDAY + step * np.arange(n)


def thinned(times: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    keep = np.random.default_rng(seed).random(len(times)) >= share
    keep[[0, -1]] = True
    return times[keep]


def of(times: np.ndarray) -> Timetable:
    found = Timetable.of(np.sort(times))
    assert found is not None
    return found


def by_hand(steps: list[float], is_open: Callable[[float], bool]) -> list[int]:
    """Go through the steps one by one: the clock has a place, and the stream a length, which misses what it lacks."""
    missed, place, length, last = [], 0, 0, steps[0]
    for step in steps:
        while step == step and last != step:
            place += is_open(last + 1) if step > last else -is_open(last)
            last += 1 if step > last else -1
        missed.append(max(place - length, 0))
        length += missed[-1] + 1
    return missed


@pytest.mark.parametrize(
    ("is_open", "cycle"),
    [(lambda step: True, 168), (lambda step: step // 24 % 7 < 5, 120), (lambda step: step % 24 < 20, 140)],
)
def test_rows_in_any_order_are_those_of_a_loop(is_open: Callable[[float], bool], cycle: int):
    rng = np.random.default_rng(3)
    usual = np.array([step for step in range(1_500) if is_open(step)])
    timetable = of(MONDAY + HOUR * usual)
    assert timetable.cycle == cycle
    steps = usual[rng.random(len(usual)) >= 0.1].astype(float)
    steps[50:200] += rng.integers(-3, 4, 150)
    steps[rng.integers(200, len(steps), 20)] = np.nan
    missed, after = timetable.along(MONDAY + HOUR * steps)
    expected = by_hand(steps.tolist(), is_open)
    assert_array_equal(missed, expected)
    assert after.missed == sum(expected) > 50


@pytest.mark.parametrize("share", [0.0, 0.01, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("step", [HOUR, 1800.0, DAY, 600.0])
def test_the_steps_that_were_missed_are_counted(share: float, step: float):
    times = thinned(hours(1000, step), share)
    timetable = of(times)
    missed, after = timetable.along(times)
    assert_array_equal(missed, np.rint(np.diff(times, prepend=times[0] - step) / step) - 1)
    assert (after.last, after.ahead, after.missed) == (times[-1], 0, 1000 - len(times))
    assert not len(timetable.is_open) and timetable.step == step
    assert timetable.cycle == {HOUR: 168, 1800.0: 336, DAY: 7, 600.0: 144}[step]


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize(
    ("step", "is_open", "cycle"),
    [
        (DAY, lambda t: t // DAY % 7 not in (2, 3), 5),  # 1970 began on a Thursday
        (HOUR, lambda t: t // DAY % 7 not in (2, 3) and 9 <= t % DAY // HOUR <= 17, 45),
        (HOUR, lambda t: t % DAY // HOUR < 20, 140),
        (DAY, lambda t: t // DAY % 7 != 3, 6),
    ],
)
def test_closed_steps_are_not_missed(share: float, step: float, is_open, cycle: int):
    times = np.array([t for t in hours(4_000 if step == HOUR else 900, step) if is_open(t)])
    came = thinned(times, share)
    timetable = of(came)
    assert timetable.cycle == cycle
    missed, after = timetable.along(came)
    assert_array_equal(missed, np.diff(np.searchsorted(times, came), prepend=-1) - 1)
    assert after.missed == len(times) - len(came)
    later = times[-1] + step * np.arange(1, 400)
    later = np.array([t for t in later if is_open(t)])
    assert_array_equal(after.before_each(later), np.arange(len(later)))


def test_any_pieces_count_the_same_and_single_rows_too():
    rng = np.random.default_rng(1)
    times = thinned(hours(600), 0.1)
    times[50:52] = times[51:49:-1]  # out of order
    times[80] = times[79]
    times[100] += 3e9  # ahead by years, once
    times[[130, 131, 200]] = np.nan
    timetable = of(thinned(hours(600), 0.1))
    whole, after = timetable.along(times)
    parts, now, at = [], timetable, 0
    while at < len(times):
        size = int(rng.integers(1, 9))
        found, now = now.along(times[at : at + size])
        parts.append(found)
        at += size
    assert_array_equal(np.concatenate(parts), whole)
    assert now == after or all(getattr(now, k) == getattr(after, k) for k in ("last", "ahead", "missed"))
    now = timetable
    for i, time in enumerate(times):
        assert now.before_each(times[i : i + 1])[0] == whole[i]
        if now.follows(now.last, float(time)):
            assert whole[i] == 0
        found, then = now.along(times[i : i + 1])
        if now.follows(now.last, float(time)):
            assert (then.ahead, then.missed) == (now.ahead, now.missed)
        now = then


def test_rows_out_of_order_and_twice_make_up_for_what_was_missed():
    timetable = of(hours(200))
    steps = np.array([0, 1, 3, 2, 4, 5, 5, 6, 9, 10.0])
    missed, after = timetable.along(MONDAY + HOUR * steps)
    # After 3 came late 2, and 5 came twice: of the steps 7 and 8 these two rows stand for both.
    assert missed.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0] and after.ahead == 0
    assert after.missed == 1


def test_a_long_way_keeps_its_place_in_the_week():
    timetable = of(hours(500))
    _, now = timetable.along(hours(500))
    for steps in (1_200, 100_000, 2_000_000):
        missed, after = now.along(now.last + HOUR * np.array([steps, steps + 1.0]))
        assert 0 <= missed[0] < LONGEST and (missed[0] + 1 - steps) % 168 == 0 and missed[1] == 0
        assert missed[0] >= LONGEST - 168 and after.missed == steps - 1
    # A row of another century, and back: the place is right again.
    missed, after = now.along(now.last + HOUR * np.array([876_000.0, 1.0, 2.0]))
    assert (missed.sum() + 3 - 2) % 168 == 0 and missed[2] == 0
    assert after.ahead == 0


def test_months_are_steps_and_clocks_that_are_none_have_no_timetable():
    months = np.arange("2000-01", "2020-01", dtype="datetime64[M]").astype("datetime64[s]").astype(float)
    keep = np.ones(len(months), bool)
    keep[[30, 31, 100]] = False
    assert_array_equal(of(months[keep]).along(months[keep])[0], np.diff(np.flatnonzero(keep), prepend=-1) - 1)
    rng = np.random.default_rng(0)
    assert Timetable.of(MONDAY + np.cumsum(rng.exponential(HOUR, 500))) is None
    assert Timetable.of(np.repeat(hours(100), 3)) is None
    assert Timetable.of(hours(4)) is None and Timetable.of(np.full(50, MONDAY)) is None
    numbers = np.delete(np.arange(300.0), [40, 41, 90])
    assert of(numbers).along(numbers)[0].sum() == 3 and of(numbers).cycle == 1


def test_a_shaky_clock_misses_nothing():
    rng = np.random.default_rng(0)
    times = hours(2_000) + rng.uniform(-300.0, 300.0, 2_000)
    missed, after = of(times).along(times)
    assert not missed.any() and after.ahead == 0
    working = times[~np.isin(hours(2_000) // DAY % 7, [2, 3])]
    assert of(working).along(working)[1].missed <= 1


def test_missed_steps_join_the_rows_without_a_target():
    passed = PassedRows.none().add(2, 1).add(5, 3)
    assert passed.before_each(8).tolist() == [0, 0, 1, 0, 0, 3, 0, 0]
    joined = passed.with_missed(np.array([7, 0, 2, 1, 0, 0, 0, LONGEST + 5]))
    assert joined.before_each(8).tolist() == [0, 0, 3, 1, 0, 3, 0, LONGEST]
    times = np.delete(hours(100), [10, 11, 12, 40])
    rows = np.ones(96, np.int64)
    rows[10] += 2  # of the three, two came without a target
    assert np.flatnonzero(of(times).along(times, rows)[0]).tolist() == [10, 37]
    assert of(times).along(times, rows)[0].sum() == 2


def test_a_clock_without_an_open_step_is_refused():
    with pytest.raises(ValueError, match="a clock with open steps"):
        Timetable(HOUR, np.zeros(24, bool), 0.0, 24).check_restored()
