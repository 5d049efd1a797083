"""The regressor and `evaluate` as a user meets them: arrays, frames, files, in a float32 process."""

import copy
import json
import pickle
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from linear_user import ROWS, WARMUP, new, same, spoilt, stream, x64  # noqa: F401 (a fixture for every test here)
from streamgp import CheckpointError, StreamingGPRegressor, evaluate

pytestmark = pytest.mark.slow

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


# Learning and predicting


@pytest.mark.parametrize("chunk", [7])
def test_chunks_do_not_matter(chunk: int):
    X, y = stream()
    whole = new().partial_fit(X, y)
    model = new()
    for i in range(0, ROWS, chunk):
        assert model.partial_fit(X[i : i + chunk], y[i : i + chunk]) is model
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-9)
    assert model.rows_ == whole.rows_ == ROWS


def test_fit_forgets():
    X, y = stream()
    model = new().fit(-X, y + 5.0)
    assert same(model.fit(X, y), new().partial_fit(X, y))


@pytest.mark.parametrize(("rows", "warmup"), [(30, 30), (90, 50), (300, 60)])
def test_default_warmup_of_short_data(rows: int, warmup: int):
    X = np.arange(rows, dtype=float)[:, None]
    assert new(warmup=None).fit(X, X[:, 0])._learner.warmup == warmup
    assert new(warmup=None).partial_fit(X[:5], X[:5, 0])._learner.warmup == 1000


def test_before_the_first_row():
    X, y = stream()
    model = new()
    for call in (model.predict, lambda X: model.log_density(X, y), lambda X: model.predict_quantiles(X, [0.5])):
        with pytest.raises(NotFittedError, match="call partial_fit or fit"):
            call(X)
    for attribute in ("weights_", "experts_", "rows_", "outside_rows_"):
        with pytest.raises(NotFittedError):
            getattr(model, attribute)
    with pytest.raises(NotFittedError):
        model.save("nowhere")


@pytest.mark.parametrize("outputs", [0, 2])
def test_shapes_and_agreement_of_the_predictions(outputs: int):
    X, y = stream(outputs)
    model = new().partial_fit(X, y)
    new_rows, targets = X[:5], y[:5]
    mean, std = model.predict(new_rows, return_std=True)
    assert mean.shape == std.shape == targets.shape
    np.testing.assert_array_equal(model.predict(new_rows), mean)
    quantiles = model.predict_quantiles(new_rows, [0.05, 0.5, 0.95])
    assert quantiles.shape == (*targets.shape, 3)
    # One linear expert: its mixture is a single Gaussian. Of several targets each has a noise variance of its own,
    # learnt from the rows and as if from ten more: then it is a t of so many degrees of freedom.
    dof = 10 + len(X)
    shape, unit = (student_t(dof), std * np.sqrt(1 - 2 / dof)) if outputs == 2 else (norm(), std)
    expected = mean[..., None] + unit[..., None] * shape.ppf([0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles, expected, rtol=1e-6 if outputs == 2 else 1e-9)
    density = model.log_density(new_rows, targets)
    assert density.shape == (5,)
    expected = (shape.logpdf((targets - mean) / unit) - np.log(unit)).reshape(5, -1).sum(1)
    np.testing.assert_allclose(density, expected, rtol=1e-9)
    draws = model.sample(new_rows, 4000)
    assert draws.shape == (*targets.shape, 4000)
    assert (np.abs(draws.mean(-1) - mean) < 5 * std / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(-1), std, rtol=5 / np.sqrt(2 * 4000))
    np.testing.assert_array_equal(draws, model.sample(new_rows, 4000))
    assert model.predict_quantiles(new_rows, 0.5).shape == (*targets.shape, 1)
    assert {a.dtype for a in (mean, std, quantiles, density, draws, model.weights_)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(mean, targets, atol=6 * 0.2 * max(outputs, 1))


def test_targets_of_a_column_keep_their_axis():
    X, y = stream()
    column, flat = new().partial_fit(X, y[:, None]), new().partial_fit(X, y)
    np.testing.assert_array_equal(column.predict(X)[:, 0], flat.predict(X))
    with pytest.raises(ValueError, match=r"y: expected shape \(n, 1\) as before, got \(90,\)"):
        column.partial_fit(X, y)


def test_experts():
    X, y = stream()
    model = StreamingGPRegressor("e-doebe", bases=["linear"], dynamics=["static", 0.01], warmup=WARMUP)
    assert model.partial_fit(X[:20], y[:20]).experts_ == []
    model.partial_fit(X[20:], y[20:])
    assert [(e["name"], e["basis"], e["dynamics"], e["features"]) for e in model.experts_] == [
        ("linear static", "linear", "static", 3),
        ("linear walk 0.01", "linear", "walk 0.01", 3),
    ]
    np.testing.assert_array_equal([e["weight"] for e in model.experts_], model.weights_)
    np.testing.assert_allclose(model.weights_.sum(), 1.0, rtol=1e-12)


def test_random_states():
    X, y = stream()
    options = {"model": "i-ssgpr", "features_per_basis": 4, "warmup": WARMUP}
    given = [0, np.int64(0), np.random.RandomState(3), np.random.RandomState(3), 1]
    a, b, c, d, e = (StreamingGPRegressor(random_state=s, **options).partial_fit(X, y).predict(X[:5]) for s in given)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(c, d)
    assert not np.allclose(a, c)
    assert not np.allclose(a, e)


def test_predictions_of_any_number_of_rows_compile_little():
    X, y = stream()
    model = new().partial_fit(X, y)
    for rows in (1, 40):
        model.predict(X[:rows])
        model.predict_quantiles(X[:rows], [0.1])
        model.log_density(X[:rows], y[:rows])
    COMPILED.clear()
    for rows in (2, 3, 9, 30, 50):
        model.predict(X[:rows])
        model.predict_quantiles(X[:rows], [0.1])
        model.log_density(X[:rows], y[:rows])
    assert COMPILED == []


# Frames


def test_any_kind_of_table():
    X, y = stream()
    expected = new().partial_fit(X, y).predict(X)
    for table, target in (
        (pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)),
        (pl.DataFrame(X, schema=["a", "b"]), pl.Series(y)),
        (X.tolist(), y.tolist()),
        (np.asfortranarray(X), y),
        (X.astype(object), y.astype(object)),
    ):
        np.testing.assert_array_equal(new().partial_fit(table, target).predict(table), expected)
    two = np.column_stack([y, -y])
    frame = pd.DataFrame(two, columns=["u", "v"])
    np.testing.assert_array_equal(
        new().partial_fit(X, frame).predict(X), new().partial_fit(X, pl.DataFrame(two)).predict(X)
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_features_are_kept_and_checked(frame: Any, tmp_path: Path):
    X, y = stream()
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    model = new().partial_fit(table, y)
    model.save(tmp_path)
    for regressor in (model, StreamingGPRegressor.load(tmp_path)):
        assert list(regressor.feature_names_in_) == ["a", "b"]
        assert regressor.n_features_in_ == 2
        for call in (regressor.predict, lambda X, regressor=regressor: regressor.partial_fit(X, y)):
            with pytest.raises(ValueError, match="feature names should match"):
                call(frame({"b": X[:, 1], "a": X[:, 0]}))
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            regressor.predict(X)


def test_times_of_any_kind():
    X, y = stream()
    start = datetime(2024, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(hours=i**1.5) for i in range(ROWS)]
    seconds = np.array([m.timestamp() for m in moments])
    expected = new(dynamics="walk 0.01").partial_fit(X, y, seconds)
    for times in (
        moments,
        pd.Series(pd.DatetimeIndex(moments)),
        pl.Series(moments),
        np.array([m.replace(tzinfo=None) for m in moments], dtype="datetime64[us]"),
        [m.isoformat() for m in moments],
    ):
        model = new(dynamics="walk 0.01").partial_fit(X, y, times)
        np.testing.assert_allclose(model.predict(X, times=seconds + 1e7), expected.predict(X, times=seconds + 1e7))
    by_rows = new(dynamics="walk 0.01").partial_fit(X, y)
    assert not np.allclose(by_rows.predict(X), expected.predict(X, times=np.full(ROWS, seconds[-1] + 3600.0)))


def test_rows_to_predict_come_in_any_order():
    X, y = stream()
    times = np.arange(ROWS) * 1.0
    model = new(dynamics="walk 0.01").partial_fit(X, y, times)
    ahead = np.array([500.0, 90.0, 120.0])
    _, std = model.predict(X[[0, 0, 0]], return_std=True, times=ahead)
    _, other = model.predict(X[[0, 0, 0]], return_std=True, times=ahead[[1, 2, 0]])
    np.testing.assert_allclose(std[[1, 2, 0]], other, rtol=1e-12)
    assert std[1] < std[2] < std[0]


# Keeping


@pytest.mark.parametrize(("row", "how"), [(13, "save"), (60, "save"), (60, "pickle"), (13, "deepcopy")])
def test_kept_and_taken_up_again_bit_for_bit(row: int, how: str, tmp_path: Path):
    X, y = stream()
    spoil = spoilt(X, 5, 0, value=np.nan)
    options = {"missing": "skip", "weights": [[0.9, 0.2], [0.1, 0.8]], "dynamics": ("static", 0.01)}
    unbroken = new(**options).partial_fit(spoil[:row], y[:row])
    match how:
        case "save":
            unbroken.save(tmp_path / "kept")
            restored = StreamingGPRegressor.load(tmp_path / "kept")
        case "pickle":
            restored = pickle.loads(pickle.dumps(unbroken))
        case _:
            restored = copy.deepcopy(unbroken)
    assert restored.get_params() == unbroken.get_params()
    assert same(restored, unbroken)
    for model in (restored, unbroken):
        for i in range(row, ROWS, 11):
            model.partial_fit(X[i : i + 11], y[i : i + 11])
    assert same(restored, unbroken)
    np.testing.assert_array_equal(restored.predict(X), unbroken.predict(X))
    assert restored.skipped_rows_ == 1


def test_what_cannot_be_loaded(tmp_path: Path):
    X, y = stream()
    with pytest.raises(CheckpointError, match="no such directory"):
        StreamingGPRegressor.load(tmp_path / "nothing")
    new().partial_fit(X, y).save(tmp_path)
    manifest = tmp_path / "checkpoint.json"
    assert json.loads(manifest.read_text())["meta"] == {"kind": "StreamingGPRegressor", "rows": ROWS}

    class Other(StreamingGPRegressor):
        pass

    with pytest.raises(CheckpointError, match="expected a checkpoint of a Other, got one of 'StreamingGPRegressor'"):
        Other.load(tmp_path)
    (arrays,) = tmp_path.glob("*.safetensors")
    data = bytearray(arrays.read_bytes())
    data[-9] ^= 1
    arrays.write_bytes(data)
    with pytest.raises(CheckpointError):
        StreamingGPRegressor.load(tmp_path)


# Evaluating


def test_evaluate_is_predicting_then_learning():
    X, y = stream()
    options = {"bases": ["linear"], "model": "e-doebe"}
    model = StreamingGPRegressor(warmup=WARMUP, **options)
    by_hand = StreamingGPRegressor(warmup=WARMUP, **options).partial_fit(X[:1], y[:1])
    r = evaluate(model, X, y)
    weights = []
    for i in range(1, ROWS):
        mean, std = by_hand.predict(X[i : i + 1], return_std=True)
        np.testing.assert_allclose((r.mean[i], r.std[i]), (mean[0], std[0]), rtol=1e-9, atol=1e-12)
        assert r.log_density[i] == pytest.approx(by_hand.log_density(X[i : i + 1], y[i : i + 1])[0], rel=1e-8)
        weights.append(by_hand.weights_)
        by_hand.partial_fit(X[i : i + 1], y[i : i + 1])
    assert np.isnan(r.weights[:WARMUP]).all()
    np.testing.assert_allclose(r.weights[WARMUP:], weights[WARMUP - 1 :], rtol=1e-7)
    np.testing.assert_allclose(r.weights[WARMUP:].sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict(X), by_hand.predict(X), rtol=1e-9)
    assert (r.q05 < r.q50).all()
    assert (r.q50 < r.q95).all()
    assert r.metrics["scored_rows"] == ROWS - WARMUP
    assert r.metrics["rmse"] == pytest.approx(np.sqrt(np.mean((r.mean - y)[WARMUP:] ** 2)), rel=1e-12)
    assert r.metrics["pll"] == pytest.approx(r.log_density[WARMUP:].mean(), rel=1e-12)


def test_evaluate_goes_on_where_the_model_stands():
    X, y = stream()
    model, whole = new(), new()
    first, second = evaluate(model, X[:40], y[:40]), evaluate(model, X[40:], y[40:])
    r = evaluate(whole, X, y)
    np.testing.assert_allclose(np.concatenate([first.mean, second.mean]), r.mean, rtol=1e-9)
    assert (first.metrics["scored_rows"], second.metrics["scored_rows"]) == (40 - WARMUP, ROWS - 40)
    assert not np.isnan(second.weights).any()
    assert evaluate(new(), X[:10], y[:10]).metrics["pll"] is None


def test_evaluate_several_targets():
    X, y = stream(2)
    r = evaluate(new(), X, y)
    assert r.mean.shape == r.std.shape == r.q05.shape == r.pit.shape == r.crps.shape == (ROWS, 2)
    assert r.log_density.shape == (ROWS,)
    assert list(r.metrics["per_target"]) == ["y0", "y1"]
    error = (r.mean - y)[WARMUP:, 1]
    assert r.metrics["per_target"]["y1"]["nmse"] == pytest.approx(
        np.mean(error**2) / np.var(y[WARMUP:, 1]), rel=1e-10
    )


def test_evaluate_skips_and_counts():
    X, y = stream()
    clean = evaluate(new(), X[1:], y[1:])
    model = new(missing="skip")
    r = evaluate(model, spoilt(X, 0, 0, value=np.nan), y)
    np.testing.assert_array_equal(r.mean, np.r_[np.nan, clean.mean])
    assert model.skipped_rows_ == 1
    with pytest.raises(ValueError, match="expected a row without NaN"):
        evaluate(model, np.full((2, 2), np.nan), [1.0, 2.0])


def test_evaluate_draws_nothing_off_a_terminal(capfd: pytest.CaptureFixture[str]):
    X, y = stream()
    evaluate(new(), X, y)
    assert capfd.readouterr() == ("", "")


# In scikit-learn's company


def test_in_pipelines_and_searches():
    X, y = stream()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(new(), X, y, cv=TimeSeriesSplit(2))
        assert (scores > 0.9).all()
        pipeline = make_pipeline(StandardScaler(), new()).fit(X, y)
        assert pipeline.score(X, y) > 0.9
        search = GridSearchCV(new(), {"warmup": [12, 20]}, cv=TimeSeriesSplit(2)).fit(X, y)
        assert search.best_params_["warmup"] in (12, 20)
