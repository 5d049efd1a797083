"""When a stream is called stale: by the clock of its rows, not by how fast they were sent."""

import numpy as np
import pytest

from streamgp.service.staleness import stale_after

START = 1_700_000_000.0
HOUR = 3_600.0


def columns(times: object, came: object) -> dict[str, np.ndarray]:
    times, came = np.asarray(times, float), np.asarray(came, float)
    return {"row": np.arange(len(came)), "time": np.broadcast_to(times, came.shape), "at": START + came}


@pytest.mark.parametrize("scale", [1.0, 1_000.0])
def test_a_backfill_of_hourly_rows_in_ten_seconds_is_stale_after_hours(scale: float) -> None:
    hourly = (START + HOUR * np.arange(400)) * scale
    assert stale_after(columns(hourly, np.linspace(0.0, 10.0, 400))) == pytest.approx(10.0 * HOUR)
    assert stale_after(columns(hourly, np.zeros(400))) == pytest.approx(10.0 * HOUR)  # in one request


def test_rows_of_many_keys_at_the_same_hours_are_hourly() -> None:
    hourly = START + HOUR * np.repeat(np.arange(40), 25)
    assert stale_after(columns(hourly, np.linspace(0.0, 5.0, 1_000))) == pytest.approx(10.0 * HOUR)


def test_without_dates_the_moments_count_at_which_rows_came() -> None:
    came = 60.0 * np.arange(100)
    for times in (np.nan, np.arange(100.0)):  # none, and a count
        assert stale_after(columns(times, came)) == pytest.approx(600.0)
    assert stale_after(columns(np.nan, np.arange(100.0))) == 30.0  # one a second
    gaps = np.tile([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 100.0, 100.0], 20)  # bursts
    assert stale_after(columns(np.nan, np.cumsum(gaps))) == pytest.approx(400.0)


def test_a_burst_without_dates_says_nothing_of_what_is_usual() -> None:
    assert stale_after(columns(np.nan, np.linspace(0.0, 10.0, 400))) is None
    assert stale_after(columns(np.nan, np.zeros(400))) is None
    assert stale_after(columns(START + HOUR * np.arange(3), [0.0, 0.1, 0.2])) is None  # too few
    assert stale_after({}) is None


def test_of_many_rows_a_second_a_few_earlier_moments_are_known() -> None:
    latest = columns(np.nan, 100.0 + np.linspace(0.0, 4.0, 400))
    assert stale_after(latest) is None
    assert stale_after(latest, [START + i for i in range(100)]) == 30.0


def test_rows_of_each_minute_that_come_once_a_day_are_stale_after_days() -> None:
    minutes = START + 60.0 * np.arange(2_000)
    came = np.floor(np.arange(2_000) / 200.0) * 86_400.0
    assert stale_after(columns(minutes, came)) == pytest.approx(864_000.0)
