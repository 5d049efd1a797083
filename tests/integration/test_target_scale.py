"""Regression with bounds, or on a scale of the target's own, as users meet it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from typer.testing import CliRunner

from small_runs import predictions
from streamgp import StreamingGPRegressor, evaluate
from streamgp.app.cli import app

pytestmark = pytest.mark.slow

ROWS, WARMUP = 160, 60
KINDS: dict[str, dict[str, Any]] = {
    "bounds": {"bounds": (0, None)},
    "log": {"target_transform": "log"},
    "logit": {"target_transform": "logit", "bounds": (0, 40)},
}
KIND = pytest.mark.parametrize("kind", KINDS)


def stream() -> tuple[np.ndarray, np.ndarray]:
    """A positive target whose noise grows with it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    return X, np.exp(0.5 * X[:, 0] - 0.2 * X[:, 1] + 0.4 * rng.normal(size=ROWS))


def model(kind: str = "bounds", **more: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", warmup=WARMUP, robust=True, recalibrate=True, **KINDS[kind], **more)


def seen(m: StreamingGPRegressor, X: np.ndarray) -> np.ndarray:
    p = m.predict_dist(X)
    return np.column_stack([p.mean, p.std, p.quantile([0.05, 0.5, 0.95]), p.log_density(np.square(X[:, 0]) + 1.0)])


def test_rows_chunks_and_a_resumed_run_give_the_same_numbers(tmp_path: Path):
    X, y = stream()
    whole = model().partial_fit(X, y)
    parts = model()
    for at in range(0, 90, 30):
        parts.partial_fit(X[at : at + 30], y[at : at + 30])
    parts.save(tmp_path / "model")
    parts = StreamingGPRegressor.load(tmp_path / "model")
    for i in range(90, ROWS):
        mean, std = parts.predict_one(X[i])
        assert_allclose((mean, std), [each[0] for each in parts.predict(X[i : i + 1], return_std=True)], rtol=1e-9)
        parts.learn_one(X[i], y[i])
    assert_allclose(seen(parts, X[:20]), seen(whole, X[:20]), rtol=1e-9, atol=1e-12)


def test_a_transformed_target_is_learnt_as_its_logarithm():
    X, y = stream()
    m, plain = model("log").partial_fit(X, y), model("log").set_params(target_transform=None)
    plain.partial_fit(X, np.log(y))
    p, z = m.predict_dist(X[:9]), plain.predict_dist(X[:9])
    assert_allclose(p.quantile([0.1, 0.9]), np.exp(z.quantile([0.1, 0.9])), rtol=1e-12)
    assert_allclose(p.log_density(y[:9]), z.log_density(np.log(y[:9])) - np.log(y[:9]), rtol=1e-12)
    assert_allclose(p.sample(3), np.exp(z.sample(3)), rtol=1e-12)
    assert_allclose(m.sample_paths(5, 20, X[:5]), np.exp(plain.sample_paths(5, 20, X[:5])), rtol=1e-12)
    assert_allclose(m.explain(X[0]).prediction, m.predict(X[:1])[0], rtol=1e-9)


@KIND
def test_evaluation_scores_in_the_units_of_the_target(kind: str):
    X, y = stream()
    r = evaluate(model(kind), X, y, conformal=0.9, progress=False)
    scored = slice(WARMUP, None)
    assert_allclose(r.metrics["rmse"], np.sqrt(np.mean((r.mean[scored] - y[scored]) ** 2)), rtol=1e-12)
    assert_allclose(r.metrics["pll"], r.log_density[scored].mean(), rtol=1e-12)
    assert min(r.q05.min(), r.mean.min(), r.conformal.min()) >= 0.0
    inside = (r.q05[scored] <= y[scored]) & (y[scored] <= r.q95[scored])
    assert_allclose(inside.mean(), r.metrics["coverage"]["90"], atol=1e-12)
    if kind == "log":  # noise that grows with the target is met by its own scale
        assert r.metrics["pll"] > evaluate(model("bounds"), X, y, progress=False).metrics["pll"] + 0.1


def test_bounds_leave_what_is_learnt_as_it_is():
    X, y = stream()
    bounded = model().set_params(recalibrate=False)  # with which the CRPS is an approximation
    r, plain = (evaluate(m, X, y, progress=False) for m in (bounded, clone(bounded).set_params(bounds=None)))
    # A log density is a sum of terms of size one; its own size may be far less.
    assert_allclose(r.log_density, plain.log_density, rtol=1e-12, atol=1e-14)
    assert_allclose(r.mean, np.maximum(plain.mean, 0.0), rtol=1e-12)
    assert_allclose(r.q05, np.maximum(plain.q05, 0.0), rtol=1e-9)
    assert (r.crps <= plain.crps + 1e-6).all()
    assert plain.q05.min() < 0.0


@pytest.mark.parametrize(("kind", "more"), [("bounds", {"lags": [1, 2]}), ("log", {"horizon": 2})], ids=str)
def test_lags_and_horizons_work_on_the_same_scale(kind: str, more: dict[str, Any]):
    X, y = stream()
    y[120] = 39.0  # a glitch
    whole, m = evaluate(model(kind, **more), X, y, progress=False), model(kind, **more)
    parts = [evaluate(m, X[a:b], y[a:b], progress=False) for a, b in pairwise([0, 50, 61, 119, 122, ROWS])]
    for name, rtol in {"mean": 1e-9, "std": 1e-9, "q05": 1e-9, "log_density": 1e-9, "crps": 1e-6}.items():
        again = np.concatenate([getattr(each, name) for each in parts])
        assert_allclose(again, getattr(whole, name), rtol=rtol, err_msg=name)
    assert whole.q05.min() >= 0.0
    assert whole.metrics["unflagged"]["nmse"] < 1.2
    if "horizon" not in more:
        frame = m.forecast(4, X[:4])
        assert frame["q05"].min() >= 0.0


def test_labels_that_come_late_end_where_those_in_time_do():
    X, y = stream()
    late = model("log", lags=[1]).partial_fit(X[:80], y[:80])
    tokens = [late.predict_later(x) for x in X[80:84]]
    assert min(token.mean for token in tokens) >= 0.0
    for i in (2, 0, 3, 1):
        late.learn_later(tokens[i], y[80 + i])
    in_time = model("log", lags=[1]).partial_fit(X[:84], y[:84])
    assert_allclose(seen(late, X[84:85]), seen(in_time, X[84:85]), rtol=1e-9)


def test_a_target_outside_the_bounds_is_refused_and_changes_nothing():
    X, y = stream()
    m = model().partial_fit(X[:80], y[:80])
    before = seen(m, X[:5])
    wrong = y[80:90].copy()
    wrong[4] = -1.0
    for call in (
        lambda: m.partial_fit(X[80:90], wrong),
        lambda: evaluate(m, X[80:90], wrong, progress=False),
        lambda: m.learn_one(X[80], -1.0),
    ):
        with pytest.raises(ValueError, match=r"expected a target in \[0, inf\), got -1 at row [04]"):
            call()
    assert m.rows_ == 80
    assert_array_equal(seen(m, X[:5]), before)
    with pytest.raises(ValueError, match="bounds: expected two numbers"):
        model().set_params(bounds=3).partial_fit(X, y)
    with pytest.raises(ValueError, match="target_transform: expected it with an ensemble"):
        StreamingGPRegressor("sfg-mkl", target_transform="log").partial_fit(X, y)


def test_the_command_keeps_within_bounds_and_skips_what_cannot_be(tmp_path: Path):
    X, y = stream()
    y[100] = -5.0
    data, out = tmp_path / "data.csv", tmp_path / "out"
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).write_csv(data)
    command = ["run", str(data), "--target", "y", "--model", "linear", "--warmup", str(WARMUP), "--lags", "none"]
    done = CliRunner().invoke(app, [*command, "--bounds", "0,", "--out", str(out)])
    assert done.exit_code == 0, done.output
    found = predictions(out)
    assert 100 not in found["row"]
    assert len(found) == ROWS - 1
    assert found["q05"].min() == 0.0
    refused = CliRunner().invoke(app, [*command, "--target-transform", "log", "--missing", "raise"])
    assert refused.exit_code != 0
    assert "expected a target in (0, inf)" in " ".join(refused.output.split())
    wrong = CliRunner().invoke(app, [*command, "--bounds", "0"])
    assert "--bounds: expected two numbers with a comma" in " ".join(wrong.output.split())


@pytest.mark.filterwarnings("error")
def test_targets_that_all_but_always_rest_at_the_bound_leave_scores_that_are_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    y = np.maximum(X[:, 0] - 2.0, 0.0)
    r = evaluate(StreamingGPRegressor("linear", warmup=WARMUP, target_transform="log1p"), X, y, progress=False)
    assert all(np.isfinite(r.metrics[name]) for name in ("nmse", "crps", "pll", "pll_moment"))
    assert r.std.min() > 0.0


def test_heavy_tails_leave_mean_and_crps_with_the_targets():
    """Durations whose logarithm has a Student's t for noise: the mean as good as without, the CRPS better."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 2))
    y = np.exp(1.0 + X[:, 0] + 2.0 * rng.standard_t(3, 400))
    plain = StreamingGPRegressor("linear", warmup=100, robust=True, recalibrate=True)
    r, without = (
        evaluate(clone(plain).set_params(target_transform=transform), X, y, progress=False)
        for transform in ("log", None)
    )
    scored = slice(100, None)
    assert r.metrics["nmse"] < 1.02 * without.metrics["nmse"]
    assert r.metrics["crps"] < without.metrics["crps"]
    assert (r.crps <= np.hypot(r.std, r.mean - y) * 1.01)[scored].all()
    assert (r.mean <= r.q95)[scored].all()


def test_a_forecast_of_a_transformed_target_has_the_mean_that_is_believed():
    rng = np.random.default_rng(0)
    y = np.exp(0.5 * np.cumsum(rng.standard_t(2, 500))[200:])
    m = StreamingGPRegressor("linear", warmup=100, target_transform="log", lags=[1], recalibrate=True, robust=True)
    m.partial_fit(np.empty((300, 0)), y)
    frame = m.forecast(30)
    assert (frame["mean"] <= frame["q95"]).all()
    assert (frame["std"] <= 20.0 * frame["q95"]).all()
