"""Frames with text, true and false, dates and gaps: the same numbers as the command, however the rows come."""

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from linear_user import x64  # noqa: F401 (a fixture for every test here)
from streamgp import StreamingGPClassifier, StreamingGPRegressor, evaluate, load
from streamgp.app.cli import app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:X. columns of dates"),
    pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning"),
]

N, WARMUP = 200, 70
RTOL = 1e-9
WORDS = np.array(["NE", "SW", "NW", "S", "E"])


@cache
def table() -> pl.DataFrame:
    """Return rows whose levels come one after the other, the last after the warm-up, with gaps from the start."""
    rng = np.random.default_rng(3)
    wind = WORDS[np.minimum((rng.random(N) * (1 + np.arange(N) / 25)).astype(int), 4)]
    wind[WARMUP - 1] = "S"  # the last row of the warm-up
    wind[: WARMUP - 1][wind[: WARMUP - 1] == "S"] = "NE"
    a = rng.normal(size=N)
    b = a + 0.5 * rng.normal(size=N)
    open_ = rng.random(N) > 0.4
    y = a + 2.0 * (wind == "SW") - (wind == "S") + open_ + 0.1 * rng.normal(size=N)
    gaps = rng.random(N) < 0.1
    gaps[[0, 3, 7]] = True
    return pl.DataFrame(
        {
            "a": a,
            "wind": [None if i % 31 == 5 else str(each) for i, each in enumerate(wind)],
            "when": [datetime(2026, 1, 1) + timedelta(minutes=37 * i) for i in range(N)],
            "open": open_,
            "b": [None if gap else value for gap, value in zip(gaps, b.tolist(), strict=True)],
            "y": y,
        }
    )


def frame(rows: slice = slice(None)) -> pl.DataFrame:
    return table().drop("y")[rows]


def targets(rows: slice = slice(None)) -> np.ndarray:
    return table()["y"].to_numpy()[rows]


def new(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **({"warmup": WARMUP} | options))


@cache
def whole(**options: Any) -> Any:
    """Return a model that has learnt all rows in one go, and what it predicted."""
    model = new(**options)
    return model, evaluate(model, frame(), targets(), progress=False)


@pytest.mark.parametrize(("kind", "calendar"), [("parquet", None), ("csv", "day,week")])
def test_the_command_gives_the_same_numbers(kind: str, calendar: str | None, tmp_path: Path):
    file = tmp_path / f"data.{kind}"
    (table().write_csv if kind == "csv" else table().write_parquet)(file)
    words = f"run {file} --target y --model linear --lags none --warmup {WARMUP} --out {tmp_path / 'out'}"
    words += "" if calendar is None else f" --calendar {calendar}"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    there = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    _, here = whole() if calendar is None else whole(calendar=("day", "week"))
    for name in ("mean", "std", "log_density"):
        assert_allclose(getattr(here, name)[WARMUP:], there[name].to_numpy()[WARMUP:], rtol=RTOL)
    assert here.metrics["nmse"] < 0.5


def test_rows_chunks_and_a_resumed_run_give_the_same_numbers(tmp_path: Path):
    _, want = whole()
    for cuts in ([0, 1, 2, 7, 40, WARMUP - 1, WARMUP, WARMUP + 1, 150, N], [0, 33, N]):
        model, found = new(), []
        for start, stop in pairwise(cuts):
            rows = slice(start, stop)
            found.append(evaluate(model, frame(rows), targets(rows), progress=False))
            model.save(tmp_path / "kept")
            model = load(tmp_path / "kept")
        for name in ("mean", "std", "log_density"):
            joined = np.concatenate([getattr(each, name) for each in found])
            assert_allclose(joined, getattr(want, name), rtol=RTOL, atol=RTOL)  # a mean may be next to zero


def test_single_rows_as_dictionaries_give_the_same_numbers():
    model, want = new(), whole()[1]
    for i, row in enumerate(frame().iter_rows(named=True)):
        if i in (5, 33, WARMUP - 1, WARMUP, 150, N - 1):
            assert_allclose(model.predict_one(row), (want.mean[i], want.std[i]), rtol=RTOL)
        model.learn_one(row, targets()[i])


def test_late_labels_give_the_same_numbers():
    n, model, waiting = WARMUP + 8, new(), []
    for i, row in enumerate(frame(slice(n)).iter_rows(named=True)):
        waiting.append((model.predict_later(row), i))
        if len(waiting) == 13 or i == n - 1:
            for token, at in reversed(waiting):
                model.learn_later(token, targets()[at])
            waiting = []
    want = new().partial_fit(frame(slice(n)), targets(slice(n)))
    assert_allclose(model.predict(frame()), want.predict(frame()), rtol=RTOL)


def test_later_rows_change_no_prediction_before_them():
    changed = frame().with_columns(
        wind=pl.when(pl.int_range(N) < 50).then("wind").otherwise(pl.lit("storm")),
        open=pl.when(pl.int_range(N) < 50).then("open").otherwise(~pl.col("open")),
    )
    found = evaluate(new(), changed, targets(), progress=False)
    assert_array_equal(found.mean[:50], whole()[1].mean[:50])
    assert (found.mean[60:] != whole()[1].mean[60:]).all()


def test_the_model_has_a_column_for_each_level_of_the_warmup():
    model, found = whole()
    inputs = found._given.about["features"]
    assert sorted(inputs) == ["a", "b", "open", "wind=", "wind=NE", "wind=NW", "wind=S", "wind=SW"]
    assert (inputs[0], *inputs[-2:]) == ("a", "open", "b")
    unknown, other = (frame(slice(5)).with_columns(wind=pl.lit(word)) for word in ("E", "never seen"))
    assert_array_equal(model.predict(unknown), model.predict(other))
    assert (model.predict(unknown) != model.predict(frame(slice(5)))).any()


@pytest.mark.parametrize("make", ["pandas.DataFrame", "pyarrow.table"])
def test_frames_of_any_make_give_the_same_numbers(make: str):
    package, name = make.split(".")
    columns = getattr(pytest.importorskip(package), name)(frame().to_dict(as_series=False))
    found = evaluate(new(), columns, targets(), progress=False)
    assert_allclose(found.mean, whole()[1].mean, rtol=RTOL)


def test_declared_categories_are_such_though_they_are_numbers():
    codes = pd.Series(np.arange(N) % 3).astype("category")
    X = pd.DataFrame({"a": frame()["a"], "code": codes})
    y = np.array([5.0, -3.0, 1.0])[np.arange(N) % 3] + 0.1 * frame()["a"].to_numpy()
    assert evaluate(new(), X, y, progress=False).metrics["nmse"] < 1e-3
    assert evaluate(new(), X.astype(float), y, progress=False).metrics["nmse"] > 0.1


def test_text_of_which_no_value_comes_twice_costs_nothing():
    X = pl.DataFrame({"id": [f"row {i}" for i in range(N)], "a": frame()["a"]})
    found = evaluate(new(), X, targets(), progress=False)
    assert found._given.about["features"] == ["id", "a"]
    plain = evaluate(new(), X.select("a"), targets(), progress=False)
    assert_allclose(found.metrics["nmse"], plain.metrics["nmse"], rtol=0.01)


def test_the_calendar_of_a_column_and_of_times_is_the_same():
    by_column = evaluate(new(calendar="day"), frame().select("a", "when"), targets(), progress=False)
    by_times = evaluate(new(calendar="day"), frame().select("a", "when"), targets(), times="when", progress=False)
    assert by_times._given.about["features"] == ["a", "time sine of day", "time cosine of day"]
    assert_allclose(by_column.mean[:10], by_times.mean[:10], rtol=RTOL)  # later on, one forgets by the clock
    by_hand = frame().select("a", angle=2 * np.pi * pl.col("when").dt.timestamp("ms") / 86_400_000)
    by_hand = by_hand.select("a", sine=pl.col("angle").sin(), cosine=pl.col("angle").cos())
    want = evaluate(new(), by_hand, targets(), progress=False)
    near = np.abs(by_column.mean - want.mean)[WARMUP:].mean()  # of columns scaled by their rows
    assert near < 0.05 * np.abs(targets() - want.mean)[WARMUP:].mean()
    row = {"a": 0.3, "when": frame()["when"][-1]}
    model = new(calendar="day").partial_fit(frame().select("a", "when"), targets())
    assert_allclose(model.predict_one(row)[0], model.predict(pl.DataFrame([row]))[0], rtol=RTOL)


def test_labels_take_frames_too():
    label = np.where(targets() > 1.0, "high", "low")[:60]
    one, two = (StreamingGPClassifier("linear", warmup=24) for _ in range(2))
    whole = evaluate(one, frame(slice(60)), label, progress=False)
    parts = [evaluate(two, frame(rows), label[rows], progress=False) for rows in (slice(20), slice(20, 60))]
    assert_allclose(np.concatenate([each.log_density for each in parts]), whole.log_density, rtol=1e-7)


def test_no_dates_for_the_calendar():
    with pytest.raises(ValueError, match=r"^calendar: expected a column of dates in the frame X"):
        new(calendar="day").partial_fit(frame().select("a"), targets())
    with pytest.raises(
        ValueError, match=r"^calendar: expected one of auto, none, day, week, month, year, got 'hour'"
    ):
        new(calendar="hour").partial_fit(frame(), targets())
