"""Text with more levels than get a column each: learnt alike through every door, late or ahead, and kept."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.app.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::streamgp.WarmupWarning")]

N, WARMUP, LEVELS = 400, 160, 80
RTOL = 1e-9


@cache
def table() -> tuple[pl.DataFrame, np.ndarray]:
    """Return rows of shops, some of which come after the warm-up only, and of which some cells are missing."""
    rng = np.random.default_rng(0)
    shop = np.minimum(rng.integers(0, LEVELS, N), LEVELS * (np.arange(N) + WARMUP) // N)
    effect = 2.0 * rng.normal(size=LEVELS + 1)[shop]
    x = rng.normal(size=N)
    names = [None if each == 3 else f"shop {each}" for each in shop.tolist()]
    return pl.DataFrame({"x": x, "shop": names}), x + effect + 0.3 * rng.normal(size=N)


def frame(rows: slice = slice(None)) -> pl.DataFrame:
    return table()[0][rows]


def targets(task: str, rows: slice = slice(None)) -> np.ndarray:
    y = table()[1]
    made = {
        "numbers": y,
        "several": np.column_stack([y, -0.5 * y + np.sin(np.arange(N))]),
        "classes": np.digitize(y, [-1.0, 1.0]),
        "grades": np.digitize(y, [-1.0, 1.0]),
        "counts": np.random.default_rng(1).poisson(np.exp(0.5 * np.clip(y, -4.0, 4.0))),
    }
    return made[task][rows]


def new(task: str = "numbers", **more: Any) -> Any:
    kinds = {
        "classes": StreamingGPClassifier,
        "counts": StreamingGPCountRegressor,
        "grades": StreamingGPOrdinal,
    }
    return kinds.get(task, StreamingGPRegressor)("linear", warmup=WARMUP, random_state=0, **more)


def predicted(model: Any, rows: slice = slice(None)) -> np.ndarray:
    ask = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    return np.asarray(ask(frame(rows)))


def fed(model: Any, y: np.ndarray, size: int, start: int = 0) -> Any:
    for at in range(start, N, size):
        model.partial_fit(frame(slice(at, at + size)), y[at : at + size])
    return model


@pytest.mark.parametrize("task", ["numbers", "several", "classes", "grades", "counts"])
@pytest.mark.parametrize("more", [{}, {"horizon": 2}], ids=["next row", "two ahead"])
def test_chunks_kept_or_not_are_the_whole(task: str, more: dict, tmp_path: Path):
    if more and task != "numbers":
        pytest.skip("horizons are of numbers")
    y = np.roll(targets(task), more.get("horizon", 0), axis=0)
    first = {"grades": [0, 1, 2]} if task == "grades" else {}
    whole = new(task, **more).partial_fit(frame(), y, **first)
    other = new(task, **more).partial_fit(frame(slice(0, 1)), y[:1], **first)
    other = fed_until(other, y, 1, 261, 37)
    other.save(tmp_path / "kept")
    other.predict(frame(slice(0, 50)))
    again = fed(type(other).load(tmp_path / "kept"), y, 29, start=261)
    other = fed(other, y, N, start=261)
    assert_allclose(predicted(other), predicted(whole), rtol=RTOL, atol=1e-10)
    assert_allclose(predicted(again), predicted(other), rtol=1e-12, atol=1e-14)
    assert np.ptp(predicted(whole)) > 0.3


def fed_until(model: Any, y: np.ndarray, start: int, end: int, size: int) -> Any:
    for at in range(start, end, size):
        rows = slice(at, min(at + size, end))
        model.partial_fit(frame(rows), y[rows])
    return model


def test_single_rows_are_the_whole():
    y = targets("numbers")
    whole, single = new().partial_fit(frame(), y), new()
    for x, target in zip(frame().to_dicts(), y.tolist(), strict=True):
        single.predict_one(x) if single.__sklearn_is_fitted__() else None
        single.learn_one(x, target)
    assert_allclose(predicted(single), predicted(whole), rtol=RTOL)


def test_late_labels_end_as_if_they_had_come_in_time():
    y, late = targets("numbers"), new().partial_fit(frame(slice(0, 300)), targets("numbers")[:300])
    tokens = [late.predict_later(x) for x in frame(slice(300, N)).to_dicts()]
    for i in np.random.default_rng(0).permutation(N - 300):
        late.learn_later(tokens[i], y[300 + i])
    assert_allclose(predicted(late), predicted(new().partial_fit(frame(), y)), rtol=RTOL)


def test_the_command_learns_what_the_estimator_does(tmp_path: Path):
    y = targets("numbers")
    frame().with_columns(y=pl.Series(y)).write_csv(tmp_path / "shops.csv")
    given = ["run", str(tmp_path / "shops.csv"), "--target", "y", "--model", "linear", "--warmup", str(WARMUP)]
    ran = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "out")])
    assert ran.exit_code == 0, ran.output
    found = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    expected = evaluate(new(), frame(), y, progress=False)
    assert_allclose(found["mean"].to_numpy()[WARMUP:], expected.mean[WARMUP:], rtol=1e-6)
    assert expected.metrics["nmse"] < 0.5
    assert evaluate(new(), frame().drop("shop"), y, progress=False).metrics["nmse"] > 0.7


@pytest.mark.parametrize(("at", "e"), [(100, 0), (300, 1)], ids=["in the warm-up", "after it"])
def test_targets_go_on_apart(at: int, e: int):
    y = targets("several").copy()
    y[at : at + 150, e] = np.nan
    whole = new(missing="impute").partial_fit(frame(), y)
    chunks = new(missing="impute").partial_fit(frame(slice(0, 1)), y[:1])
    assert_allclose(predicted(fed(chunks, y, 31, start=1)), predicted(whole), rtol=RTOL, atol=1e-10)
    assert np.isfinite(predicted(whole)).all()


def test_what_it_matters_is_told_of_the_column():
    model = new().partial_fit(frame(), targets("numbers"))
    assert set(model.feature_importance()) == {"x", "shop"}
    assert model.feature_importance()["shop"] > 0.3
    told = model.explain(frame().to_dicts()[5])
    assert set(told.contributions) == {"x", "shop"}
    assert_allclose(told.prediction, predicted(model)[5], rtol=1e-6)
