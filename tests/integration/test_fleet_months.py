"""The dates of forecasts of monthly fleets: those that pandas would go on with."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streamgp import StreamingGPFleet

LEARNT, H = 34, 14
# Before and after the warm-up ends.
WARMUPS = (30, 2_000)


def frame(dates: pd.DatetimeIndex, make: str = "pandas") -> pd.DataFrame | pl.DataFrame:
    """Return rows of two keys at each of the dates."""
    keys, y = np.repeat(["a", "b"], len(dates)), np.random.default_rng(0).normal(size=2 * len(dates))
    rows = pd.DataFrame({"unique_id": keys, "ds": dates.append(dates), "y": y})
    if make == "pandas":
        return rows
    plain = {name: rows[name].to_numpy() for name in ("unique_id", "y")}
    zone = None if dates.tz is None else str(dates.tz)
    times = pl.Series(rows["ds"].dt.tz_localize(None).to_numpy()).dt.replace_time_zone(zone)
    return pl.DataFrame(plain | {"ds": times.cast(pl.Date) if make == "dates" else times})


def ahead(model: StreamingGPFleet, h: int = H) -> list[pd.Timestamp]:
    """Return the dates of the first key's forecast."""
    return [pd.Timestamp(each) for each in model.forecast(h, keys=["a"])["ds"].to_list()]


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("make", ["pandas", "polars"])
@pytest.mark.parametrize("freq", ["ME", "MS", "QE", "QS", "YE", "YS", "D", "W", "h"])
def test_dates_go_on_as_in_pandas(freq: str, make: str, zone: str | None, warmup: int):
    dates = pd.date_range("2021-06-01", periods=LEARNT + H, freq=freq, tz=zone)
    model = StreamingGPFleet(warmup=warmup).partial_fit(frame(dates[:LEARNT], make))
    assert model.is_warm_ == (warmup == 30)
    assert ahead(model) == dates[LEARNT:].to_list()


@pytest.mark.parametrize("start", ["2021-06-15 06:30", "2021-05-30", "2021-05-29", "2021-05-28"])
def test_a_day_that_a_month_lacks_is_its_last(start: str):
    dates = pd.DatetimeIndex([pd.Timestamp(start) + pd.DateOffset(months=i) for i in range(LEARNT + H)])
    model = StreamingGPFleet(warmup=30).partial_fit(frame(dates[:LEARNT]))
    assert ahead(model) == dates[LEARNT:].to_list()


def test_the_end_of_february_is_followed_by_that_of_march(tmp_path):
    """Known of the fleet, by its warm-up; also where a key's last row is the only one that it has."""
    dates = pd.date_range("2021-01-31", periods=26, freq="ME")
    rows = frame(dates, "dates")
    late = pl.DataFrame({"unique_id": ["new"], "y": [0.0], "ds": [date(2023, 2, 28)]})
    model = StreamingGPFleet(warmup=30).partial_fit(pl.concat([rows, late]))
    assert rows["ds"].max() == date(2023, 2, 28)
    found = model.forecast(3, keys=["new"])
    assert found["ds"].dtype == pl.Date
    assert found["ds"].to_list() == [date(2023, 3, 31), date(2023, 4, 30), date(2023, 5, 31)]
    model.save(tmp_path / "fleet")
    assert StreamingGPFleet.load(tmp_path / "fleet").forecast(3, keys=["new"]).equals(found)


def test_months_of_30_days_alone_have_ends_too():
    dates = pd.date_range("2021-04-30", periods=4, freq="2ME")
    assert [each.day for each in dates] == [30, 30, 31, 31]
    assert ahead(StreamingGPFleet().partial_fit(frame(dates[:2])), 2) == dates[2:].to_list()


def test_the_total_is_of_month_ends_and_future_frames_go_by_them():
    dates = pd.date_range("2020-01-31", periods=40, freq="ME")
    model = StreamingGPFleet(warmup=30).partial_fit(frame(dates[:36]))
    assert model.forecast_total(4)["ds"].to_list() == dates[36:].to_list()
    with_input = frame(dates).assign(x=1.0)
    model = StreamingGPFleet(warmup=30).partial_fit(with_input[with_input.ds < dates[36]])
    future = with_input[with_input.ds >= dates[36]].drop(columns="y")
    assert model.forecast(4, X_future=future)["ds"].to_list() == [*dates[36:], *dates[36:]]
    # Without their times the rows come at month ends, too.
    assert model.forecast(4, X_future=future.drop(columns="ds"))["ds"].to_list() == [*dates[36:], *dates[36:]]
    with pytest.raises(ValueError, match="got a longer one before"):
        model.forecast(3, X_future=future[future.ds != dates[37]])


def test_dates_of_no_one_day_go_on_at_the_usual_gap():
    ends, starts = (pd.date_range("2021-01-01", periods=29, freq=freq) for freq in ("ME", "MS"))
    mixed = pd.concat([frame(ends), frame(starts).assign(unique_id=lambda rows: rows["unique_id"] + "2")])
    model = StreamingGPFleet(warmup=30).partial_fit(mixed.sort_values("ds", kind="stable"))
    assert ahead(model, 1) == [ends[-1] + pd.Timedelta(days=31)]
    every_30_days = pd.date_range("2021-01-01", periods=30, freq="30D")
    model = StreamingGPFleet(warmup=30).partial_fit(frame(every_30_days))
    assert ahead(model, 1) == [every_30_days[-1] + pd.Timedelta(days=30)]
