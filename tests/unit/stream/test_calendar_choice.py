"""Cycles of the calendar by what the warm-up tells."""

import numpy as np
import pytest

from streamgp.stream.calendar_choice import candidates, choose_calendar, longer_than, whole

HOUR, DAY = 3_600.0, 86_400.0
START = 1.61e9
N = 1_000
NONE = np.zeros((N, 0))


def hours(step: float = HOUR, n: int = N) -> np.ndarray:
    return START + step * np.arange(n)


def profile(times: np.ndarray, length: float, rng: np.random.Generator) -> np.ndarray:
    """Return a shape over a cycle that is no sine: some of its parts are high."""
    levels = rng.normal(size=6)
    return np.interp(times / length % 1.0, np.arange(7) / 6, [*levels, levels[0]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("cycle", "step"), [("day", HOUR), ("week", 6 * HOUR), ("year", 5 * DAY)])
def test_the_cycle_of_a_profile_is_found(cycle: str, step: float, seed: int):
    rng, times = np.random.default_rng(seed), hours(step)
    length = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}[cycle]
    y = profile(times, length, rng) + 0.5 * rng.normal(size=N)
    assert choose_calendar(NONE, y[:, None], (1,), times) == (cycle,)


def test_two_cycles_may_be_taken_and_come_in_their_order():
    rng, times = np.random.default_rng(0), hours()
    y = 2.0 * profile(times, 7 * DAY, rng) + profile(times, DAY, rng) + 0.3 * rng.normal(size=N)
    assert choose_calendar(NONE, y[:, None], (1,), times) == ("day", "week")


@pytest.mark.parametrize("seed", range(4))
def test_a_week_is_found_by_days_of_another_shape_at_its_end(seed: int):
    rng, times = np.random.default_rng(seed), hours()
    weekend = np.isin(times.astype("datetime64[s]").astype("datetime64[D]").astype(int) % 7, (2, 3))
    y = np.where(weekend, -1.0, 2.0) * np.sin(4.0 * np.pi * times / DAY) + 0.5 * rng.normal(size=N)
    assert choose_calendar(NONE, y[:, None], (1,), times) == ("day", "week")


@pytest.mark.parametrize("seed", range(12))
def test_where_the_calendar_tells_nothing_none_is_taken(seed: int):
    rng = np.random.default_rng(seed)
    X, noise = rng.normal(size=(N, 2)), rng.standard_t(3, size=N)
    y = np.cumsum(noise) if seed % 2 else X[:, 0] + noise
    assert choose_calendar(X, y[:, None], (1,), hours((HOUR, DAY)[seed % 4 // 2])) == ()


def test_what_the_inputs_tell_of_the_day_needs_no_calendar():
    rng, times = np.random.default_rng(1), hours()
    light = profile(times, DAY, rng) + 0.05 * rng.normal(size=N)
    y = 3.0 * light + 0.5 * rng.normal(size=N)
    assert choose_calendar(light[:, None], y[:, None], (), times) == ()


def test_candidates_have_some_steps_and_are_seen_whole():
    assert candidates(hours()) == ("day", "week", "month") and longer_than(hours()) == ("year",)
    assert candidates(hours(DAY)) == ("week", "month", "year") and longer_than(hours(DAY)) == ()
    assert candidates(hours(n=100)) == ("day",) and longer_than(hours(n=100)) == ("week", "month", "year")
    for odd in (np.arange(100.0), np.full(100, START), np.array([START])):
        assert candidates(odd) == longer_than(odd) == ()


def test_times_that_are_missing_lie_between_their_neighbours():
    np.testing.assert_array_equal(whole(np.array([np.nan, 2.0, np.nan, 6.0, np.nan])), [2.0, 2.0, 4.0, 6.0, 6.0])
    assert whole(np.full(3, np.nan)) is None
