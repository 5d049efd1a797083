"""Forecasts of several rows along a stream: those that the estimators make at each origin, scored step by step."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from linear_user import x64  # noqa: F401 (a fixture for every test here)
from small_runs import WARMUP as RUN_WARMUP
from small_runs import close, results, run_linear, run_small, run_spec, table, unbroken
from streamgp import StreamingGPClassifier, StreamingGPRegressor, evaluate
from streamgp.app.report import write_report
from streamgp.evaluation.steps_ahead import PATHS
from streamgp.models.registry import make_spec

pytestmark = pytest.mark.slow

ROWS, WARMUP, H = 130, 40, 7


def autoregressive(rows: int, outputs: int = 1, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """One input that says something, and a target that depends on its past by 0.8."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rows, 1)), np.zeros((rows, outputs))
    noise = rng.normal(size=(rows, outputs))
    for i in range(1, rows):
        y[i] = 0.8 * y[i - 1] + x[i] + noise[i]
    return x, y * np.arange(1, outputs + 1)


def new(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **({"lags": (1, 5), "warmup": WARMUP, "random_state": 3} | options))


def by_hand(X: np.ndarray, y: np.ndarray, **options: Any) -> list[np.ndarray]:
    """The paths that an estimator draws at each origin, (n, H, E), of full length."""
    model, found = new(**options).partial_fit(X[:WARMUP], y[:WARMUP]), []
    for at in range(WARMUP, len(y), H):
        paths = model.sample_paths(H, PATHS, np.full((H, X.shape[1]), np.nan))
        found.append(paths.reshape(PATHS, H, -1))
        model.partial_fit(X[at : at + H], y[at : at + H])
    return found


def crps(drawn: np.ndarray, y: float) -> float:
    return float(np.abs(drawn - y).mean() - 0.5 * np.abs(drawn[:, None] - drawn).mean())


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_scores_are_those_of_the_paths_at_each_origin(outputs: int):
    X, y = autoregressive(ROWS, outputs)
    y[60] = y[61, 0] = np.nan
    found = evaluate(new(), X, y, steps_ahead=H, progress=False)
    ahead, frame = found.metrics["steps_ahead"], found.to_frame()
    paths = by_hand(X, y)
    assert frame["step"].to_list() == [0] * WARMUP + [1 + i % H for i in range(ROWS - WARMUP)]
    known = np.isfinite(y[WARMUP:])
    variance = [np.var(y[WARMUP:, e][known[:, e]]) for e in range(outputs)]
    for entry in ahead["by_step"]:
        h, e = entry["step"] - 1, 0 if outputs == 1 else [f"y{i}" for i in range(outputs)].index(entry["target"])
        rows = [(i, WARMUP + i * H + h) for i in range(len(paths)) if WARMUP + i * H + h < ROWS]
        rows = [(i, row) for i, row in rows if np.isfinite(y[row, e])]
        assert entry["rows"] == len(rows)
        drawn, came = [paths[i][:, h, e] for i, _ in rows], [y[row, e] for _, row in rows]
        errors = np.array([d.mean() - t for d, t in zip(drawn, came, strict=True)])
        assert_allclose(entry["nmse"], np.mean(errors**2) / variance[e], rtol=1e-9)
        assert_allclose(entry["mae"], np.abs(errors).mean(), rtol=1e-9)
        assert_allclose(entry["crps"], np.mean([crps(d, t) for d, t in zip(drawn, came, strict=True)]), rtol=1e-9)
        inside = [np.quantile(d, 0.1) <= t <= np.quantile(d, 0.9) for d, t in zip(drawn, came, strict=True)]
        assert_allclose(entry["coverage"]["80"], np.mean(inside))
        before = [y[: WARMUP + i * H, e] for i, _ in rows]
        last = np.array([past[np.isfinite(past)][-1] for past in before]) - came
        assert_allclose(entry["naive"]["persistence"]["nmse"], np.mean(last**2) / variance[e], rtol=1e-9)
        each = [past[len(past) - 5 + h % 5 :: -5] for past in before]
        season = np.array([past[np.isfinite(past)][0] for past in each]) - came
        assert_allclose(entry["naive"]["seasonal_5"]["nmse"], np.mean(season**2) / variance[e], rtol=1e-9)
        assert_allclose(entry["judgement"]["loss"], np.mean(errors**2), rtol=1e-9)
        change = np.abs(y[5:WARMUP, e] - y[: WARMUP - 5, e])
        assert_allclose(entry["mase"], np.abs(errors).mean() / np.nanmean(change), rtol=1e-9)
        suffix = "" if e == 0 else f"_y{e}"
        at = [WARMUP + i * H + h for i in range(len(paths)) if WARMUP + i * H + h < ROWS]
        each = [paths[i][:, h, e] for i in range(len(at))]
        assert_allclose(frame[f"ahead_q95{suffix}"].to_numpy()[at], [np.quantile(d, 0.95) for d in each], rtol=1e-9)
        assert_allclose(frame[f"ahead_std{suffix}"].to_numpy()[at], [d.std(ddof=1) for d in each], rtol=1e-9)
    whole = [i for i in range(len(paths)) if np.isfinite(y[WARMUP + i * H : WARMUP + (i + 1) * H]).all()]
    whole = [i for i in whole if WARMUP + (i + 1) * H <= ROWS]
    assert ahead["forecasts"] == len(whole) > 5
    assert ahead["seasons"] == [5]


def test_the_predictions_and_the_state_are_those_without():
    X, y = autoregressive(ROWS)
    one, other = new(), new()
    found, plain = evaluate(one, X, y, steps_ahead=H, progress=False), evaluate(other, X, y, progress=False)
    assert_allclose(found.mean, plain.mean, rtol=1e-9)
    assert_allclose(found.metrics["pll"], plain.metrics["pll"], rtol=1e-9)
    assert_allclose(one.predict(X[-1:]), other.predict(X[-1:]), rtol=1e-9)
    assert "steps_ahead" not in plain.metrics
    assert "step" not in plain.to_frame().columns


def test_no_forecast_knows_a_later_row():
    X, y = autoregressive(ROWS)
    spoilt_X, spoilt_y = X.copy(), y.copy()
    at = WARMUP + 3 * H  # an origin: the row itself is the first that is forecast
    spoilt_X[at:], spoilt_y[at:] = 50.0, -30.0
    frames = [
        evaluate(new(), *rows, steps_ahead=H, progress=False).to_frame() for rows in ((X, y), (spoilt_X, spoilt_y))
    ]
    one, other = (frame["ahead_mean"].to_numpy()[WARMUP:] for frame in frames)
    assert_array_equal(one[: 4 * H], other[: 4 * H])
    assert (one[4 * H :] != other[4 * H :]).all()


def test_steps_of_an_autoregression_are_as_uncertain_as_they_should_be():
    X, y = autoregressive(3_000, seed=1)
    found = evaluate(new(warmup=300, lags=(1,)), X, y, steps_ahead=6, progress=False).metrics["steps_ahead"]
    # Of the input only the distribution is known, so that each step adds its variance, 1, and the noise's.
    steps = np.arange(1, 7)
    expected = 1.0 - 0.8 ** (2 * steps)
    nmse = np.array([entry["nmse"] for entry in found["by_step"]])
    assert_allclose(nmse, expected, atol=0.12)
    assert (np.diff(nmse) > 0).sum() >= 4
    for entry in found["by_step"]:
        for level, share in entry["coverage"].items():
            spread = np.sqrt(int(level) / 100 * (1 - int(level) / 100) / entry["rows"])
            assert abs(share - int(level) / 100) < 4 * spread + 0.01
        assert entry["nmse"] < entry["naive"]["persistence"]["nmse"]


def test_columns_that_are_known_ahead():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = 3.0 * X[:, 1] + 0.1 * rng.normal(size=400)
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    runs = {
        known: evaluate(
            new(lags=None), frame, y, steps_ahead=5, known_ahead=[known] if known else [], progress=False
        ).metrics["steps_ahead"]["by_step"]
        for known in ("b", "a", "")
    }
    assert all(entry["nmse"] < 0.05 for entry in runs["b"])
    assert all(entry["nmse"] > 0.6 for name in ("a", "") for entry in runs[name])
    by_number = evaluate(new(lags=None), X, y, steps_ahead=5, known_ahead=[1], progress=False)
    assert by_number.metrics["steps_ahead"]["by_step"] == runs["b"]


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        (new(), {"steps_ahead": 1}, r"steps_ahead: expected at least 2 rows ahead, got 1"),
        (new(), {"steps_ahead": -2}, r"steps_ahead: expected a whole number >= 0, got -2"),
        (new(horizon=3), {"steps_ahead": 4}, r"steps_ahead: expected a model without a horizon, got one of 3"),
        (new(lags=None), {"steps_ahead": 4, "delay": 2}, r"steps_ahead: expected labels that come in time"),
        (new(), {"steps_ahead": 4, "known_ahead": ["c"]}, r"known_ahead: expected columns of X \(x0\), got 'c'"),
        (
            StreamingGPRegressor("raker"),
            {"steps_ahead": 4},
            r"steps_ahead: expected an ensemble for numbers, got .*raker",
        ),
    ],
)
def test_what_does_not_go_together_leaves_the_model_untouched(model: Any, more: dict[str, Any], message: str):
    X, y = autoregressive(60)
    with pytest.raises(ValueError, match=message):
        evaluate(model, X, y[:, 0], **more)
    assert not model.__sklearn_is_fitted__()


def test_labels_cannot_be_forecast():
    X, y = autoregressive(60)
    with pytest.raises(ValueError, match=r"steps_ahead: expected an ensemble for numbers"):
        evaluate(StreamingGPClassifier("linear"), X, y[:, 0] > 0, steps_ahead=4)


@pytest.mark.parametrize("rows", [RUN_WARMUP + 3, 253])
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, rows: int):
    data = tmp_path / "data.csv"
    table().write_csv(data)
    run_small(data, tmp_path / "out", max_rows=rows, steps_ahead=H, chunk=32)
    resumed = run_small(data, tmp_path / "out", resume=True, steps_ahead=H, chunk=32)
    whole, directory = unbroken(data.name, data.read_bytes(), run_small, steps_ahead=H, chunk=32)
    for one, other in zip(results(tmp_path / "out"), results(Path(directory.name) / "whole"), strict=True):
        close(one, other)
    for one, other in zip(*(run.metrics["steps_ahead"]["by_step"] for run in (resumed, whole)), strict=True):
        assert_allclose(one["crps"], other["crps"], rtol=1e-9)
        assert one["coverage"] == other["coverage"]
    assert resumed.metrics["steps_ahead"]["by_step"][-1]["rows"] == (400 - RUN_WARMUP) // H
    one, other = (
        pl.read_parquet(each / "forecasts.parquet") for each in (tmp_path / "out", Path(directory.name) / "whole")
    )
    close(one, other)
    assert one["step"].to_list() == [1 + i % H for i in range(len(one))]
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert 'id="step-verdict"' in page and page.count('aria-label="Forecast from row') == 6


def test_a_stream_that_ends_within_its_first_forecast_has_a_page(tmp_path: Path):
    data = tmp_path / "data.csv"
    table().head(RUN_WARMUP + 6).write_csv(data)
    run_spec(data, tmp_path / "out", make_spec("linear", lags=(1, 5)), steps_ahead=9)
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert "Too few to judge forecasts step by step" in page and "Some forecasts" not in page
    assert pl.read_parquet(tmp_path / "out" / "forecasts.parquet")["step"].to_list() == list(range(1, 7))


def test_any_chunks_give_the_same_run(tmp_path: Path):
    data = tmp_path / "data.csv"
    table().write_csv(data)
    runs = [run_linear(data, steps_ahead=H, chunk=chunk).metrics["steps_ahead"]["by_step"] for chunk in (7, 400)]
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            assert one.keys() == two.keys()
            assert_allclose(one["crps"], two["crps"], rtol=1e-9)
            assert one["coverage"] == two["coverage"]
