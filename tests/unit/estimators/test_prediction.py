"""Predictive distributions as objects, and rows one at a time as dictionaries."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
)

ROWS, WARMUP = 120, 40
pytestmark = pytest.mark.slow


def stream(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=ROWS)


@pytest.fixture(scope="module")
def numbers() -> StreamingGPRegressor:
    X, y = stream()
    model = StreamingGPRegressor("default", bases=["linear"], dynamics="static", lags=None, warmup=WARMUP)
    return model.partial_fit(pd.DataFrame(X, columns=["a", "b"]), y)


@pytest.fixture(scope="module")
def counts() -> StreamingGPCountRegressor:
    X, f = stream(1)
    y = np.random.default_rng(1).poisson(np.exp(f))
    return StreamingGPCountRegressor("linear", warmup=WARMUP).partial_fit(X, y)


# Distributions


def test_a_linear_model_predicts_one_gaussian():
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y)
    found = model.predict_dist(X[:7])
    law = stats.norm(found.mean, found.std)
    np.testing.assert_allclose(found.quantile(0.3), law.ppf(0.3), rtol=1e-9)
    np.testing.assert_allclose(found.quantile([0.3, 0.9]).T, [law.ppf(0.3), law.ppf(0.9)], rtol=1e-9)
    np.testing.assert_allclose(found.interval(0.8), law.interval(0.8), rtol=1e-9)
    np.testing.assert_allclose(found.cdf(y[:7]), law.cdf(y[:7]), rtol=1e-9)
    np.testing.assert_allclose(found.log_density(y[:7]), law.logpdf(y[:7]), rtol=1e-9)
    assert len(found) == 7
    n = 4_000
    draws = found.sample(n)
    assert np.abs(stats.zscore(draws, axis=1)).max() < 7
    np.testing.assert_array_less(np.abs(draws.mean(axis=1) - found.mean), 4.5 * found.std / np.sqrt(n))
    np.testing.assert_allclose(draws.std(axis=1), found.std, rtol=4.5 / np.sqrt(2 * n))


def test_it_says_what_the_methods_of_the_estimator_say(numbers: StreamingGPRegressor):
    X, y = stream()
    rows = pd.DataFrame(X[:9], columns=["a", "b"])
    found = numbers.predict_dist(rows)
    mean, std = numbers.predict(rows, return_std=True)
    np.testing.assert_array_equal([found.mean, found.std], [mean, std])
    np.testing.assert_array_equal(found.quantile([0.1, 0.5]), numbers.predict_quantiles(rows, [0.1, 0.5]))
    np.testing.assert_array_equal(found.log_density(y[:9]), numbers.log_density(rows, y[:9]))
    np.testing.assert_array_equal(found.sample(3), numbers.sample(rows, 3))
    np.testing.assert_array_equal(found.interval(0.9), numbers.predict_interval(rows))
    np.testing.assert_allclose(found.cdf(found.quantile(0.9)), 0.9, rtol=1e-7)


def test_it_stays_as_it_is_when_the_model_learns_on():
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[:100], y[:100])
    found = model.predict_dist(X[100:])
    before = found.mean.copy(), found.interval(0.5), found.sample(2)
    model.partial_fit(X[100:], y[100:])
    for old, new in zip(before, (found.mean, found.interval(0.5), found.sample(2)), strict=True):
        np.testing.assert_array_equal(old, new)


def test_several_targets_and_counts(counts: StreamingGPCountRegressor):
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, np.column_stack([y, -y]))
    found = model.predict_dist(X[:5])
    assert found.mean.shape == found.quantile(0.5).shape == found.interval()[0].shape == (5, 2)
    assert found.quantile([0.5]).shape == (5, 2, 1)
    assert found.sample(3).shape == (5, 2, 3)
    assert found.log_density(np.zeros((5, 2))).shape == (5,)
    of_counts = counts.predict_dist(X[:5])
    k = np.arange(200.0)
    mass = np.exp([of_counts.log_density(np.full(5, each)) for each in k])
    np.testing.assert_allclose(mass.sum(axis=0), 1.0, rtol=1e-5)
    np.testing.assert_allclose(k @ mass, of_counts.mean, rtol=1e-3)
    np.testing.assert_allclose(of_counts.cdf(np.full(5, 3.0)), mass[:4].sum(axis=0), rtol=1e-6)
    low, high = counts.predict_interval(X[:5], 0.8)
    assert (of_counts.cdf(high) - of_counts.cdf(low - 1.0) >= 0.8).all()
    np.testing.assert_array_equal([low, high], of_counts.interval(0.8))
    np.testing.assert_array_equal(of_counts.sample(2), counts.sample(X[:5], 2))


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, -0.1, float("nan")])
def test_a_coverage_that_is_no_share(numbers: StreamingGPRegressor, coverage: float):
    with pytest.raises(ValueError, match="coverage: expected a share strictly between 0 and 1"):
        numbers.predict_interval(pd.DataFrame({"a": [0.0], "b": [0.0]}), coverage)
    if coverage == 90:
        with pytest.raises(ValueError, match=r"for 90% pass 0\.9"):
            numbers.predict_interval(pd.DataFrame({"a": [0.0], "b": [0.0]}), coverage)
    with pytest.raises(ValueError, match="quantiles: expected probabilities strictly between"):
        numbers.predict_dist(pd.DataFrame({"a": [0.0], "b": [0.0]})).quantile([0.5, 1.0])


# Rows


def both(kind: Any, seed: int, **options: Any) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """An estimator that learns rows as dictionaries of changing order, and one that learns a frame."""
    X, f = stream(seed)
    y = {
        StreamingGPRegressor: f,
        StreamingGPCountRegressor: np.floor(np.exp(f)),
        StreamingGPClassifier: np.where(f > 0, "hot", "cold"),
        StreamingGPOrdinal: np.digitize(f, [-0.5, 0.5]),
    }[kind]
    first = {"grades": [0, 1, 2]} if kind is StreamingGPOrdinal else {}
    frame = pd.DataFrame(X, columns=["a", "b"])
    by_dict = kind("linear", warmup=WARMUP, **options)
    for i, (a, b) in enumerate(X[:80].tolist()):
        if not i and first:  # the grades are named at the start
            by_dict.partial_fit(frame[:1], y[:1], **first)
            continue
        by_dict.learn_one({"b": b, "a": a} if i % 3 and i else {"a": a, "b": b}, y[i])
    by_frame = kind("linear", warmup=WARMUP, **options).partial_fit(frame[:80], y[:80], **first)
    return by_dict, by_frame, X, y


@pytest.mark.parametrize("kind", [StreamingGPRegressor, StreamingGPCountRegressor])
def test_dictionaries_are_rows_of_a_frame(kind: Any):
    by_dict, by_frame, X, _ = both(kind, 2)
    assert by_dict.feature_names_in_.tolist() == ["a", "b"]
    for row in X[80:84]:
        mean, std = by_frame.predict(pd.DataFrame([row], columns=["a", "b"]), return_std=True)
        for found in (by_dict, by_frame):
            one = found.predict_one({"b": row[1], "a": row[0]})
            np.testing.assert_allclose(one, [mean[0], std[0]], rtol=1e-9)
    if kind is StreamingGPRegressor:
        np.testing.assert_allclose(by_dict.predict_one(X[80]), by_frame.predict_one(X[80]), rtol=1e-9)


@pytest.mark.parametrize("kind", [StreamingGPClassifier, StreamingGPOrdinal])
def test_labels_of_single_rows(kind: Any):
    by_dict, by_frame, X, _ = both(kind, 3)
    names = by_dict.classes_.tolist()
    for row in X[80:84]:
        frame = pd.DataFrame([row], columns=["a", "b"])
        wanted = dict(zip(by_frame.classes_.tolist(), by_frame.predict_proba(frame)[0], strict=True))
        found = by_dict.predict_proba_one({"b": row[1], "a": row[0]})
        assert list(found) == names
        assert {name: pytest.approx(p, rel=1e-9) for name, p in wanted.items()} == found
        assert by_dict.predict_one({"a": row[0], "b": row[1]}) == by_frame.predict(frame)[0]


def test_a_missing_value_is_none_and_filled():
    by_dict, by_frame, _, _ = both(StreamingGPRegressor, 4)
    wanted = by_frame.predict(pd.DataFrame({"a": [0.3], "b": [np.nan]}))[0]
    assert by_dict.predict_one({"a": 0.3, "b": None})[0] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1.0}, r"x: expected the features 'a', 'b', got 'b' missing; a value that is not there is None"),
        ({"a": 1.0, "b": 1.0, "c": 2.0}, r"got 'c' unknown"),
        ({"a": 1.0, "B": 1.0}, r"got 'b' missing and 'B' unknown"),
        ({"a": 1.0, "b": "x"}, r"x, feature 'b': expected a number .*got 'x'; turn it into a number"),
    ],
)
@pytest.mark.parametrize("rows", [20, ROWS])
def test_a_dictionary_that_does_not_fit(row: dict[str, Any], message: str, rows: int):
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP)
    model.partial_fit(pd.DataFrame(X[:rows], columns=["a", "b"]), y[:rows])
    for method in (model.predict_one, lambda x: model.learn_one(x, 0.0)):
        with pytest.raises(ValueError, match=message):
            method(row)
    assert model.rows_ == rows


def test_dictionaries_need_names():
    X, y = stream()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"x: expected a row of 2 numbers, as before, got a dictionary"):
        model.predict_one({"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="expected the names of features to be text, got 1"):
        StreamingGPRegressor("linear", warmup=WARMUP).learn_one({1: 2.0}, 0.0)
