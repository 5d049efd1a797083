"""Streams of the service with categories and a calendar: the numbers of a model that is given their columns."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from live_streams import copied, learn, predict, step, working
from streamgp import StreamingGPFleet, StreamingGPRegressor, evaluate
from streamgp.service.config import StreamConfig
from streamgp.service.problems import Problem
from streamgp.service.web.forecasts import forecast

pytestmark = pytest.mark.slow

ROWS = 80
SITES = ["north", "south", None, "moon"]  # the last two are no known level
START = 1_700_000_000


def made(rows: int = ROWS) -> tuple[np.ndarray, list[str | None], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, at = rng.normal(size=rows), rng.choice(4, rows, p=(0.45, 0.45, 0.05, 0.05))
    times = START + 3600.0 * np.arange(rows)
    y = a + 2.0 * (at == 0) + np.sin(2 * np.pi * times / 86_400) + 0.1 * rng.normal(size=rows)
    return a, [SITES[i] for i in at], times, y


A, SITE, TIMES, Y = made()
OPTIONS: dict[str, Any] = {"features": ("site", "a"), "categories": {"site": ("north", "south")}, "warmup": 30}


def columns() -> dict[str, np.ndarray]:
    return {f"site={level}": np.array([float(site == level) for site in SITE]) for level in SITES[:2]} | {"a": A}


def rows(of: range, **more: list[Any]) -> list[dict[str, Any]]:
    found = [{"id": f"r{i}", "x": {"a": float(A[i]), "site": SITE[i]}} for i in of]
    return [row | {name: values[i] for name, values in more.items()} for i, row in zip(of, found, strict=True)]


def cycles(period: float) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(2 * np.pi * TIMES / period), np.cos(2 * np.pi * TIMES / period)


def test_one_model_has_a_column_for_each_level_and_cycle(tmp_path: Path):
    dates = [f"{np.datetime64(int(t), 's')}Z" for t in TIMES]
    table = columns()
    for cycle, period in (("day", 86_400.0), ("week", 604_800.0)):
        sine, cosine = cycles(period)
        table |= {f"time sine of {cycle}": sine, f"time cosine of {cycle}": cosine}
    X, model = pl.DataFrame(table), StreamingGPRegressor("linear", warmup=30)
    expected = evaluate(model, X, Y, times=TIMES)
    options = OPTIONS | {"timed": True, "calendar": ("day", "week")}
    with working(tmp_path / "power", **options) as stream:
        found = step(stream, rows(range(60), time=dates, y=Y.tolist()))["rows"]
        np.testing.assert_allclose([row["mean"] for row in found], expected.mean[:60], rtol=1e-9)
        for i in range(60, 70):  # late by one row
            (ahead,) = predict(stream, rows(range(i, i + 1), time=dates))
            np.testing.assert_allclose(ahead[:2], [expected.mean[i], expected.std[i]], rtol=1e-9)
            assert learn(stream, [{"id": f"r{i}", "y": float(Y[i])}])["learned"] == 1
        position = stream.write_checkpoint().result(60)["position"]
        later = forecast(stream, {"h": 2, "x": [{"a": 0.0, "site": "south"}] * 2, "times": dates[70:72]})
        assert [row["step"] for row in later["rows"]] == [1, 2]
        for x, says in (({"a": 0.0, "site": 1.5}, "x.site: expected text"), ({"a": 0.0}, "x.site: expected text")):
            with pytest.raises(Problem, match=says):
                predict(stream, [{"x": x, "time": dates[71]}])
        other = copied(stream, tmp_path / "copy")
    with working(other, **options) as again:
        found = step(again, rows(range(70, ROWS), time=TIMES.tolist(), y=Y.tolist()))["rows"]
        np.testing.assert_allclose([row["mean"] for row in found], expected.mean[70:], rtol=1e-9)
    loaded = StreamingGPRegressor.load(tmp_path / "power" / "checkpoints" / f"{position:015d}")
    np.testing.assert_allclose(loaded.predict(X[70:71], times=TIMES[70:71]), expected.mean[70:71], rtol=1e-9)


def test_a_fleet_has_a_column_for_each_level(tmp_path: Path):
    keys = [f"k{i % 3}" for i in range(ROWS)]
    fleet = StreamingGPFleet("key", None, "load", warmup=30)
    expected = fleet.evaluate(pl.DataFrame({"key": keys, **columns(), "load": Y})).frame
    with working(tmp_path / "power", key="key", **OPTIONS | {"model": "fleet"}) as stream:
        found = step(stream, rows(range(ROWS), key=keys, y=Y.tolist()))["rows"]
    np.testing.assert_allclose([row["mean"] for row in found], expected["mean"], rtol=1e-9)


def test_levels_that_are_not_named_are_learnt_as_by_the_estimator(tmp_path: Path):
    n, warmup = 300, 150
    rng = np.random.default_rng(1)
    level, a = rng.integers(0, 70, n), rng.normal(size=n)
    y = 2.0 * rng.normal(size=70)[level] + a + 0.1 * rng.normal(size=n)
    shop = [None if each == 3 else f"shop {each}" for each in level.tolist()]
    expected = evaluate(
        StreamingGPRegressor("linear", warmup=warmup), pl.DataFrame({"shop": shop, "a": a}), y, progress=False
    )
    options = {"features": ("shop", "a"), "categories": {"shop": ()}, "warmup": warmup}
    given = [{"id": f"r{i}", "x": {"shop": shop[i], "a": float(a[i])}, "y": float(y[i])} for i in range(n)]
    with working(tmp_path / "sales", **options) as stream:
        found = [row for at in range(0, n, 50) for row in step(stream, given[at : at + 50])["rows"]]
        with pytest.raises(Problem, match=r"x\.shop: expected text, or null"):
            predict(stream, [{"x": {"shop": 1.5, "a": 0.0}}])
    np.testing.assert_allclose([row["mean"] for row in found][warmup:], expected.mean[warmup:], rtol=1e-9)
    assert expected.metrics["nmse"] < 0.5
    keys = [f"k{i % 3}" for i in range(n)]
    table = pl.DataFrame({"key": keys, "shop": shop, "a": a, "sales": y}).with_columns(
        pl.col("shop").cast(pl.Categorical)
    )
    fleet = StreamingGPFleet("key", None, "sales", warmup=warmup)
    expected = fleet.evaluate(table).frame
    with working(tmp_path / "keyed", key="key", target="sales", **options | {"model": "fleet"}) as stream:
        keyed = [row | {"key": key} for row, key in zip(given, keys, strict=True)]
        found = [row for at in range(0, n, 50) for row in step(stream, keyed[at : at + 50])["rows"]]
    np.testing.assert_allclose([row["mean"] for row in found], expected["mean"], rtol=1e-9)


def test_a_fleet_has_a_calendar_and_knows_it_ahead(tmp_path: Path):
    keys, n = [f"k{i % 3}" for i in range(240)], 240
    times = START + 3600.0 * (np.arange(n) // 3)
    y = np.sin(2 * np.pi * times / 86_400) + 0.1 * np.random.default_rng(0).normal(size=n)
    dates = pl.from_epoch(pl.Series(times.astype(int)))
    fleet = StreamingGPFleet("key", "ds", "load", warmup=90, calendar=["day", "week"])
    expected = fleet.evaluate(pl.DataFrame({"key": keys, "ds": dates, "load": y})).frame
    options = {"features": (), "warmup": 90, "timed": True, "calendar": ("day", "week"), "key": "key"}
    given = [{"id": f"r{i}", "x": {}, "key": keys[i], "time": times[i], "y": y[i]} for i in range(n)]
    with working(tmp_path / "power", **options | {"model": "fleet"}) as stream:
        found = step(stream, given[:200])["rows"]
        position = stream.write_checkpoint().result(60)["position"]
        other = copied(stream, tmp_path / "copy")
    with working(other, **options | {"model": "fleet"}) as again:
        found += step(again, given[200:])["rows"]
        ahead = forecast(again, {"h": 3, "key": "k1"})["rows"]
        far = step(again, [{"x": {}, "key": "k1", "time": 1e90, "y": 0.0}])
    assert position and far["learned"] == 0
    np.testing.assert_allclose([row["mean"] for row in found], expected["mean"], rtol=1e-9)
    wanted = fleet.forecast(3, keys=["k1"])
    np.testing.assert_allclose([row["mean"] for row in ahead], wanted["mean"], rtol=1e-9)
    np.testing.assert_allclose([row["time"] for row in ahead], times[-1] + 3600.0 * np.arange(1, 4))
    # Those two and their faster waves, and no year.
    assert {entry.partition("/")[0] for entry in fleet.learner.engine.model.features.calendar} == {"day", "week"}


@pytest.mark.parametrize("key", [None, "key"])
def test_a_target_outside_its_bounds_is_refused_and_the_stream_goes_on(tmp_path: Path, key: str | None):
    options = {"features": ("a",), "warmup": 30, "options": {"bounds": (0.0, None)}, "key": key}
    more = {} if key is None else {"key": "k"}
    given = [{"id": f"r{i}", "x": {"a": float(A[i])}, "y": 3.0 + abs(float(Y[i]))} | more for i in range(60)]
    with working(tmp_path / "power", **options | {"model": "default" if key is None else "fleet"}) as stream:
        step(stream, given[:50])
        with pytest.raises(Problem, match=r"row 0, y: expected a target in \[0, inf\), got -5.0"):
            step(stream, [given[50] | {"y": -5.0}])
        predict(stream, [{name: value for name, value in given[51].items() if name != "y"}])
        with pytest.raises(Problem, match=r"row 0, y: expected a target in \[0, inf\), got -1"):
            learn(stream, [{"id": "r51", "y": -1.0}])
        found = step(stream, given[52:])
    assert found["learned"] == 8 and min(row["quantiles"]["0.05"] for row in found["rows"]) >= 0.0


def test_a_fleet_has_a_transform(tmp_path: Path):
    keys = [f"k{i % 3}" for i in range(ROWS)]
    y = np.exp(Y)
    fleet = StreamingGPFleet("key", None, "load", warmup=30, target_transform="log")
    expected = fleet.evaluate(pl.DataFrame({"key": keys, "a": A, "load": y}))
    options = {"features": ("a",), "warmup": 30, "key": "key", "model": "fleet"}
    given = [{"id": f"r{i}", "x": {"a": float(A[i])}, "key": keys[i], "y": float(y[i])} for i in range(ROWS)]
    with working(tmp_path / "power", options={"target_transform": "log"}, **options) as stream:
        found = step(stream, given)["rows"]
        scores = stream.model.scores()
    for name, column in (("mean", "mean"), ("std", "std")):
        np.testing.assert_allclose([row[name] for row in found], expected.frame[column], rtol=1e-9)
    for name in ("pll", "crps", "rmse"):
        np.testing.assert_allclose(scores[name], expected.metrics[name], rtol=1e-9, err_msg=name)


def test_public_holidays_are_an_input_as_of_estimators_and_fleets(tmp_path: Path):
    pytest.importorskip("holidays")
    n, day = 240, 86_400.0
    times = np.datetime64("2025-11-28T12:00:00").astype("datetime64[s]").astype(float) + day * (np.arange(n) // 3)
    dates = pl.from_epoch(pl.Series(times.astype(int)))
    free = dates.dt.strftime("%m-%d").is_in(["12-25", "12-26", "01-01"]).to_numpy()
    y = 3.0 * free + 0.1 * np.random.default_rng(0).normal(size=n)
    table = pl.DataFrame({"time is a holiday": free.astype(float)})
    expected = evaluate(StreamingGPRegressor("linear", warmup=90), table, y, times=times, progress=False)
    options = {"features": (), "warmup": 90, "timed": True, "holidays": "DE"}
    given = [{"id": f"r{i}", "x": {}, "time": times[i], "y": y[i]} for i in range(n)]
    with working(tmp_path / "power", **options | {"model": "linear"}) as stream:
        found = step(stream, given[:200])["rows"]
        stream.write_checkpoint().result(60)
        other = copied(stream, tmp_path / "copy")
    with working(other, **options | {"model": "linear"}) as again:
        found += step(again, given[200:])["rows"]
    np.testing.assert_allclose([row["mean"] for row in found], expected.mean, rtol=1e-9)
    keys = [f"k{i % 3}" for i in range(n)]
    fleet = StreamingGPFleet("key", "ds", "load", warmup=90, calendar="none", holidays="DE")
    theirs = fleet.evaluate(pl.DataFrame({"key": keys, "ds": dates, "load": y})).frame
    keyed = [row | {"key": key} for row, key in zip(given, keys, strict=True)]
    with working(tmp_path / "keyed", **options | {"model": "fleet", "key": "key"}) as stream:
        found = step(stream, keyed)["rows"]
        ahead = forecast(stream, {"h": 3, "key": "k1"})["rows"]
    np.testing.assert_allclose([row["mean"] for row in found], theirs["mean"], rtol=1e-9)
    np.testing.assert_allclose([row["mean"] for row in ahead], fleet.forecast(3, keys=["k1"])["mean"], rtol=1e-9)


def test_holidays_that_cannot_be_are_refused(tmp_path: Path):
    pytest.importorskip("holidays")
    for more, says in (({}, "holidays: expected none, unless the stream is timed"), ({"timed": True}, "got 'XX'")):
        with pytest.raises(Problem, match=says):
            StreamConfig.from_document({"name": "s", "target": "y", "holidays": "XX"} | more)
