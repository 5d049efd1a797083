"""`predict_later`, `learn_later` and `evaluate(delay=)` as a user meets them."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)

pytestmark = pytest.mark.slow

N, WARMUP = 90, 20
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=N)


def regressor(**more: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("doebe", bases=("linear",), warmup=WARMUP, **more)


def test_labels_come_later_in_any_order(tmp_path: Path):
    in_time, model = regressor().partial_fit(X[:60], Y[:60]), regressor()
    tokens = [model.predict_later(x) for x in X[:10]]
    assert [token.row for token in tokens] == list(range(10))
    for i in (3, 0, 9, 1, 2, 8, 4, 6, 7, 5):
        model.learn_later(tokens[i] if i % 2 else tokens[i].row, Y[i])
    model.partial_fit(X[10:40], Y[10:40])  # none waits
    token, after = model.predict_later(X[40]), model.predict_later(X[41])
    model.save(tmp_path / "checkpoint")
    for one in (model, StreamingGPRegressor.load(tmp_path / "checkpoint"), copy.deepcopy(model)):
        mean, std = one.predict(X[42:43], return_std=True)
        waiting = one.predict_later(X[42])
        np.testing.assert_allclose([waiting.mean, waiting.std], [mean[0], std[0]], rtol=1e-9)
        one.partial_fit(X[43:50], Y[43:50])  # while three wait
        one.learn_one(X[50], Y[50])
        one.learn_later(after, Y[41]).learn_later(waiting, Y[42]).learn_later(token, Y[40])
        one.partial_fit(X[51:60], Y[51:60])
        np.testing.assert_allclose(one.predict(X[60:]), in_time.predict(X[60:]), rtol=1e-9)
        np.testing.assert_allclose(one.predict_one(X[60]), in_time.predict_one(X[60]), rtol=1e-9)
        assert one.rows_ == 60


@pytest.mark.parametrize("kind", ["classes", "grades", "counts", "two targets"])
def test_other_targets_come_later_too(kind: str):
    more: dict[str, Any] = {}
    if kind == "classes":
        make, y, more = StreamingGPClassifier, np.where(Y > 0, "hot", "cold"), {"classes": ["cold", "hot"]}
    elif kind == "grades":
        make, y = StreamingGPOrdinal, np.digitize(Y, [-0.5, 0.5])
    elif kind == "counts":
        make, y = StreamingGPCountRegressor, np.floor(np.exp(Y + 1.0))
    else:
        make, y = StreamingGPRegressor, np.column_stack([Y, 2 * Y + X[:, 1]])
    in_time, late = (make("linear", warmup=WARMUP).partial_fit(X[:30], y[:30], **more) for _ in range(2))
    in_time.partial_fit(X[30:35], y[30:35])
    tokens = [late.predict_later(x) for x in X[30:35]]
    for i in (2, 0, 4, 3, 1):
        late.learn_later(tokens[i], y[30 + i])
    np.testing.assert_allclose(late._predict(X[:5], None).loc, in_time._predict(X[:5], None).loc, rtol=1e-9)
    if kind in ("classes", "grades"):
        np.testing.assert_allclose(tokens[0].probabilities.sum(), 1.0)
    else:
        assert np.shape(tokens[0].mean) == np.shape(y[0])


def test_bad_tokens_and_targets_change_nothing():
    model = regressor(missing="raise")
    with pytest.raises(ValueError, match="has not seen any row"):
        model.learn_later(0, 1.0)
    token = model.predict_later(X[0])
    before = model.predict(X[:3])
    bad: list[tuple[Any, Any, str]] = [
        (7, 1.0, "one of the 1 rows that came, got 7"),
        ("0", 1.0, "what predict_later returned"),
        (True, 1.0, "what predict_later returned"),
        (token, [1.0, 2.0], r"expected shape \(\)"),
        (token, np.nan, "expected finite numbers"),
    ]
    for given, y, why in bad:
        with pytest.raises(ValueError, match=why):
            model.learn_later(given, y)
    with pytest.raises(ValueError, match="expected one row"):
        model.predict_later(X[:2])
    np.testing.assert_array_equal(model.predict(X[:3]), before)
    model.learn_later(token, Y[0])
    with pytest.raises(ValueError, match="row 0 has its label"):
        model.learn_later(token, Y[0])
    with pytest.raises(ValueError, match="without a horizon"):
        regressor(horizon=2).predict_later(X[0])


def test_a_delay_is_that_of_the_rows_that_are_known():
    k = 4
    found = evaluate(regressor(), X, Y, delay=k)
    for row in (WARMUP + k + 1, 60, N - 1):
        # The rows that wait are time that has passed.
        known = row - k
        exact = regressor().partial_fit(X[:known], Y[:known], times=np.arange(known))
        mean, std = exact.predict(X[row : row + 1], return_std=True, times=[row])
        np.testing.assert_allclose([found.mean[row], found.std[row]], [mean[0], std[0]], rtol=1e-9)
    assert found.metrics["late_labels"] == {
        "delay": k,
        "never": 0,
        "too_late": 0,
        "on_the_way": 0,
        "limit": 1000,
    }
    in_time = evaluate(regressor(), X, Y)
    np.testing.assert_array_equal(evaluate(regressor(), X, Y, delay=0).mean, in_time.mean)
    assert "late_labels" not in in_time.metrics


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("timed", [False, True])
def test_a_column_tells_when_labels_come(frame: Any, timed: bool):
    k, times = 4, np.arange(N) * 10.0 + 5.0 if timed else None
    when = np.arange(N) + k + 1.0 if times is None else times + 10.0 * (k + 1)
    table = frame({"a": X[:, 0], "b": X[:, 1], "known": when})
    found, fixed = evaluate(regressor(), table, Y, times, delay="known"), evaluate(regressor(), X, Y, times, delay=k)
    np.testing.assert_allclose(found.mean, fixed.mean, rtol=1e-9)
    model, some = regressor(), np.where(np.arange(N) % 9, when, np.nan)
    evaluate(model, frame({"a": X[:, 0], "b": X[:, 1], "known": some}), Y, times, delay="known")
    assert model.rows_ == N - N // 9
    assert list(model.feature_names_in_) == ["a", "b"]


def test_bad_delays_are_refused():
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "text": ["later"] * N})
    bad: list[tuple[Any, Any, dict[str, Any], str]] = [
        (regressor(), X, {"delay": -1}, "0 or more"),
        (regressor(), X, {"delay": 1.5}, "0 or more"),
        (regressor(), X, {"delay": True}, "0 or more"),
        (regressor(), X, {"delay": "a"}, "as a data frame"),
        (regressor(), table, {"delay": "c"}, "one of the columns a, b, text, got 'c'"),
        (regressor(), table, {"delay": "text"}, "number of rows after which"),
        (regressor(), table[:, :2], {"delay": "a", "conformal": 0.9}, "in time, or so many rows late"),
        (regressor(horizon=2), X, {"delay": 3}, "without a horizon"),
        (regressor(lags=(3,)), X, {"delay": 3}, "lags above the delay of 3 rows"),
    ]
    for model, inputs, options, why in bad:
        with pytest.raises(ValueError, match=why):
            evaluate(model, inputs, Y, **options)
        assert not hasattr(model, "_learner")
    model = regressor()
    model.predict_later(X[0])
    with pytest.raises(ValueError, match="1 rows wait for their label"):
        evaluate(model, X, Y)


def test_lags_and_bands_know_what_has_come():
    y = np.zeros(300)
    noise = np.random.default_rng(1).normal(size=300)
    for t in range(5, 300):
        y[t] = 0.95 * y[t - 5] + 0.3 * noise[t]
    model = StreamingGPRegressor("linear", warmup=100, lags="auto")
    found = evaluate(model, np.zeros((300, 0)), y, delay=4, conformal=0.9)
    assert min(model._learner.spec.lags) == 5
    assert found.metrics["nmse"] < 0.3
    assert 0.8 < found.metrics["conformal"]["coverage"] < 0.98
    # The last target known is that of five rows before.
    errors = y[100:] - y[95:-5]
    np.testing.assert_allclose(found.metrics["naive"]["persistence"]["rmse"], np.sqrt(np.mean(errors**2)))
