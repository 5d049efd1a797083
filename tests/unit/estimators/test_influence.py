"""Importance on streams whose shares of the variance are known."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPRegressor

N = 1500
WITHIN = 0.05
RNG = np.random.default_rng(3)


def normal(columns: int) -> np.ndarray:
    return RNG.normal(size=(N, columns))


def learnt(X: Any, y: Any, model: str = "linear", **options: Any) -> StreamingGPRegressor:
    settings: dict[str, Any] = {"warmup": 200} | options
    return StreamingGPRegressor(model, **settings).partial_fit(X, y)


def check(found: dict[str, float], want: Any) -> None:
    assert found == pytest.approx({f"x{i}": share for i, share in enumerate(want)}, abs=WITHIN)
    assert sum(found.values()) <= 1.0 and min(found.values()) >= 0.0


def independent() -> tuple[np.ndarray, np.ndarray, Any]:
    X = normal(3)
    return X, X @ [3.0, 2.0, 1.0] + 0.1 * RNG.normal(size=N), np.array([9, 4, 1]) / 14


def with_noise() -> tuple[np.ndarray, np.ndarray, Any]:
    X, y, shares = independent()
    return X, y + np.sqrt(14.0) * RNG.normal(size=N), shares / 2


def copies() -> tuple[np.ndarray, np.ndarray, Any]:
    z = normal(2)
    X = np.column_stack([z, z[:, 0]])
    return X, X @ [2.0, 1.0, 0.0] + 0.1 * RNG.normal(size=N), [0.4, 0.2, 0.4]


def near_copies() -> tuple[np.ndarray, np.ndarray, Any]:
    z = normal(3)
    X = np.column_stack([z[:, 0], z[:, 1], z[:, 0] + 1e-3 * z[:, 2]])
    return X, X @ [2.0, 1.0, 0.0] + 0.1 * RNG.normal(size=N), [0.4, 0.2, 0.4]


def correlated() -> tuple[np.ndarray, np.ndarray, Any]:
    z, rho = normal(2), 0.8
    X = np.column_stack([z[:, 0], rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]])
    one = 4 * (1 - rho**2 / 2) + 2 * rho + rho**2 / 2  # Owen and Prieur (2017)
    total = 5 + 4 * rho
    return X, X @ [2.0, 1.0] + 0.1 * RNG.normal(size=N), [one / total, 1 - one / total]


def standing_still() -> tuple[np.ndarray, np.ndarray, Any]:
    X = normal(2) * [np.sqrt(24.0), 1.0]
    X[-64:, 0] = X[-65, 0]
    return X, X.sum(axis=1) + 0.1 * RNG.normal(size=N), [0.96, 0.04]


def growing_inputs() -> tuple[np.ndarray, np.ndarray, Any]:
    X = normal(2) * np.linspace(1.0, 20.0, N)[:, None]
    return X, X @ [3.0, 1.0] + 0.1 * RNG.normal(size=N), [0.9, 0.1]


def growing_slopes() -> tuple[np.ndarray, np.ndarray, Any]:
    X = normal(2)
    return X, np.linspace(1.0, 20.0, N) * (X @ [3.0, 1.0]), [0.9, 0.1]


def drifting_level() -> tuple[np.ndarray, np.ndarray, Any]:
    X, level = normal(1), np.cumsum(RNG.normal(size=N))
    return X, X[:, 0] + level, [1.0 / (1.0 + level.var())]


def drawn(case: Callable[[], Any], seed: int) -> Any:
    global RNG
    RNG = np.random.default_rng(seed)
    return case()


PLANES = (
    independent,
    with_noise,
    copies,
    near_copies,
    correlated,
    standing_still,
    growing_inputs,
    growing_slopes,
    drifting_level,
)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", PLANES, ids=lambda case: case.__name__)
def test_known_shares_of_planes(case: Callable[[], Any], seed: int):
    X, y, want = drawn(case, seed)
    check(learnt(X, y).feature_importance(), want)


@pytest.mark.slow
def test_glitches_and_gaps_leave_the_shares_as_they_are():
    X, y, want = drawn(independent, 0)
    X[[900, 1400], [0, 1]] = 1e12, -1e12
    y[[700, 1300]] = 1e12
    X[RNG.random(X.shape) < 0.01] = np.nan
    check(learnt(X, y, "fast").feature_importance(), want)


@pytest.mark.slow
def test_an_interaction_and_a_curve():
    X = drawn(lambda: normal(3), 0)
    check(learnt(X, X[:, 0] * X[:, 1], "fast").feature_importance(), [0.5, 0.5, 0.0])
    y = np.sin(2.0 * X[:, 0])
    check(learnt(X, y, "fast").feature_importance(), [1.0, 0.0, 0.0])


def test_past_targets_have_their_share():
    X = drawn(lambda: normal(1), 0)
    noise, y = RNG.normal(size=N), np.zeros(N)
    for i in range(1, N):
        y[i] = 0.9 * y[i - 1] + X[i, 0] + 0.1 * noise[i]
    found = learnt(X, y, lags=[1]).feature_importance()
    assert found == pytest.approx({"past targets": 0.81, "x0": 0.19}, abs=WITHIN)
    alone = learnt(np.zeros((N, 0)), y, lags=[1, 2]).feature_importance()
    assert alone == pytest.approx({"past targets": 0.81}, abs=WITHIN)


def test_a_column_of_the_same_name_as_the_past_targets_stays_an_entry():
    import polars as pl

    X, y, _ = drawn(independent, 0)
    frame = pl.DataFrame({"past targets": X[:, 0], "other": X[:, 1]})
    found = learnt(frame, y, lags=[1]).feature_importance()
    assert set(found) == {"past targets", "other", "past targets of the model"}
    assert found["past targets"] == pytest.approx(9 / 14, abs=WITHIN)


def shares_of(model: Any) -> list[float]:
    return list(model.feature_importance().values())


def test_row_by_row_in_chunks_resumed_and_late_are_the_same(tmp_path: Path):
    X, y, _ = drawn(correlated, 0)
    X, y = X[:400], y[:400]
    options: dict[str, Any] = {"warmup": 100, "lags": [1]}
    whole = shares_of(learnt(X, y, **options))
    rows, chunks, late = (StreamingGPRegressor("linear", **options) for _ in range(3))
    for i in range(len(y)):
        if i < 150:
            rows.learn_one(X[i], y[i])
        else:
            rows.partial_fit(X[i : i + 1], y[i : i + 1])
    for i in range(0, len(y), 37):
        chunks.partial_fit(X[i : i + 37], y[i : i + 37])
        if i == 185:
            chunks.save(tmp_path / "model")
            chunks = StreamingGPRegressor.load(tmp_path / "model")
    waiting: list[Any] = []
    for i in range(len(y)):
        waiting.append((late.predict_later(X[i]), y[i]))
        if len(waiting) > 5:
            late.learn_later(*waiting.pop(0))
    for each in waiting:
        late.learn_later(*each)
    for model in (rows, chunks, late):
        assert shares_of(model) == pytest.approx(whole, rel=1e-9, abs=1e-12)


def test_several_targets_some_of_them_missing():
    X = drawn(lambda: normal(2), 0)
    y = X @ np.array([[3.0, 0.0], [1.0, 1.0]]) + 0.1 * normal(2)
    y[::7, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learnt(X, y).feature_importance()
    assert found["x0"] == pytest.approx([0.9, 0.0], abs=WITHIN)
    assert found["x1"] == pytest.approx([0.1, 1.0], abs=WITHIN)


def test_labels_and_counts_sum_to_at_most_one_however_sure():
    X = drawn(lambda: normal(3), 0)
    X = np.column_stack([X, X[:, 0]])
    sure = StreamingGPClassifier("linear", warmup=200).partial_fit(X, np.where(X[:, 0] > 0, "a", "b"))
    found = sure.feature_importance()
    assert 0.5 < sum(found.values()) <= 1.0
    assert found["x0"] == pytest.approx(found["x3"], abs=0.01) and found["x1"] < 0.05
    y = RNG.poisson(np.exp(2.0 + X[:, 0]))
    counted = StreamingGPCountRegressor("linear", warmup=200).partial_fit(X, y).feature_importance()
    assert 0.5 < sum(counted.values()) <= 1.0
    assert counted["x0"] == pytest.approx(counted["x3"], abs=0.02)


def test_in_the_warmup_there_are_shares_too():
    X, y, want = drawn(independent, 1)
    check(learnt(X, y, warmup=2000).feature_importance(), want)
