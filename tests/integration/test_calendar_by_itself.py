"""The calendar by itself: the column of times is found, its cycles are chosen, and every way in gives one answer."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from small_runs import predictions, run_stream, timeless
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPRegressor, evaluate
from streamgp.app.runner import Outcome
from streamgp.app.settings import RunSettings
from streamgp.models.registry import make_spec

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning")]

N, WARMUP = 700, 300
START = datetime(2024, 3, 1)


def hourly(seed: int = 0, size: float = 2.0) -> pl.DataFrame:
    """Return hours, an input, and a target that depends on it and, with this size, on the hour of the day."""
    rng = np.random.default_rng(seed)
    hour, a = np.arange(N), rng.normal(size=N)
    y = 10.0 + a + size * np.sin(2 * np.pi * hour / 24 + 1.0) + 0.3 * rng.normal(size=N)
    return pl.DataFrame({"when": [START + timedelta(hours=i) for i in range(N)], "a": a, "y": y})


def run(frame: pl.DataFrame, out: Path, model: str = "linear", lags: Any = "none", **options: Any) -> Outcome:
    data = out.parent / f"{out.name}.csv"
    frame.write_csv(data, datetime_format="%Y-%m-%dT%H:%M:%S")
    more = {"targets": ["y"], "warmup": WARMUP, "calendar": ["auto"]} | options
    return run_stream(RunSettings(str(data), spec=make_spec(model, lags=lags), out=out, **more))


def inputs(outcome: Outcome) -> list[str]:
    return [name for name in outcome.metrics["features"] if "lag" not in name]


DAY = ["when sine of day", "when cosine of day"]


def test_the_day_is_found_said_and_worth_it(tmp_path: Path):
    found, without = run(hourly(), tmp_path / "auto"), run(hourly(), tmp_path / "none", calendar=[])
    assert inputs(found) == [*DAY, "a"] and inputs(without) == ["a"]
    assert found.metrics["rmse"] < 0.4 < 1.2 < without.metrics["rmse"]
    (note,) = (each for each in found.metrics["warnings"] if "when" in each)
    assert "its place in the day is an input" in note and "--calendar none omits it" in note
    assert "shorter than a month, of which --calendar day,month,year" in note
    assert any("'when' was left out" in each for each in without.metrics["warnings"])
    assert {each["name"] for each in found.metrics["importance"]} == {"when", "a"}


def test_what_is_chosen_gives_the_numbers_of_what_is_named(tmp_path: Path):
    run(hourly(), tmp_path / "auto"), run(hourly(), tmp_path / "named", calendar=["day"])
    auto, named = (predictions(tmp_path / name)[WARMUP:] for name in ("auto", "named"))
    assert_allclose(auto["mean"], named["mean"], rtol=1e-9)
    assert_allclose(auto["std"], named["std"], rtol=1e-9)


@pytest.mark.parametrize("lags", ["none", "auto"])
def test_chunks_resumed_runs_and_estimators_agree(tmp_path: Path, lags: str):
    frame = hourly()
    whole = run(frame, tmp_path / "whole", lags=lags)
    run(frame, tmp_path / "parts", lags=lags, chunk=7, max_rows=WARMUP - 5)
    again = run(frame, tmp_path / "parts", lags=lags, chunk=11, resume=True)
    assert timeless(again.metrics)["rmse"] == pytest.approx(timeless(whole.metrics)["rmse"], rel=1e-9)
    want = predictions(tmp_path / "whole")
    assert_allclose(predictions(tmp_path / "parts")["mean"], want["mean"], rtol=1e-9)
    X, y = frame.select("when", "a"), frame["y"].to_numpy()
    result = evaluate(StreamingGPRegressor("linear", lags=lags, warmup=WARMUP), X, y, progress=False)
    assert_allclose(result.mean, want["mean"], rtol=1e-9)
    model = StreamingGPRegressor("linear", lags=lags, warmup=WARMUP)
    for start in range(0, N - 20, 97):
        rows = slice(start, min(start + 97, N - 20))
        model.partial_fit(X[rows], y[rows])
    model.save(tmp_path / "model")
    for each in (model, StreamingGPRegressor.load(tmp_path / "model")):
        for i in range(N - 20, N):
            row = dict(zip(X.columns, X.row(i), strict=True))
            assert_allclose(each.predict_one(row)[0], want["mean"][i], rtol=1e-9)
            each.learn_one(row, y[i])


def test_the_choice_rests_on_the_warm_up_alone(tmp_path: Path):
    frame = hourly()
    rng = np.random.default_rng(5)
    other = frame.with_columns(y=pl.Series([*frame["y"][:WARMUP], *rng.normal(size=N - WARMUP)]))
    for name, each in (("one", frame), ("other", other)):
        assert inputs(run(each, tmp_path / name)) == [*DAY, "a"]
    one, two = (predictions(tmp_path / name)["mean"][: WARMUP + 1] for name in ("one", "other"))
    assert_allclose(one, two, rtol=1e-12)


def test_where_time_adds_nothing_nothing_is_lost(tmp_path: Path):
    frame = hourly(size=0.0)
    found = run(frame, tmp_path / "auto", model="default", lags="auto")
    without = run(frame, tmp_path / "none", model="default", lags="auto", calendar=[])
    assert inputs(found) == ["a"]
    assert found.metrics["nmse"] <= without.metrics["nmse"] * 1.005
    (note,) = (each for each in found.metrics["warnings"] if "'when'" in each)
    assert "no cycle of the calendar would have predicted the warm-up better" in note


def test_the_column_of_times_is_the_one_that_rises_in_the_smallest_steps(tmp_path: Path):
    rng = np.random.default_rng(0)
    frame = hourly().with_columns(
        born=pl.Series([datetime(1980, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 9_000, N)]),
        date=pl.col("when").dt.date(),
    )
    found = run(frame.select("born", "date", "when", "a", "y"), tmp_path / "three")
    assert inputs(found) == [*DAY, "a"]
    left = [each for each in found.metrics["warnings"] if "was left out" in each]
    assert len(left) == 2 and "'born'" in left[0] and "'date'" in left[1]
    shuffled = run(hourly().sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "shuffled")
    assert inputs(shuffled) == ["a"]


def test_gaps_and_repeated_times_are_no_hindrance(tmp_path: Path):
    frame = (
        hourly()
        .with_row_index()
        .with_columns(
            when=pl.when(pl.col("index") % 9 == 4).then(None).otherwise(pl.col("when") + pl.duration(minutes=0))
        )
    )
    frame = frame.drop("index").with_columns(when=pl.when(pl.int_range(N) == 50).then(START).otherwise("when"))
    found = run(frame, tmp_path / "gaps")
    assert inputs(found) == [*DAY, "a"] and found.metrics["rmse"] < 0.5


def test_holidays_are_an_input_beside_what_is_chosen(tmp_path: Path):
    frame = hourly()
    free = frame["when"].dt.date().is_in([datetime(2024, 3, 29).date(), datetime(2024, 4, 1).date()])
    frame = frame.with_columns(y=pl.col("y") + 3.0 * free.cast(float))
    found = run(frame, tmp_path / "holidays", calendar=["auto", "holidays DE"], warmup=690)
    assert inputs(found) == [*DAY, "when holidays DE", "a"]


def test_labels_counts_and_arrays_have_a_calendar_too():
    frame = hourly()
    X, high = frame.select("when", "a"), (frame["y"] > 10.0).to_numpy()
    for model, y in (
        (StreamingGPClassifier("linear", warmup=WARMUP), np.where(high, "high", "low")),
        (StreamingGPCountRegressor("linear", warmup=WARMUP), np.round(frame["y"].to_numpy()).clip(0)),
    ):
        model.partial_fit(X, y)
        assert {*model.feature_importance()} == {"when", "a"}
    times = frame["when"].to_numpy()
    timed = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[["a"]].to_numpy(), frame["y"], times=times)
    assert {*timed.feature_importance()} == {"x0", "time"}
    plain = StreamingGPRegressor("linear", warmup=WARMUP)
    plain.partial_fit(X[["a"]].to_numpy(), frame["y"], times=np.arange(N))
    assert {*plain.feature_importance()} == {"x0"}


def test_a_model_that_was_learnt_before_forecasts_steps_from_its_next_row_on():
    frame = hourly()
    X, y = frame.select("when", "a"), frame["y"].to_numpy()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[:400], y[:400])
    found = evaluate(model, X[400:], y[400:], steps_ahead=6, progress=False)
    assert np.isfinite(found.to_frame()["ahead_mean"].to_numpy()[:6]).all()
    assert found.metrics["steps_ahead"]["by_step"][5]["rmse"] < 1.2
    assert found.metrics["steps_ahead"]["by_step"][5]["naive"]["seasonal_24"]["rmse"] > 1.3


@pytest.mark.parametrize("name", [None, "when"])
def test_dates_of_the_index_are_a_column(name: str | None):
    pd = pytest.importorskip("pandas")
    frame = hourly()
    y, dates = frame["y"].to_numpy(), pd.DatetimeIndex(frame["when"].to_numpy(), name=name, tz="UTC")
    indexed = pd.DataFrame({"a": frame["a"].to_numpy()}, index=dates)
    as_column = indexed.reset_index(names=name or "time")
    found, expected = (
        evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y, steps_ahead=6, progress=False)
        for X in (indexed, as_column)
    )
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert found.metrics["rmse"] < 0.4
    assert found.metrics["steps_ahead"]["by_step"] == expected.metrics["steps_ahead"]["by_step"]
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(indexed[:500], y[:500])
    assert {*model.feature_importance()} == {name or "time", "a"}
    assert_allclose(model.predict(indexed[500:501]), model.predict(as_column[500:501]), rtol=1e-12)
    future = model.forecast(24, indexed[500:524])["mean"].to_numpy()
    assert np.sqrt(np.mean((future - y[500:524]) ** 2)) < 0.5
    chosen = StreamingGPRegressor("linear", warmup=WARMUP, calendar=["day"]).partial_fit(indexed, y)
    assert {*chosen.feature_importance()} == {name or "time", "a"}
    # What the index is called may be taken, and without a calendar dates are nobody's business.
    taken = indexed.assign(**{name or "time": 1.0})
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(taken, y)
    assert {*model.feature_importance()} <= {name or "time", "a"} and model.n_features_in_ == 2
    plain = StreamingGPRegressor("linear", warmup=WARMUP, calendar="none").partial_fit(indexed, y)
    assert {*plain.feature_importance()} == {"a"} and plain.n_features_in_ == 1


def test_steps_ahead_know_the_clock(tmp_path: Path):
    frame = hourly(size=5.0)
    steps = {}
    for name, calendar in (("auto", ["auto"]), ("none", [])):
        found = run(frame, tmp_path / name, lags=(1,), steps_ahead=12, calendar=calendar).metrics["steps_ahead"]
        steps[name] = [each["rmse"] for each in found["by_step"]]
    assert max(steps["auto"]) < 1.5  # of the input that is not known the size is 1
    assert steps["none"][5] > 2.0 * steps["auto"][5]
    run(frame, tmp_path / "parts", lags=(1,), steps_ahead=12, chunk=7, max_rows=WARMUP + 40)
    again = run(frame, tmp_path / "parts", lags=(1,), steps_ahead=12, chunk=31, resume=True)
    assert [each["rmse"] for each in again.metrics["steps_ahead"]["by_step"]] == pytest.approx(
        steps["auto"], rel=1e-9
    )
    assert again.metrics["steps_ahead"]["seasons"] == [24]  # that of the clock, though no lag is
    assert again.metrics["steps_ahead"]["origins_every"] == 13  # so that a step meets every hour
    assert found["seasons"] == []
