"""The adapters for river: river's own checks, and the same numbers as the estimators'."""

import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamgp import StreamingGPClassifier, StreamingGPRegressor

pytest.importorskip("river")
from river import checks, compose, preprocessing

from streamgp.adapters.river import (
    RiverAnomalyDetector,
    RiverClassifier,
    RiverForecaster,
    RiverRegressor,
)

WARMUP = 40
pytestmark = pytest.mark.slow


def rows(n: int, seed: int = 0) -> tuple[list[dict[str, float]], np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return [dict(zip("abcd", x, strict=True)) for x in X.tolist()], X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)


# River's own checks, on streams that need no network and are short


def streams(model: Any, scale: int = 1) -> Iterator[list[tuple[dict[str, float], Any]]]:
    xs, y = rows(40 * scale)
    if isinstance(model, RiverAnomalyDetector):
        odd = np.random.default_rng(1).random(len(xs)) < 0.05
        yield [({k: v + 6.0 * o for k, v in x.items()}, int(o)) for x, o in zip(xs, odd, strict=True)]
    elif isinstance(model, RiverClassifier):
        yield list(zip(xs, y > 0, strict=True))  # bools of NumPy
        yield list(zip(xs, np.digitize(y, [-1.0, 1.0]).tolist(), strict=True))
    else:
        yield list(zip(xs, y.tolist(), strict=True))


MODELS: dict[str, Callable[[], Any]] = {
    "regressor": lambda: RiverRegressor("linear", warmup=24),
    "classifier": lambda: RiverClassifier("linear", warmup=24),
    "anomaly detector": lambda: RiverAnomalyDetector("linear", warmup=24),
    "forecaster": lambda: RiverForecaster("linear", warmup=20),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_checks_of_river(name: str, monkeypatch: pytest.MonkeyPatch):
    model = MODELS[name]()
    if name != "forecaster":  # river's own stream of it is short
        monkeypatch.setattr(checks, "_yield_datasets", streams)
    assert not model._unit_test_skips()
    assert len(list(checks.yield_checks(model))) >= 16
    checks.check_estimator(model)


# The same numbers as the estimators'


def test_the_regressor_is_the_estimator():
    xs, y = rows(90)
    X = np.array([list(x.values()) for x in xs])
    ours = RiverRegressor("linear", warmup=WARMUP, spare_features=0)
    theirs = StreamingGPRegressor("linear", warmup=WARMUP)
    for i, x in enumerate(xs):
        if i:
            mean, std = theirs.predict(X[i : i + 1], return_std=True)
            found = ours.predict_one(x, with_dist=True)
            np.testing.assert_allclose([found.mu, found.sigma], [mean[0], std[0]], rtol=1e-9)
            assert ours.predict_one(x) == found.mu
            wanted = theirs.predict_quantiles(X[i : i + 1], [0.9])[0]
            np.testing.assert_allclose(ours.predict_dist(x).quantile(0.9), wanted, rtol=1e-9)
        ours.learn_one(x, y[i])
        theirs.partial_fit(X[i : i + 1], y[i : i + 1])


def test_the_classifier_is_the_estimator():
    xs, f = rows(70)
    X, y = np.array([list(x.values()) for x in xs]), np.where(f > 0, "up", "down")
    ours = RiverClassifier("linear", warmup=WARMUP, spare_features=0)
    assert ours.predict_proba_one(xs[0]) == {}
    assert ours.predict_one(xs[0]) is None
    theirs = StreamingGPClassifier("linear", warmup=WARMUP)
    for i, x in enumerate(xs):
        if i and i % 7 == 0:
            wanted = dict(zip(theirs.classes_.tolist(), theirs.predict_proba(X[i : i + 1])[0], strict=True))
            assert ours.predict_proba_one(x) == {label: pytest.approx(p, rel=1e-9) for label, p in wanted.items()}
            assert ours.predict_one(x) == theirs.predict(X[i : i + 1])[0]
        ours.learn_one(x, str(y[i]))
        theirs.partial_fit(X[i : i + 1], y[i : i + 1])


def test_the_forecaster_is_the_estimator():
    y = np.sin(np.arange(120) / 4.0) + 0.05 * np.random.default_rng(0).normal(size=120)
    ours = RiverForecaster("linear", lags=(1, 2), warmup=WARMUP)
    assert ours.forecast(2) == [0.0, 0.0]
    for each in y:
        ours.learn_one(each)
    theirs = StreamingGPRegressor("linear", lags=(1, 2), warmup=WARMUP).partial_fit(np.empty((120, 0)), y)
    frame = theirs.forecast(5)
    np.testing.assert_allclose(ours.forecast(5), frame["mean"], rtol=1e-9)
    found = ours.forecast(5, with_dist=True)
    np.testing.assert_allclose([each.sigma for each in found], frame["std"], rtol=1e-9)
    assert np.abs(np.array(ours.forecast(5)) - np.sin(np.arange(120, 125) / 4.0)).max() < 0.3
    with pytest.raises(ValueError, match="xs: expected the features of 3 steps, got 1"):
        ours.forecast(3, [{}])


@pytest.mark.parametrize("cut", [1, 30, 55])
def test_many_rows_are_rows_one_by_one_and_a_pickle_goes_on(cut: int):
    xs, y = rows(80)
    one, many = (RiverRegressor("linear", warmup=WARMUP) for _ in range(2))
    for x, target in zip(xs, y, strict=True):
        one.learn_one(x, target)
    many.learn_many(pd.DataFrame(xs[:cut]), pd.Series(y[:cut]))
    before = many.predict_one(xs[0])
    many = pickle.loads(pickle.dumps(many))
    assert many.predict_one(xs[0]) == pytest.approx(before, rel=1e-12)
    many.learn_many(pd.DataFrame(xs[cut:]), pd.Series(y[cut:]))
    frame = pd.DataFrame(xs[:5], index=list("vwxyz"))
    found = many.predict_many(frame)
    assert found.index.tolist() == list("vwxyz")
    np.testing.assert_allclose(found, [one.predict_one(x) for x in xs[:5]], rtol=1e-9)


# Features that come and go


def test_a_feature_that_comes_in_the_warmup_is_learnt():
    xs, _ = rows(400)
    y = np.array([3.0 * x["a"] - 2.0 * x["d"] for x in xs])
    model = RiverRegressor("linear", warmup=200)
    for i, x in enumerate(xs):
        model.learn_one(x if i > 20 else {"a": x["a"]}, y[i])
    test, _ = rows(20, seed=9)
    errors = [model.predict_one(x) - (3.0 * x["a"] - 2.0 * x["d"]) for x in test]
    assert np.sqrt(np.mean(np.square(errors))) < 0.2
    known = [model.predict_one({"a": x["a"]}) - 3.0 * x["a"] for x in test]  # `d` is filled by its mean
    assert np.sqrt(np.mean(np.square(known))) < 0.5


def test_features_without_room_are_left_out_with_a_warning():
    xs, y = rows(60)
    model = RiverRegressor("linear", warmup=WARMUP, spare_features=1)
    model.learn_one({"a": 1.0}, 0.0)
    model.learn_one({"a": 0.0, "b": 1.0}, 0.0)
    with pytest.warns(
        UserWarning, match="the feature 'c' is left out, and so are further new ones: there was room for 1"
    ):
        model.learn_one({"a": 1.0, "c": 0.5}, 0.0)
    model.learn_one({"a": 1.0, "d": 0.5}, 0.0)  # said once
    for x, target in zip(xs, y, strict=True):
        model.learn_one(x, target)
    assert model.predict_one(xs[0]) == model.predict_one({name: xs[0][name] for name in "ab"})
    with pytest.raises(ValueError, match="x: expected a number for the feature 'a', got 'red'; encode text first"):
        RiverRegressor("linear").learn_one({"a": "red"}, 0.0)
    with pytest.raises(ValueError, match="spare_features: expected a whole number from 0, got -1"):
        RiverRegressor(spare_features=-1)


def test_a_target_that_is_missing_teaches_nothing():
    xs, y = rows(80)
    model = RiverRegressor("linear", warmup=WARMUP)
    for x, target in zip(xs, y, strict=True):
        model.learn_one(x, target)
    before = model.predict_one(xs[0])
    model.learn_one(xs[1], None)
    assert model.predict_one(xs[0]) == pytest.approx(before, rel=1e-9)


# In a pipeline, and without river


def test_in_a_pipeline_of_river():
    xs, y = rows(120)
    model = compose.Select("a", "b") | preprocessing.StandardScaler() | RiverRegressor("linear", warmup=WARMUP)
    errors = []
    for x, target in zip(xs, y, strict=True):
        errors.append(model.predict_one(x) - target)
        model.learn_one(x, target)
    assert np.std(errors[WARMUP:]) < 0.2


def test_odd_rows_have_the_highest_scores():
    rng = np.random.default_rng(0)
    model = RiverAnomalyDetector("linear", warmup=WARMUP)
    assert model.score_one({"a": 1.0}) == 0.0
    scores = []
    for i in range(150):
        x = {"a": rng.normal(5.0, 2.0), "b": rng.normal()} | ({"a": 40.0} if i == 120 else {})
        scores.append(model.score_one(x))
        model.learn_one(x if i % 10 else {"a": x["a"]})
    assert int(np.argmax(scores[WARMUP:])) == 120 - WARMUP
    assert 0.6 < np.sqrt(np.mean(np.square(scores[WARMUP:120]))) < 1.4


def test_without_river(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "streamgp.adapters.river")
    with pytest.raises(ImportError, match=r'The adapters for river need it: pip install "streamgp\[river\]"'):
        import streamgp.adapters.river  # noqa: F401
