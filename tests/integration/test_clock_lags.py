"""Lags that follow the clock, from the times that a user gives: dates, numbers, and rows at any time."""

import numpy as np
import pytest

from streamgp import StreamingGPRegressor

pytestmark = pytest.mark.slow
ROWS, WARMUP = 420, 400


def chosen(times: np.ndarray | None, season: int) -> tuple[int, ...]:
    """Return the lags that a model has chosen of a stream whose values come again after so many rows."""
    rng = np.random.default_rng(0)
    profile = rng.normal(size=season)
    y = profile[np.arange(ROWS) % season] + 0.3 * rng.normal(size=ROWS)
    model = StreamingGPRegressor("linear", lags="auto", warmup=WARMUP)
    model.partial_fit(rng.normal(size=(ROWS, 1)), y, times=times)
    return model._learner.state.inputs.lags.lags


def dates(step: str, rows: int = ROWS) -> np.ndarray:
    return np.datetime64("2021-03-01T00:00") + np.arange(rows) * np.timedelta64(
        *{"day": (1, "D"), "half": (30, "m")}[step]
    )


def test_days_have_weeks_and_half_hours_have_days():
    assert 7 in chosen(dates("day"), 7)
    assert 48 in chosen(dates("half"), 48)
    # 96 days are no season, and 84 half hours, a quarter of a week, none either; 96 rows without a clock may be one.
    assert not {*chosen(dates("day"), 96)} - {1, 2, 3, 7}
    assert not {*chosen(dates("half"), 84)} - {1, 2, 3, 48}
    assert 96 in chosen(None, 96) and 96 in chosen(np.arange(float(ROWS)), 96)


def test_rows_at_any_time_have_no_season():
    steps = np.random.default_rng(1).exponential(1_800.0, size=ROWS)
    assert not {*chosen(1.61e9 + np.cumsum(steps), 48)} - {1, 2, 3}
