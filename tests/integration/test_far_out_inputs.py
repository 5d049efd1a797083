"""Inputs far out of what was seen: codes for missing values, glitches, and those that are real."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from linear_user import x64  # noqa: F401 (a fixture for every test here)
from streamgp import StreamingGPClassifier, StreamingGPRegressor, evaluate
from streamgp.numerics.standardise import far_out

pytestmark = pytest.mark.slow

ROWS, WARMUP = 700, 200
NAN = np.nan


def inputs(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """The first input is 20 +- 5; two more are standard normal."""
    return np.random.default_rng(seed).normal(size=(rows, 3)) * [5.0, 1.0, 1.0] + [20.0, 0.0, 0.0]


def targets(X: np.ndarray) -> np.ndarray:
    return X @ [0.6, 1.0, 1.0] + 0.3 * np.random.default_rng(1).normal(size=len(X))


def some(share: float = 0.05, start: int = WARMUP, seed: int = 2, rows: int = ROWS) -> np.ndarray:
    """Return which rows are to be disturbed."""
    return (np.random.default_rng(seed).random(rows) < share) & (np.arange(rows) >= start)


def having(X: np.ndarray, rows: np.ndarray, value: Any) -> np.ndarray:
    """Return the same with another first input in some rows."""
    changed = X.copy()
    changed[rows, 0] = value
    return changed


def new(model: str = "linear", **options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor(model, **({"warmup": WARMUP, "robust": True} | options))


def held(result: Any, y: np.ndarray, rows: np.ndarray) -> float:
    """Return how many of the targets the 90% band holds."""
    return float(np.mean(((result.q05 <= y) & (y <= result.q95))[rows]))


class TestCodes:
    @pytest.mark.parametrize(("model", "rows"), [("linear", ROWS), ("default", 420)])
    def test_a_code_is_what_a_missing_value_is(self, model: str, rows: int):
        X, bad = inputs(rows), some(rows=rows)
        y = targets(X)
        code, gap = (evaluate(new(model), having(X, bad, value), y) for value in (-9999.0, NAN))
        assert_allclose(code.mean, gap.mean, rtol=1e-9)
        assert_allclose(code.std, gap.std, rtol=1e-9)
        assert held(code, y, bad) > 0.5  # of 7 or 19 rows; a third where a code is taken for a value
        assert np.abs((code.mean - y) / code.std)[bad].max() < 4.0

    @pytest.mark.parametrize(("code", "rounded"), [(-45.0, False), (-99.9, True), (999.0, False), (999.0, True)])
    def test_it_ruins_neither_its_rows_nor_the_others(self, code: float, rounded: bool):
        X, bad = inputs(), some()
        X = X.round(1) if rounded else X
        y, again = targets(X), bad.copy()
        again[np.argmax(bad)] = False  # it was new, and may have been real
        disturbed, clean = evaluate(new(), having(X, bad, code), y), evaluate(new(), X, y)
        usual = ~bad & (np.arange(ROWS) >= WARMUP)
        assert np.abs((disturbed.mean - clean.mean) / clean.std)[usual].max() < 0.2
        assert np.abs(disturbed.mean - y)[again].max() < 10.0  # of an input that is worth 3 +- 3
        assert np.abs((disturbed.mean - y) / disturbed.std)[bad].max() < 4.0
        assert held(disturbed, y, bad) > 0.6

    def test_a_sensor_that_is_away_for_long(self):
        X = inputs()
        y, out = targets(X), (np.arange(ROWS) >= 300) & (np.arange(ROWS) < 500)
        result = evaluate(new(), having(X, out, -9999.0), y)
        assert abs(held(result, y, out) - 0.9) < 0.08
        assert np.sqrt(np.mean((result.mean - y)[500:] ** 2)) < 0.35

    def test_in_the_warm_up_a_few_are_as_good_as_missing(self):
        X, bad = inputs(), some(share=0.015, start=20)
        y = targets(X)
        code, gap = (evaluate(new(), having(X, bad, value), y) for value in (-9999.0, NAN))
        after = np.arange(ROWS) >= WARMUP
        assert np.abs((code.mean - gap.mean) / gap.std)[after].max() < 0.1

    def test_labels_are_learnt_all_the_same(self):
        X, out = inputs(400), np.arange(400) >= 250
        found = []
        for value in (-9999.0, NAN):
            model = StreamingGPClassifier("linear", robust=True, warmup=WARMUP)
            model.partial_fit(having(X, out, value), (X[:, 1] > 0.0) ^ out)  # what they mean changes as well
            found.append(model.predict_proba(having(X[-50:], out[-50:], value)))
        assert_allclose(*found, rtol=1e-9)


class TestFarOut:
    @pytest.mark.parametrize("model", ["fast", "linear"])
    def test_it_is_at_least_as_uncertain_as_if_it_were_missing(self, model: str):
        X = inputs()
        learnt = new(model).partial_fit(X, targets(X))
        row = X[:1] * [NAN, 1.0, 1.0]
        (missing,), (std,) = learnt.predict(row, return_std=True)
        for value in (-45.0, 100.0, 1e6, -9999.0):
            (mean,), (wide,) = learnt.predict(having(row, np.array([True]), value), return_std=True)
            assert wide > 0.999 * std
            assert abs(mean - missing) < 5.0 * wide

    def test_glitches_are_no_part_of_what_is_learnt(self):
        X, bad = inputs(), some(share=0.015)
        y = targets(X)
        glitches = having(X, bad, 1e4 * np.random.default_rng(3).normal(size=bad.sum()))
        result, gaps = evaluate(new(), glitches, y), evaluate(new(), having(X, bad, NAN), y)
        usual = ~bad & (np.arange(ROWS) >= WARMUP)
        assert np.abs((result.mean - gaps.mean) / gaps.std)[usual].max() < 0.1
        assert held(result, y, bad) > 0.7

    @pytest.mark.parametrize("options", [{}, {"lags": 2, "dynamics": "walk 0.001"}, {"horizon": 3}])
    def test_however_the_rows_are_cut(self, options: dict[str, Any], tmp_path: Path):
        X = inputs()
        X = having(X, some(), -9999.0)
        X = having(X, some(0.03, seed=3), np.nan)
        X = having(X, some(0.02, 20, seed=4), 150.0 + np.arange(some(0.02, 20, seed=4).sum()))
        X[600:, 1] += 9.0
        y = targets(inputs())
        whole, model = evaluate(new(**options), X, y), new(**options)
        parts = [evaluate(model, X[at : at + 17], y[at : at + 17]) for at in range(0, 408, 17)]
        model.save(tmp_path / "kept")
        model = StreamingGPRegressor.load(tmp_path / "kept")
        found = [np.column_stack([part.mean, part.std]) for part in parts]
        if "horizon" in options:  # there predict_one tells of a later row
            found += [np.column_stack([r.mean, r.std]) for r in (evaluate(model, X[408:], y[408:]),)]
        else:
            for x, target in zip(X[408:], y[408:], strict=True):
                found.append(np.reshape(model.predict_one(x), (1, 2)))
                model.learn_one(x, target)
        expected = np.column_stack([whole.mean, whole.std])
        assert_allclose(np.concatenate(found), expected, rtol=1e-9, atol=1e-9)
        at_once = new(**options).partial_fit(X, y)
        assert model.outside_rows_ == at_once.outside_rows_ > 20


class TestReal:
    def test_a_drift_is_followed(self):
        X = inputs()
        X[:, 0] += np.maximum(np.arange(ROWS) - WARMUP, 0) * 0.5
        y = targets(X)
        result = evaluate(new(), X, y)
        error = np.sort(np.abs(result.mean - y)[WARMUP:])
        assert np.sqrt(np.mean(error[:-12] ** 2)) < 0.32  # but for a few rows in which it went beyond the range
        assert error[-1] < 6.0
        assert abs(held(result, y, np.arange(ROWS) >= WARMUP) - 0.9) < 0.05

    @pytest.mark.parametrize("by", [80.0, 1000.0])
    def test_a_jump_is_followed_from_its_sixth_row_on(self, by: float):
        X = inputs()
        X[400:, 0] += by
        y = targets(X)
        result = evaluate(new(), X, y)
        assert np.abs(result.mean - y)[405:].max() < 0.01 * by + 1.5

    def test_a_heavy_tail_is_taken_as_it_is(self):
        X = inputs()
        X[:, 0] = np.exp(np.random.default_rng(5).normal(size=ROWS))
        y = targets(X)
        model = new()
        result = evaluate(model, X, y)
        assert np.sqrt(np.mean((result.mean - y)[WARMUP:] ** 2)) < 0.35
        assert model.outside_rows_ < 3

    def test_a_machine_that_is_switched_off_is_believed_for_its_targets(self):
        X = inputs()
        X[400:600, 0] = -200.0
        y = targets(X)
        result = evaluate(new(), X, y)
        assert np.abs(result.mean - y)[407:].max() < 12.0
        assert np.sqrt(np.mean((result.mean - y)[430:] ** 2)) < 1.2
        parts, singly = new().partial_fit(X[:395], y[:395]), []
        for x, target in zip(X[395:500], y[395:500], strict=True):
            singly.append(parts.predict_one(x))
            parts.learn_one(x, target)
        assert_allclose(singly, np.column_stack([result.mean, result.std])[395:500], rtol=1e-9, atol=1e-9)

    def test_a_new_level_is_followed(self):
        X = inputs()
        X[:, 0] = np.random.default_rng(5).integers(0, 3, ROWS)
        X[400:, 0] = 6.0
        y = targets(X)
        result = evaluate(new(), X, y)
        assert np.sqrt(np.mean((result.mean - y)[410:] ** 2)) < 0.4


class TestHeavyTails:
    """The largest values of a heavy tail are measurements: in the warm-up they are learnt, after it believed."""

    def stream(self) -> tuple[np.ndarray, np.ndarray]:
        """The first input has a heavy tail of which the target keeps the sign alone."""
        X = inputs()
        X[:, 0] = np.exp(2.0 * np.random.default_rng(5).normal(size=ROWS))
        signs = np.where(X[:, 0] > 25.0, -5.0, 5.0)
        return X, signs + X[:, 1] + 0.3 * np.random.default_rng(1).normal(size=ROWS)

    def test_of_the_warm_up_only_values_that_would_be_in_doubt_after_it_are_filled(self):
        X, y = self.stream()
        X, y = X[:WARMUP], y[:WARMUP]
        X[60, 0] = 3.0 * X[:, 0].max()
        assert far_out(X)[60, 0]
        read = new("linear").partial_fit(X, y)._learner.state.inputs
        assert_allclose(read.refill(X, robust=True)[0], X)
        X[61, 0] = -9999.0
        filled, _ = read.refill(X, robust=True)
        assert 0.0 < abs(filled[61, 0]) < X[:, 0].max()
        assert_allclose(np.delete(filled, 61, axis=0), np.delete(X, 61, axis=0))

    def test_a_value_beyond_the_bounds_of_a_heavy_tail_adds_less_variance(self):
        X, y = self.stream()
        read = new("linear").partial_fit(X[:WARMUP], y[:WARMUP])._learner.state.inputs
        read = replace(read, gains=np.full(3, 1e-7))  # so small that the variance is below its limit
        bounds, lightness = read.bounds, np.asarray(read.bounds.lightness)
        assert lightness[0] < 0.7
        assert lightness[1] > 0.99
        if_light = replace(read, bounds=replace(bounds, lightness=np.ones_like(lightness)))
        for column, share in ((0, lightness[0] ** 2), (1, 1.0)):
            row = X[:1].copy()
            row[0, column] = 1.3 * bounds.limits[column]
            extra, light = (each.fill(row)[1].item() for each in (read, if_light))
            assert extra > 0.0
            assert_allclose(extra / light, share, rtol=0.05)
