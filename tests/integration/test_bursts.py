"""Past targets as inputs where outliers come in bursts: the rows after the first are told of it, glitches are not."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, evaluate

pytestmark = pytest.mark.slow

WARMUP, ROWS, EVERY, SIZE, NOISE = 200, 1_200, 40, 6.0, 0.1


def stream(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, a slowly moving target with a burst of `length` rows now and then, and where bursts begin."""
    rng = np.random.default_rng(5)
    y = np.sin(np.arange(ROWS) / 15.0) + NOISE * rng.normal(size=ROWS)
    begins = np.arange(EVERY, ROWS - 5, EVERY)
    for begin in begins:
        y[begin : begin + length] += SIZE * rng.choice([-1.0, 1.0])
    return rng.normal(size=(ROWS, 1)), y, begins


def new(robust: bool = True, **options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **{"lags": 1} | options, robust=robust, warmup=WARMUP, random_state=0)


def floods(seed: int) -> np.ndarray:
    """Return a target that rises now and then, and recedes by 0.7 a row."""
    rng = np.random.default_rng(seed)
    y, rises = np.zeros(ROWS), (rng.random(ROWS) < 0.02) * rng.uniform(5.0, 15.0, ROWS)
    for i in range(1, ROWS):
        y[i] = 0.7 * y[i - 1] + rises[i] + NOISE * rng.normal()
    return y


@cache
def predicted(length: int, robust: bool) -> np.ndarray:
    X, y, _ = stream(length)
    return evaluate(new(robust), X, y, progress=False).mean


def rmse_after(length: int, robust: bool) -> float:
    """Return the error of the rows after the first rows of later bursts."""
    _, y, begins = stream(length)
    rows = begins[begins > ROWS // 2] + 1
    return float(np.sqrt(np.mean(np.square(predicted(length, robust)[rows] - y[rows]))))


def test_the_second_row_of_a_burst_is_told_of_the_first():
    assert rmse_after(4, True) < 0.5 * SIZE
    assert rmse_after(4, True) < 1.3 * rmse_after(4, False)


def test_the_row_after_a_glitch_is_not():
    assert rmse_after(1, True) < 3.0 * NOISE
    assert rmse_after(1, True) < 0.2 * rmse_after(1, False)


@pytest.mark.parametrize("stop", [2 * EVERY + 1, 25 * EVERY, 25 * EVERY + 1])
def test_chunks_and_a_stop_inside_a_burst_give_the_same_numbers(stop: int, tmp_path: Path):
    X, y, _ = stream(3)
    model = new()
    parts = [evaluate(model, X[:stop], y[:stop], progress=False).mean]
    model.save(tmp_path / "c")
    model = StreamingGPRegressor.load(tmp_path / "c")
    for rows in np.array_split(np.arange(stop, ROWS), 7):
        parts.append(evaluate(model, X[rows], y[rows], progress=False).mean)
    np.testing.assert_allclose(np.concatenate(parts), predicted(3, True), rtol=1e-9, atol=1e-12)


def test_floods_are_followed_nearly_as_without_a_guard():
    y = floods(seed=0)
    X, late = np.empty((ROWS, 0)), slice(ROWS // 2, None)  # once the first have been confirmed
    receding = y[late] < y[ROWS // 2 - 1 : -1] - 4.0 * NOISE
    found = [evaluate(new(robust), X, y, progress=False) for robust in (True, False)]
    robust, plain = (np.square(each.mean - y)[late][receding].mean() for each in found)
    assert robust < 10.0 * plain  # 200 times and more where predictions stand for all outliers


@pytest.mark.parametrize("options", [{"lags": 2}, {"lags": (1, 3), "horizon": 1}, {"horizon": 3}], ids=str)
def test_chunks_and_a_stop_give_the_same_numbers_whatever_saw_the_outlier(options: dict[str, Any], tmp_path: Path):
    y, X, stop = floods(0), np.empty((ROWS, 0)), 611
    whole = evaluate(new(**options), X, y, progress=False).mean
    model = new(**options)
    parts = [evaluate(model, X[:stop], y[:stop], progress=False).mean]
    model.save(tmp_path / "c")
    model = StreamingGPRegressor.load(tmp_path / "c")
    parts += [
        evaluate(model, X[rows], y[rows], progress=False).mean for rows in np.array_split(np.arange(stop, ROWS), 9)
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-9, atol=1e-12)


def test_single_rows_give_the_same_numbers():
    X, y, _ = stream(3)
    model = new().partial_fit(X[:WARMUP], y[:WARMUP])
    means = []
    for i in range(WARMUP, ROWS):
        means.append(model.predict_one(X[i])[0])
        model.learn_one(X[i], y[i])
    np.testing.assert_allclose(means, predicted(3, True)[WARMUP:], rtol=1e-9, atol=1e-12)
