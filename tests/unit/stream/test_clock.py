"""Rows in a cycle of the calendar, by the times of the rows alone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from streamgp.stream.clock import DAY, HOUR, MINUTE, is_dated, is_steady, rows_by_cycle

START = datetime(2021, 3, 1, tzinfo=UTC).timestamp()


def seconds(moments: list[datetime]) -> np.ndarray:
    return np.array([each.timestamp() for each in moments])


@pytest.mark.parametrize(
    ("step", "rows", "found"),
    [
        (1.0, 8_000, (60, 3_600)),
        (MINUTE, 4_000, (60, 1_440)),
        (5 * MINUTE, 3_000, (12, 288, 2_016)),
        (15 * MINUTE, 2_000, (96, 672)),
        (0.5 * HOUR, 1_000, (48, 336)),
        (HOUR, 1_000, (24, 168)),
        (6 * HOUR, 1_000, (4, 28)),
        (DAY, 1_000, (7, 365)),
        (DAY, 300, (7,)),
        (7 * DAY, 200, (52,)),
        (3.3 * HOUR, 1_000, (7, 51)),  # 3.3 hours go 7.3 times into a day, to within half of them
        (400 * DAY, 100, ()),
        (0.01, 1_000, ()),
    ],
)
def test_rows_of_a_steady_clock(step: float, rows: int, found: tuple[int, ...]):
    assert rows_by_cycle(START + step * np.arange(rows)) == found


def test_months_and_quarters_have_any_length():
    months = [datetime(2000 + i // 12, 1 + i % 12, 1, tzinfo=UTC) for i in range(120)]
    assert rows_by_cycle(seconds(months)) == (12,)
    assert rows_by_cycle(seconds(months[::3])) == (4,)
    ends = [each - timedelta(days=1) for each in months[1:]]
    assert rows_by_cycle(seconds(ends)) == (12,)


def test_a_week_of_working_days_has_five_rows():
    days = [datetime(2021, 3, 1, tzinfo=UTC) + timedelta(days=i) for i in range(1_400)]
    found = rows_by_cycle(seconds([day for day in days if day.weekday() < 5]))
    assert found[0] == 5 and found[1:] in ((261,), (260,))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_summer_time_changes_nothing(zone: str):
    local = [datetime(2021, 3, 1, tzinfo=ZoneInfo(zone)) + timedelta(days=i) for i in range(500)]
    assert rows_by_cycle(seconds(local)) == (7, 365)  # days of 23 and 25 hours
    naive = [datetime(2021, 3, 1) + timedelta(hours=i) for i in range(3_000)]
    wall = np.array([each.replace(tzinfo=ZoneInfo(zone)).timestamp() for each in naive])
    assert rows_by_cycle(np.maximum.accumulate(wall)) == (24, 168)


def test_gaps_and_several_rows_at_a_time():
    rng = np.random.default_rng(0)
    times = START + HOUR * np.arange(2_000)
    some = times[rng.random(2_000) > 0.01]
    assert rows_by_cycle(some)[0] == 24
    outages = np.ones(2_000, bool)
    for at in (200, 700, 1_500):
        outages[at : at + 50] = False
    assert rows_by_cycle(times[outages]) == (24, 168)
    assert rows_by_cycle(np.repeat(times, 3)) == (72, 504)
    jittered = times + rng.normal(0.0, 60.0, size=2_000)
    assert rows_by_cycle(np.sort(jittered)) == (24, 168)


@pytest.mark.parametrize("seed", range(3))
def test_rows_at_any_time_have_no_step(seed: int):
    rng = np.random.default_rng(seed)
    times = START + HOUR * np.cumsum(rng.exponential(size=1_000))
    assert rows_by_cycle(times) == () and not is_steady(times)


def test_a_calendar_is_told_from_plain_numbers():
    assert is_dated(START + np.arange(10.0)) and is_dated(-START + np.arange(10.0))
    assert not is_dated(np.arange(1_000.0)) and not is_dated(np.zeros(0)) and not is_dated(np.array([START]))
    assert is_steady(np.arange(10.0)) and is_steady(np.zeros(3)) and is_steady(np.zeros(0))
    assert rows_by_cycle(np.full(20, START)) == ()
