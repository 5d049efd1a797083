"""Importance and contributions for counts, classes and grades, beside what they must be."""

from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPOrdinal
from streamgp.stream.attribution import kept_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
LEVEL = 1.5 * X[:, 0] - 0.7 * X[:, 1]
NOISY = LEVEL + RNG.logistic(size=400)
NAMES = ["x0", "x1", "x2"]


def labels(kind: str) -> Any:
    if kind == "classes":
        y = np.where(NOISY > 0.5, "hot", "cold")
        return StreamingGPClassifier("linear", warmup=100).partial_fit(X, y)
    return StreamingGPOrdinal("linear", warmup=100).partial_fit(X, np.digitize(NOISY, [-1.0, 1.0]) + 3)


def shapley(value: Any, count: int) -> np.ndarray:
    """The definition: over all orders, what each input adds to those before it."""
    found, orders = np.zeros(count), list(permutations(range(count)))
    of = cache(lambda known: value(tuple(sorted(known))))
    for order in orders:
        before: frozenset[int] = frozenset()
        for i in order:
            found[i] += of(before | {i}) - of(before)
            before |= {i}
    return found / len(orders)


def told(model: Any, probability: Any, x: np.ndarray) -> np.ndarray:
    rows = kept_rows(model._learner.settings, model._learner.state)

    def value(known: tuple[int, ...]) -> float:
        mixed = rows.copy()
        mixed[:, list(known)] = x[list(known)]
        return float(np.mean(probability(mixed)))

    return shapley(value, 3)


@pytest.mark.parametrize("kind", ["classes", "grades"])
def test_a_probability_is_the_base_and_all_contributions(kind: str):
    model, x = labels(kind), np.array([1.2, -0.5, 0.3])
    found = model.explain(x)
    probabilities = model.predict_proba_one(x)
    assert found.prediction == pytest.approx(probabilities[model.predict_one(x)], rel=1e-9)
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.prediction, rel=1e-9)
    one = next(iter(probabilities))
    other = model.explain(x, label=one)
    assert other.prediction == pytest.approx(probabilities[one], rel=1e-9)
    rows = kept_rows(model._learner.settings, model._learner.state)
    assert other.base == pytest.approx(model.predict_proba(rows)[:, 0].mean(), rel=1e-9)
    want = told(model, lambda rows: model.predict_proba(rows)[:, 0], x)
    errors = np.array(list(other.std_errors.values()))
    assert (np.abs(np.array(list(other.contributions.values())) - want) <= 4.0 * errors + 1e-6).all()
    assert abs(want[0]) > 8.0 * errors[0]  # so that the test can fail
    assert other.to_frame().columns == ["feature", "contribution", "std_error"]
    with pytest.raises(ValueError, match=r"^label: expected one of .*, got 'none'$"):
        model.explain(x, label="none")


@pytest.mark.parametrize("kind", ["classes", "grades"])
def test_shares_of_labels_follow_the_definition(kind: str):
    model = labels(kind)
    found = model.feature_importance()
    assert list(found) == NAMES
    p = model.predict_proba(X)  # of rows that are all kept
    total = np.sum(p.mean(axis=0) * (1.0 - p.mean(axis=0)))  # an indicator's variance
    assert sum(found.values()) == pytest.approx(p.var(axis=0).sum() / total, rel=1e-6)

    def value(known: tuple[int, ...]) -> float:
        """The variance of what is predicted from some of the independent inputs alone."""
        mixed = np.tile(X[:100], (len(X), 1, 1))
        mixed[:, :, list(known)] = X[:, None, list(known)]
        return float(
            model.predict_proba(mixed.reshape(-1, 3)).reshape(len(X), 100, -1).mean(axis=1).var(axis=0).sum()
        )

    assert_allclose([found[name] for name in NAMES], shapley(value, 3) / total, atol=0.02)
    assert 0.0 <= found["x2"] < 0.01 < 0.02 < found["x1"] < found["x0"] < 1.0


def counts(exposure: Any = None, unit: float = 1.0) -> StreamingGPCountRegressor:
    rate = np.exp(0.5 + 0.5 * X[:, 0]) * (1.0 if exposure is None else exposure / unit)
    y = np.random.default_rng(1).poisson(rate)
    return StreamingGPCountRegressor("linear", likelihood="poisson", warmup=100).partial_fit(X, y, exposure)


def test_contributions_to_a_count():
    model, x = counts(), np.array([1.0, 0.2, -0.4])
    found = model.explain(x)
    assert found.prediction == pytest.approx(model.predict_one(x)[0], rel=1e-9)
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.prediction, rel=1e-9)
    errors = np.array(list(found.std_errors.values()))
    want = told(model, model.predict, x)
    assert (np.abs(np.array(list(found.contributions.values())) - want) <= 4.0 * errors + 1e-6).all()
    shares = model.feature_importance()
    assert next(iter(shares)) == "x0"
    mean, std = model.predict(X, return_std=True)
    assert sum(shares.values()) == pytest.approx(np.var(mean) / (np.var(mean) + np.mean(std**2)), rel=1e-6)
    assert shares["x0"] > 0.9 * sum(shares.values())


def test_contributions_with_an_exposure_are_in_proportion_to_it():
    hours = np.tile([1.0, 2.0, 5.0, 10.0], 100)
    model, x = counts(hours), [1.0, 0.2, -0.4]
    one, ten = model.explain(x, exposure=1.0), model.explain(x, exposure=10.0)
    assert ten.prediction == pytest.approx(model.predict_one(x, exposure=10.0)[0], rel=1e-9)
    assert_allclose(list(ten.contributions.values()), 10.0 * np.array(list(one.contributions.values())), rtol=1e-6)
    of_one, of_ten = model.feature_importance(exposure=1.0), model.feature_importance(exposure=10.0)
    assert of_one["x0"] < of_ten["x0"] < 1.0  # the rest is chance
    in_minutes = counts(60.0 * hours, 60.0).feature_importance(exposure=60.0)
    assert in_minutes["x0"] == pytest.approx(of_one["x0"], rel=0.05)
    with pytest.raises(ValueError, match=r"^exposure: the rows learnt had an exposure and none came now"):
        model.feature_importance()
    with pytest.raises(ValueError, match=r"^exposure: the rows learnt had an exposure and none came now"):
        model.explain(x)


def test_a_single_class_has_no_variance_to_share():
    model = StreamingGPClassifier("linear", warmup=20).partial_fit(X[:60], ["a"] * 60)
    assert model.feature_importance() == dict.fromkeys(NAMES, 0.0)


def test_what_is_explained_is_predicted_at_the_time_of_the_row():
    model = StreamingGPClassifier("linear", warmup=50, dynamics=["walk 0.1"])
    model.partial_fit(X, np.where(NOISY > 0.5, "hot", "cold"), times=np.arange(400.0))
    found = model.explain(X[0], time=2000.0, label="hot")
    assert found.prediction == pytest.approx(model.predict_proba_one(X[0], 2000.0)["hot"], rel=1e-9)
    assert found.prediction != pytest.approx(model.predict_proba_one(X[0], 400.0)["hot"], rel=1e-3)
    with pytest.raises(ValueError, match=r"^label: expected one of"):
        model.explain(X[0], time=2000.0, label=np.array(["hot", "cold"]))


def test_a_column_of_too_many_levels_beside_an_exposure_is_left_out():
    words = pl.DataFrame({"word": [f"w{i}" for i in range(300)]})
    y = np.random.default_rng(0).poisson(3, 300)
    model = StreamingGPCountRegressor("linear", warmup=100).partial_fit(words, y, np.ones(300))
    assert model.predict(words[:1], exposure=[2.0])[0] == pytest.approx(6.0, rel=0.2)
