"""The calendar of a fleet whose times are dates: cycles and holidays are inputs, in what comes and in forecasts."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fleet_streams import fleet as small_fleet
from fleet_streams import frame as small_frame
from streamgp import DataError, StreamingGPFleet
from streamgp.table.calendar import holidays_of

pytestmark = pytest.mark.slow

KEYS, FIRST, DAYS = 12, datetime(2022, 1, 1), 850  # until 29 April 2024
DROP = 6.0
CLOSED = {day for year in (2022, 2023, 2024) for day in holidays_of("DE", year)}


WEEK = ("week", "week/2", "week/3")  # with three waves each day of the week may have a mean of its own


def shops(days: int = DAYS) -> pl.DataFrame:
    """Return shops that sell by the day of the week, and less on a holiday."""
    rng = np.random.default_rng(0)
    level, size = rng.normal(20.0, 5.0, KEYS), np.exp(0.3 * rng.normal(size=KEYS))
    dates = [FIRST + timedelta(days=i) for i in range(days)]
    closed = np.array([str(day.date()) in CLOSED for day in dates], float)
    week = np.array([np.sin(2.0 * np.pi * day.weekday() / 7.0) for day in dates])
    y = level + size * ((week - DROP * closed)[:, None] + 0.5 * rng.normal(size=(days, KEYS)))
    names = [f"s{k}" for k in range(KEYS)]
    return pl.DataFrame({"unique_id": names * days, "ds": np.repeat(dates, KEYS).tolist(), "y": y.ravel()})


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return shops()


@pytest.fixture(scope="module")
def german(rows: pl.DataFrame) -> StreamingGPFleet:
    """Return a fleet that knows the holidays and has learnt all rows."""
    return StreamingGPFleet(warmup=4_000, holidays="DE").partial_fit(rows)


def entries(model: StreamingGPFleet) -> tuple[str, ...]:
    """Return the calendar that a fleet has chosen."""
    return model.learner.engine.model.features.calendar


def test_holidays_are_known_before_they_come(rows: pl.DataFrame, german: StreamingGPFleet):
    errors = {}
    for name, options in (("without", {}), ("with", {"holidays": "DE"})):
        found = StreamingGPFleet(warmup=4_000, **options).evaluate(rows).frame[4_000:]
        closed = found["ds"].dt.date().cast(pl.String).is_in(sorted(CLOSED))
        errors[name] = [
            float(np.sqrt(np.mean(np.square((part["y"] - part["mean"]).to_numpy()))))
            for part in (found.filter(closed), found.filter(~closed))
        ]
    assert errors["with"][0] < 0.3 * errors["without"][0], errors
    assert errors["with"][1] < errors["without"][1] + 0.02, errors
    assert entries(german) == (*WEEK, "year", "holidays DE")
    # 1 May 2024 is the second day that is forecast, and no frame said that it is a holiday.
    ahead = german.forecast(3)
    by_day = ahead.group_by("ds").agg(pl.col("mean").mean()).sort("ds")
    assert by_day["ds"].to_list() == [datetime(2024, 4, 30), datetime(2024, 5, 1), datetime(2024, 5, 2)]
    means = by_day["mean"].to_numpy()
    assert means[1] < means[[0, 2]].min() - 0.6 * DROP, means


def test_the_calendar_goes_with_a_saved_fleet(german: StreamingGPFleet, tmp_path):
    german.save(tmp_path / "fleet")
    again = StreamingGPFleet.load(tmp_path / "fleet")
    assert entries(again) == entries(german)
    assert again.forecast(3).equals(german.forecast(3))


@pytest.mark.parametrize(
    ("calendar", "found"),
    [
        ("auto", (*WEEK, "year")),
        ("none", ()),
        (None, ()),
        (["week", "month"], (*WEEK, "month")),
        (("year",), ("year",)),
    ],
)
def test_cycles_are_those_that_were_asked_for(rows: pl.DataFrame, calendar, found: tuple[str, ...]):
    model = StreamingGPFleet(warmup=500, calendar=calendar).partial_fit(rows[: 50 * KEYS])
    assert entries(model) == found
    # Those of the month and of one's own choice are features like the others.
    assert model.forecast(40)["mean"].is_finite().all()
    features = model.learner.engine.model.features
    assert features.num_linear == 1 + len(features.lags) + 2 * len(found)


@pytest.mark.parametrize(("hours", "waves"), [(1, 4), (3, 3), (6, 1)])
def test_a_day_has_the_waves_that_its_rows_show(hours: int, waves: int):
    rng, keys, times = np.random.default_rng(0), 6, np.arange(0, 24 * 60, hours)
    shape = np.exp(-0.5 * np.square((times % 24 - 8.0) / 1.5)) + 1.5 * np.exp(
        -0.5 * np.square((times % 24 - 19.0) / 2.0)
    )
    y = np.exp(rng.normal(size=keys)) * (shape[:, None] + 0.05 * rng.normal(size=(len(times), keys)))
    dates = np.repeat([FIRST + timedelta(hours=int(hour)) for hour in times], keys)
    table = pl.DataFrame(
        {"unique_id": [f"m{k}" for k in range(keys)] * len(times), "ds": dates.tolist(), "y": y.ravel()}
    )
    model = StreamingGPFleet(warmup=300, lags="none", season=None)
    found = model.evaluate(table)
    own = [entry for entry in entries(model) if entry.startswith("day")]
    assert own == ["day", *(f"day/{wave}" for wave in range(2, waves + 1))]
    # The curved expert has the weekend by these waves, and the one that forgets Fourier features as well.
    prior, features = model.learner.engine.model.priors[0], model.learner.engine.model.features
    has = np.diagonal(prior.root, axis1=1, axis2=2) > 0.0
    assert has[1].sum() == len(features.curved) == features.num_linear + 2 * len(own)
    assert has[2].sum() == len(features.waved) == features.num_features
    if hours == 1:  # two narrow peaks
        assert np.nanmedian(found.scores["nmse"]) < 0.15


def test_what_is_no_calendar_is_refused():
    numbered = small_frame(keys=2, rows=5)
    for options in ({"holidays": "DE"}, {"calendar": ["week"]}):
        model = small_fleet(**options)
        with pytest.raises(
            DataError, match=r"calendar, holidays: expected dates, .*, got times that are none in 'ds'"
        ):
            model.partial_fit(numbered)
        assert model.rows_ == 0
    with pytest.raises(DataError, match="got no column of times; leave them out"):
        small_fleet(time_col=None, holidays="DE").partial_fit(numbered.drop("ds"))
    with pytest.raises(ValueError, match="calendar: expected one of auto, none, day, week, month, year, got 'moon'"):
        small_fleet(calendar=["moon"])
    with pytest.raises(ValueError, match="holidays: expected the code of a country, such as DE or DE-BY, got 'ZZ'"):
        small_fleet(holidays="ZZ")
