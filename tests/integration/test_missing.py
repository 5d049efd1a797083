"""Streams with missing values: no row without a prediction, however the rows are cut, and nothing learnt from NaN."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linear_user import x64  # noqa: F401 (a fixture for every test here)
from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)

pytestmark = pytest.mark.slow

ROWS, WARMUP = 260, 60
NAN = np.nan


def stream(rows: int = ROWS, share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which some are missing, two of them alike, and their targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=rows)
    return np.where(rng.random(X.shape) < share, NAN, X), y


def new(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **({"warmup": WARMUP} | options))


@cache
def undisturbed() -> Any:
    """Return what is said of every row of the stream as it is."""
    return evaluate(new(), *stream())


def one_by_one(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Means and standard deviations (n, 2 or 2 E) of rows that are predicted and learnt singly."""
    told = []
    for x, target in zip(X, y, strict=True):
        told.append(np.ravel(model.predict_one(x)))
        model.learn_one(x, target)
    return np.array(told)


class TestInputs:
    @pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e200])
    def test_values_that_are_no_measurement_are_filled(self, bad: float):
        X, y = stream()
        expected = undisturbed()
        X[np.isnan(X)] = bad
        model = new()
        result = evaluate(model, X, y)
        np.testing.assert_array_equal(result.mean, expected.mean)
        assert np.isfinite(result.log_density).all()
        assert model.imputed_values_ == (~(np.abs(X) < 1e100)).sum()

    @pytest.mark.parametrize("options", [{}, {"lags": 2, "dynamics": "walk 0.001"}, {"horizon": 3}])
    def test_however_the_rows_are_cut(self, options: dict[str, Any], tmp_path: Path):
        X, y = stream()
        y[[3, 100, 101, 200]] = NAN
        whole = evaluate(new(**options), X, y)
        model = new(**options)
        parts = [evaluate(model, X[i : i + 17], y[i : i + 17]) for i in range(0, 187, 17)]
        model.save(tmp_path / "kept")
        model = StreamingGPRegressor.load(tmp_path / "kept")
        told = np.column_stack([np.concatenate([getattr(p, name) for p in parts]) for name in ("mean", "std")])
        if "horizon" in options:  # there predict_one tells of a later row
            rest = [evaluate(model, X[i : i + 1], y[i : i + 1]) for i in range(187, 188)]
            singly = np.array([[r.mean[0], r.std[0]] for r in rest])
        else:
            singly = one_by_one(model, X[187:], y[187:])
            other = new(**options).partial_fit(X, y)
            for row in X[-3:]:  # with lags, a row is the next one
                np.testing.assert_allclose(model.predict(row[None]), other.predict(row[None]), rtol=1e-9)
            assert model.imputed_values_ == np.isnan(X).sum()
        found = np.concatenate([told, singly])
        expected = np.column_stack([whole.mean, whole.std])[: len(found)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    def test_a_first_gap_shortly_before_the_columns_are_measured_again(self):
        X, y = stream(1100, share=0.0)
        X[1000::5, 0] = NAN
        whole, parts = new(dynamics="walk 0.01").partial_fit(X, y), new(dynamics="walk 0.01")
        for at in range(0, 1100, 10):
            parts.partial_fit(X[at : at + 10], y[at : at + 10])
        rows = X[1000::5]
        np.testing.assert_allclose(
            parts.predict(rows, return_std=True), whole.predict(rows, return_std=True), rtol=1e-9
        )

    def test_better_than_to_skip_such_rows_or_to_fill_in_the_mean(self):
        X, y = stream(1000)
        impute = evaluate(new(), X, y)
        mean = evaluate(new(), np.where(np.isnan(X), 0.0, X), y)
        skip = evaluate(new(missing="skip"), X, y)
        error = {name: np.nanmean((r.mean - y)[WARMUP:] ** 2) for name, r in (("impute", impute), ("mean", mean))}
        assert error["impute"] < 0.5 * error["mean"]
        assert np.isnan(skip.mean).sum() == np.isnan(X).any(axis=1).sum()

    def test_the_prediction_is_less_certain_by_what_the_gap_leaves_open(self):
        X, y = stream(600, share=0.0)
        X[100, 0] = NAN
        model = new().partial_fit(X, y)
        row = np.array([[0.5, 0.5, 0.5]])
        _, whole = model.predict(row, return_std=True)
        slopes, added = [1.0, 2.0, -1.0], []
        for j in range(3):
            gap = row.copy()
            gap[0, j] = NAN
            _, std = model.predict(gap, return_std=True)
            added.append(std[0] ** 2 - whole[0] ** 2)
        # Of column 0 given 1: 0.3^2 / (1 + 0.3^2); of 1 given 0: 0.3^2; column 2 stands alone.
        expected = np.square(slopes) * [0.09 / 1.09, 0.09, 1.0]
        np.testing.assert_allclose(added, expected, rtol=0.25)
        assert np.isfinite(model.predict(np.full((1, 3), NAN))).all()

    def test_a_sensor_that_stays_away_keeps_its_bands(self):
        X, y = stream(1500, share=0.0, seed=5)
        X[700:1200, 1] = NAN
        result = evaluate(new(warmup=200), X, y)
        inside = (result.q05 <= y) & (y <= result.q95)
        assert np.isfinite(result.mean).all()
        assert abs(inside[700:1200].mean() - 0.9) < 0.05
        # It teaches about the other columns all the same, and ruins nothing.
        assert np.sqrt(np.mean((result.mean - y)[1200:] ** 2)) < 0.12

    def test_a_class_of_large_offsets(self):
        X, y = stream(400)
        clean = evaluate(new(), X, y)
        far = evaluate(new(), X * [1.0, 1e3, 1e-3] + [1e6, 1e5, 7.0], y)
        np.testing.assert_allclose(far.mean[WARMUP:], clean.mean[WARMUP:], atol=1e-3)

    def test_skip_and_raise_remain(self):
        X, y = stream()
        with pytest.raises(ValueError, match=r"^X: expected finite numbers, got NaN at row .*missing='impute'"):
            new(missing="raise").partial_fit(X, y)
        skipping = new(missing="skip").partial_fit(X, y)
        good = ~np.isnan(X).any(axis=1)
        assert (skipping.rows_, skipping.skipped_rows_) == (good.sum(), (~good).sum())
        with pytest.raises(ValueError, match="got NaN at row 0"):
            skipping.predict([[NAN, 0.0, 0.0]])
        with pytest.raises(ValueError, match="got nan at column 0"):
            skipping.predict_one([NAN, 0.0, 0.0])


class TestTargets:
    @pytest.mark.parametrize(("outputs", "start"), [(1, 0), (2, 30), (1, 150)])
    def test_a_row_without_its_target_is_predicted_and_not_learnt(self, outputs: int, start: int):
        X, y = stream(share=0.0)
        y = y if outputs == 1 else np.column_stack([y, -y])
        gone = np.zeros(ROWS, bool)
        gone[start : start + 40 : 3] = True
        targets = y.copy()
        targets[gone] = NAN
        model = new()
        result = evaluate(model, X, targets, conformal=0.9)
        without = evaluate(new(), X[~gone], y[~gone], conformal=0.9)
        np.testing.assert_allclose(result.mean[~gone], without.mean, rtol=1e-9)
        np.testing.assert_allclose(result.conformal[~gone], without.conformal, rtol=1e-9)
        assert model.rows_ == (~gone).sum()
        for name in ("mean", "std", "q05", "q50", "q95"):
            assert np.isfinite(getattr(result, name)).all()
        for name in ("pit", "crps", "log_density"):
            values = getattr(result, name)
            assert np.isnan(values[gone]).all()
            assert np.isfinite(values[~gone]).all()
        counted = result.metrics
        assert (counted["rows"], counted["unlabelled_rows"]) == (ROWS, gone.sum())
        for name in ("scored_rows", "nmse", "pll", "crps", "coverage"):
            assert counted[name] == pytest.approx(without.metrics[name], rel=1e-9), name
        for name, rival in counted["naive"].items():
            assert rival == pytest.approx(without.metrics["naive"][name], rel=1e-9), name
        assert counted["conformal"]["coverage"] == without.metrics["conformal"]["coverage"]

    def test_it_is_predicted_as_the_next_row(self):
        X, y = stream()
        model = new().partial_fit(X[:200], y[:200])
        expected = model.predict(X[200:220], return_std=True)
        result = evaluate(model, X[200:220], np.full(20, NAN))
        np.testing.assert_array_equal([result.mean, result.std], expected)
        assert model.learn_one(X[200], NAN).rows_ == 200

    def test_a_stream_may_begin_without_targets(self):
        X, y = stream()
        y[:5] = NAN
        model = new().partial_fit(X[:5], y[:5])
        assert model.rows_ == 0
        with pytest.raises(ValueError, match=r"^y: expected a row with a finite target, but all 5 are without"):
            new().fit(X[:5], y[:5])

    def test_of_a_horizon_the_forecast_waits(self):
        X, y = stream(share=0.0)
        gone = np.zeros(ROWS, bool)
        gone[[20, 21, 150]] = True
        result = evaluate(new(horizon=2), X, np.where(gone, NAN, y))
        without = evaluate(new(horizon=2), X[~gone], y[~gone])
        np.testing.assert_allclose(result.mean[~gone], without.mean, rtol=1e-9)
        np.testing.assert_array_equal(result.mean[[20, 21, 150]], result.mean[[22, 22, 151]])


class TestSkippedRows:
    def test_there_is_an_entry_for_every_row(self):
        X, y = stream()
        y[7] = NAN
        bad = np.isnan(X).any(axis=1) | np.isnan(y)
        result = evaluate(new(missing="skip"), X, y, conformal=0.9)
        without = evaluate(new(missing="skip"), X[~bad], y[~bad], conformal=0.9)
        for name in ("mean", "std", "q05", "q50", "q95", "pit", "crps", "log_density", "weights", "conformal"):
            values = getattr(result, name)
            assert len(values) == ROWS
            assert np.isnan(values[bad]).all()
            np.testing.assert_array_equal(values[~bad], getattr(without, name))
        assert result.metrics == without.metrics

    def test_of_labels_too(self):
        X, y = stream()
        bad = np.isnan(X).any(axis=1)
        labels = np.where(y > 0, "up", "down")
        result = evaluate(StreamingGPClassifier("linear", warmup=WARMUP, missing="skip"), X, labels)
        assert result.predicted[bad].tolist() == [None] * bad.sum()
        assert set(result.predicted[~bad]) == {"up", "down"}
        assert np.isnan(result.probabilities[bad]).all()


class TestOtherTargets:
    def test_labels(self):
        X, y = stream(400)
        labels = np.where(y > 0, "up", "down").astype(object)
        labels[[5, 300]] = None
        model = StreamingGPClassifier("linear", warmup=WARMUP)
        result = evaluate(model, X, labels)
        assert (model.rows_, model.imputed_values_) == (398, np.isnan(X).sum())
        assert result.metrics["error_rate"] < 0.15
        assert result.metrics["unlabelled_rows"] == 2
        np.testing.assert_allclose(result.probabilities[[5, 300]].sum(axis=1), 1.0)
        assert np.isnan(result.log_density[[5, 300]]).all()
        assert sorted(model.classes_) == ["down", "up"]

    def test_grades(self):
        X, y = stream(400)
        grades = np.digitize(y, [-1.0, 1.0]).astype(float)
        grades[[5, 300]] = NAN
        model = StreamingGPOrdinal("linear", warmup=WARMUP).partial_fit(X[:1], [1.0], grades=[0.0, 1.0, 2.0])
        result = evaluate(model, X, grades)
        assert result.metrics["unlabelled_rows"] == 2
        assert result.metrics["error_rate"] < 0.3
        assert np.isnan(result.log_density[[5, 300]]).all()

    def test_counts(self):
        X, y = stream(400)
        counts = np.random.default_rng(0).poisson(np.exp(0.3 * y)).astype(float)
        counts[[5, 300]] = NAN
        hours = np.linspace(1.0, 2.0, 400)
        model = StreamingGPCountRegressor("linear", warmup=WARMUP)
        result = evaluate(model, X, counts, exposure=hours)
        assert (model.rows_, result.metrics["unlabelled_rows"]) == (398, 2)
        assert np.isfinite(result.mean[WARMUP:]).all()
        assert np.isnan(result.crps[[5, 300]]).all()
        assert np.isfinite(model.predict([[NAN, 0.0, 0.0]], exposure=[1.0])).all()
        with pytest.raises(ValueError, match="exposure: expected finite numbers above 0, got nan"):
            model.partial_fit(X, counts, exposure=np.where(hours > 1.5, NAN, hours))
