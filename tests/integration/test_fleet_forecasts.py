"""Forecasts of fleets with inputs: those of the rows to come are given, and then the bands hold what they say."""

from datetime import datetime, timedelta
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fleet_streams import assert_same
from streamgp import StreamingGPFleet, StreamingGPRegressor

KEYS, DAYS, H = 12, 30, 24
START = datetime(2024, 1, 1)


def hourly(rows: int = 24 * DAYS + H, seed: int = 0) -> pl.DataFrame:
    """Return meters that answer to the hour, and hardly to their past, with the hour as two columns of the user's."""
    rng = np.random.default_rng(seed)
    level, size = 20.0 + 5.0 * rng.normal(size=KEYS), np.exp(0.5 * rng.normal(size=KEYS))
    parts = []
    for i in range(rows):
        angle = 2.0 * np.pi * (i % 24) / 24.0
        y = level + size * (3.0 * np.sin(angle) - 2.0 * np.cos(angle) + 0.5 * rng.normal(size=KEYS))
        names = [f"m{k}" for k in range(KEYS)]
        hour = {"hour_sin": np.sin(angle), "hour_cos": np.cos(angle)}
        parts.append(pl.DataFrame({"unique_id": names, "ds": START + i * timedelta(hours=1), "y": y, **hour}))
    return pl.concat(parts)


def small(rows: int = 40, timed: bool = True) -> tuple[StreamingGPFleet, pl.DataFrame]:
    """Return a fleet of two keys with an input that has learnt its rows but for the last 3 of each key, and these."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "unique_id": ["a", "b"] * rows,
            "ds": np.repeat(np.arange(float(rows)), 2),
            "y": rng.normal(size=2 * rows),
            "a": rng.normal(size=2 * rows),
        }
    )
    if not timed:
        frame = frame.drop("ds")
    fleet = StreamingGPFleet(time_col="ds" if timed else None, warmup=30, season=None)
    return fleet.partial_fit(frame[:-6]), frame[-6:]


@pytest.mark.slow
def test_bands_hold_with_the_inputs_of_the_rows_to_come():
    rows = hourly()
    fleet = StreamingGPFleet(warmup=1_000, season=None).partial_fit(rows[: -H * KEYS])
    future = rows[-H * KEYS :]
    with pytest.raises(ValueError, match=r"X_future: expected a frame with the inputs .*'hour_sin', 'hour_cos'"):
        fleet.forecast(H)
    ahead = fleet.forecast(H, X_future=future.drop("y")).join(future, on=["unique_id", "ds"], validate="1:1")
    assert len(ahead) == H * KEYS
    for level in (80, 95):
        held = ((ahead[f"mean-lo-{level}"] < ahead["y"]) & (ahead["y"] < ahead[f"mean-hi-{level}"])).mean()
        share = level / 100
        # What a key's model does not know of its weights is common to its rows: a third of them are as good as alone.
        assert abs(held - share) < 4 * np.sqrt(share * (1 - share) / (H * KEYS / 3)), (level, held)
    by_key = np.sqrt(((ahead["y"] - ahead["mean"]) ** 2).mean())
    assert 0.7 < by_key / np.sqrt((ahead["std"] ** 2).mean()) < 1.4


@pytest.mark.parametrize("timed", [True, False])
def test_a_forecast_is_what_predict_says_of_the_first_rows(timed: bool):
    fleet, future = small(timed=timed)
    ahead = fleet.forecast(3, X_future=future)
    names = ["mean", "std", "q05", "q95"]
    expected = fleet.predict(future[:2])
    np.testing.assert_allclose(ahead.sort("unique_id")[::3].select(names), expected.select(names), rtol=1e-9)
    shuffled = pl.concat([future.filter(unique_id="b"), future.filter(unique_id="a")])
    assert fleet.forecast(3, X_future=shuffled).equals(ahead)
    alone = fleet.forecast(3, X_future=shuffled, keys=["b"])
    assert_same(alone, ahead.filter(unique_id="b"))
    assert fleet.forecast(3, X_future=future.filter(unique_id="b"), keys=["b"]).equals(alone)
    of_pandas = fleet.forecast(3, X_future=pd.DataFrame(future.to_dict(as_series=False)))
    np.testing.assert_array_equal(np.asarray(of_pandas["mean"]), ahead["mean"])


def test_arguments_come_in_the_order_of_a_single_stream() -> None:
    for of_fleet in (StreamingGPFleet.forecast, StreamingGPFleet.forecast_total):
        single, many = (list(signature(of).parameters)[1:4] for of in (StreamingGPRegressor.forecast, of_fleet))
        assert single == many


def test_the_times_of_the_rows_are_those_given():
    fleet, future = small()
    later = future.with_columns(ds=36.0 + (pl.col("ds") - 36.0) * 1.25)
    ahead = fleet.forecast(3, X_future=later)
    assert ahead["ds"].to_list() == later.sort("unique_id", "ds")["ds"].to_list()
    assert fleet.forecast(3, X_future=future.drop("ds"))["ds"].to_list() == [37.0, 38.0, 39.0] * 2


@pytest.mark.parametrize("make", ["polars", "pandas"])
def test_the_inputs_of_statsforecast_are_taken_as_they_are(make: str):
    rng = np.random.default_rng(1)
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    rows = pd.DataFrame({"unique_id": np.repeat(["a", "b"], 60), "ds": np.tile(days, 2)})
    rows = rows.assign(y=rng.normal(size=120), price=rng.normal(size=120), rain=rng.normal(size=120))
    fleet = StreamingGPFleet(warmup=40, season=None).partial_fit(rows[rows.ds < days[50]])
    X_df = rows[rows.ds >= days[50]].drop(columns="y")
    expected = fleet.forecast(4, X_future=X_df[X_df.ds < days[54]])
    assert expected["ds"].tolist() == days[50:54].tolist() * 2
    # More rows than steps, in any order, with the columns in any order.
    shuffled = X_df.sample(frac=1.0, random_state=0)[["rain", "ds", "price", "unique_id"]]
    given = (
        shuffled if make == "pandas" else pl.DataFrame({name: column.to_numpy() for name, column in shuffled.items()})
    )
    pd.testing.assert_frame_equal(fleet.forecast(4, X_future=given), expected)
    other = X_df.assign(rain=X_df.rain + 1.0)
    assert not np.allclose(fleet.forecast(4, X_future=other)["mean"], expected["mean"])


def test_a_gap_is_what_no_rows_so_far_had():
    """A weekend is none where there were weekends; early on nothing is known of gaps."""
    days = pd.bdate_range("2024-01-01", periods=60)
    rows = pd.DataFrame({"unique_id": "a", "ds": days, "y": np.sin(np.arange(60.0)), "x": np.cos(np.arange(60.0))})
    for learnt, refused in ((40, True), (8, False)):
        fleet = StreamingGPFleet(warmup=20, season=None).partial_fit(rows[:learnt])
        future = rows[learnt : learnt + 10]
        assert fleet.forecast(10, X_future=future)["ds"].tolist() == days[learnt : learnt + 10].tolist()
        holed = future.drop(index=future.index[3:8])
        if not refused:
            assert len(fleet.forecast(5, X_future=holed)) == 5
            continue
        said = r"gaps as those of all rows so far, got a longer one before in row 3 \('a' at 2024-03-07"
        with pytest.raises(ValueError, match=said):
            fleet.forecast(5, X_future=holed)


def test_a_loaded_fleet_knows_its_longest_gap(tmp_path):
    fleet, future = small()
    fleet.save(tmp_path / "fleet")
    again = StreamingGPFleet.load(tmp_path / "fleet")
    assert again.forecast(3, X_future=future).equals(fleet.forecast(3, X_future=future))
    with pytest.raises(ValueError, match="got a longer one before in row 0"):
        again.forecast(3, X_future=future.with_columns(ds=pl.col("ds") + 1.0))


def wrong(name: str) -> Any:
    _, future = small()
    row = pl.int_range(6) == 3
    return {
        "nothing": None,
        "a column less": future.drop("a"),
        "a column more": future.with_columns(weather=1.0),
        "no key column": future.drop("unique_id"),
        "a key less": future.filter(unique_id="a"),
        "a step less": future[:-1],
        "a gap": future.with_columns(ds=pl.when(pl.col("ds") > 38.5).then(40.0).otherwise("ds")),
        "a gap before the first": future.with_columns(ds=pl.col("ds") + 1.0),
        "an unknown key": future.with_columns(unique_id=pl.when(row).then(pl.lit("z")).otherwise("unique_id")),
        "no key": future.with_columns(unique_id=pl.when(row).then(None).otherwise("unique_id")),
        "NaN": future.with_columns(a=pl.when(row).then(np.nan).otherwise("a")),
        "null": future.with_columns(a=pl.when(row).then(None).otherwise("a")),
        "infinite": future.with_columns(a=pl.when(row).then(np.inf).otherwise("a")),
        "text": future.with_columns(a=pl.lit("warm")),
        "times of the past": future.with_columns(ds=pl.col("ds") - 30.0),
        "times twice": future.with_columns(ds=38.0),
        "no time": future.with_columns(ds=pl.when(row).then(None).otherwise("ds")),
        "dates": future.with_columns(ds=pl.lit(START)),
        "no rows": future[:0],
        "an array": future["a"].to_numpy(),
    }[name]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nothing", "inputs of the next 3 rows of every key, .*'unique_id', 'ds', 'a'"),
        ("a column less", "'a' missing"),
        ("a column more", "'weather' as well"),
        ("no key column", "'unique_id' missing"),
        ("a key less", "3 rows of each key or more, got 0 of 'b'"),
        ("a step less", "3 rows of each key or more, got 2 of 'b'"),
        ("a gap", r"got a longer one before in row 4 \('a' at 40.0\), row 5 .*; give the rows between"),
        ("a gap before the first", r"got a longer one before in row 0 \('a' at 38.0\)"),
        ("an unknown key", r"keys that have come, got others in row 3 \('z' at 38.0\)"),
        ("no key", r"keys that have come, got others in row 3 \(None"),
        ("NaN", r"numbers in 'a', .*got none in row 3 \('b' at 38.0\)"),
        ("null", r"numbers in 'a', .*got none in row 3"),
        ("infinite", r"numbers in 'a', .*got none in row 3"),
        ("text", "column 'a': expected a number .*got 'warm' at row 0"),
        ("times of the past", r"after the last one of their key, .*got others in row 0 \('a' at 7.0\)"),
        ("times twice", r"each once, got others in row 2 \('a' at 38.0\)"),
        ("no time", r"got others in row 3 \('b' at None\)"),
        ("dates", "column 'ds': expected a column of type number"),
        ("no rows", "3 rows of each key or more, got 0 of 'a'"),
        ("an array", "X_future: expected a data frame"),
    ],
)
def test_what_is_wrong_with_the_rows_to_come_is_said(given: str, said: str):
    fleet, future = small()
    before = fleet.forecast(3, X_future=future)
    with pytest.raises((ValueError, TypeError), match=said) as caught:
        fleet.forecast(3, X_future=wrong(given))
    assert "X_future" in str(caught.value)
    assert fleet.forecast(3, X_future=future).equals(before)


def test_inputs_are_asked_for_in_the_warmup_too_and_not_of_fleets_without():
    _, future = small()
    early = StreamingGPFleet().partial_fit(future[:4])
    with pytest.raises(ValueError, match="X_future"):
        early.forecast(1)
    assert len(early.forecast(1, X_future=future[4:])) == 2
    plain = StreamingGPFleet().partial_fit(future[:4].drop("a"))
    assert len(plain.forecast(2)) == 4
    assert plain.forecast(1, X_future=future[4:].drop("a"))["ds"].to_list() == [39.0, 39.0]
    with pytest.raises(ValueError, match="'a' as well"):
        plain.forecast(1, X_future=future[4:])


def test_groups_may_stand_beside_the_inputs():
    _, future = small()
    rows = future.with_columns(kind=pl.lit("x"))
    fleet = StreamingGPFleet(group_col="kind").partial_fit(rows[:4])
    assert fleet.forecast(1, X_future=rows[4:]).equals(fleet.forecast(1, X_future=rows[4:].drop("kind")))
