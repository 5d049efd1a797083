"""Conformal sets of labels and intervals of grades: their definition by loops, and the share that they hold."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPClassifier, StreamingGPOrdinal, evaluate
from streamgp.evaluation import ClassificationMetrics, ConformalSets, OrdinalMetrics
from streamgp.evaluation.conformal_sets import mass_before


def probabilities(n: int, classes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.7), size=n)


def grown_by_hand(p: np.ndarray) -> list[int]:
    """The grades in the order in which an interval grows from the most probable one."""
    low = high = int(np.argmax(p))
    order = [low]
    while len(order) < len(p):
        below, above = p[low - 1] if low else -1.0, p[high + 1] if high + 1 < len(p) else -1.0
        if above > below:
            high += 1
            order.append(high)
        else:
            low -= 1
            order.append(low)
    return order


@pytest.mark.parametrize("ordered", [False, True])
def test_the_mass_before_a_class_is_that_of_the_ones_that_come_first(ordered: bool):
    p = probabilities(200, 5)
    found = mass_before(p, ordered)
    for row, before in zip(p, found, strict=True):
        order = grown_by_hand(row) if ordered else sorted(range(5), key=lambda k: -row[k])
        for place, k in enumerate(order):
            assert before[k] == pytest.approx(sum(row[order[:place]]), abs=1e-12)


def test_sets_of_grades_are_intervals():
    before = mass_before(probabilities(500, 6), ordered=True)
    for level in (0.0, 0.3, 0.8):
        inside = before <= level
        assert inside.any(axis=1).all()
        assert (np.abs(np.diff(inside.astype(int), axis=1)).sum(axis=1) <= 2).all()
        first, last = inside.argmax(axis=1), 5 - inside[:, ::-1].argmax(axis=1)
        assert_array_equal(inside.sum(axis=1), last - first + 1)


class Told:
    """A predictive distribution over classes that says what it was told."""

    def __init__(self, p: np.ndarray) -> None:
        self.p = p

    def probabilities(self) -> np.ndarray:
        return self.p

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.take_along_axis(self.p, np.asarray(y, int), axis=1)[:, 0])


def drawn(p: np.ndarray, seed: int) -> np.ndarray:
    """A class for each row."""
    return (np.random.default_rng(seed).random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1).astype(float)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_they_hold_their_share_of_a_model_that_is_wrong(level: float, ordered: bool):
    """The model overstates what it knows; its own sets hold too little, the conformal ones their share."""
    p = probabilities(8_000, 4)
    y = drawn(p, 1)
    said = p**4 / (p**4).sum(axis=1, keepdims=True)
    metrics: Any = OrdinalMetrics("abcd", 1_000) if ordered else ClassificationMetrics("abcd", 1_000)
    sets = ConformalSets(level, warmup=1_000)
    held = [
        sets.of_rows(Told(said[i]), metrics.score(Told(said[i]), y[i, None])) for i in np.split(np.arange(8_000), 16)
    ]
    found = sets.result()
    inside = np.concatenate(held)[np.arange(8_000), y.astype(int)][1_000:]
    assert found["coverage"] == pytest.approx(inside.mean(), abs=1e-12)
    assert found["size"] == pytest.approx(np.concatenate(held)[1_000:].sum(axis=1).mean())
    assert abs(found["coverage"] - level) < 4 * np.sqrt(level * (1 - level) / 7_000)
    assert found["own"]["coverage"] < level - 0.02
    assert found["own"]["size"] < found["size"]


def test_the_models_own_sets_are_the_least_that_hold_the_share():
    p = probabilities(300, 4)
    sets = ConformalSets(0.9)
    sets.of_rows(Told(p), ClassificationMetrics("abcd", 0).score(Told(p), drawn(p, 2)[:, None]))
    least = [1 + int(np.searchsorted(np.cumsum(np.sort(row)[::-1]), 0.9)) for row in p]
    assert_allclose(sets.result()["own"]["size"], np.mean(least))


def test_a_label_that_is_new_is_missed():
    p = probabilities(50, 2)
    metrics = ClassificationMetrics("ab", 0)
    sets = ConformalSets(0.9)
    y = np.zeros((50, 1))
    y[40:] = 2.0
    held = sets.of_rows(Told(p), metrics.score(Told(p), y))
    assert held.shape == (50, 2)
    assert sets.result()["coverage"] <= 0.8


def test_a_checkpoint_goes_on_where_it_stood_and_pieces_do_not_matter():
    p = probabilities(400, 3)
    y = drawn(p, 3)[:, None]
    metrics = ClassificationMetrics("abc", 50)
    whole, other = ConformalSets(0.9, 50, horizon=3), ConformalSets(0.9, 50, horizon=3)
    want = whole.of_rows(Told(p), metrics.score(Told(p), y))
    first = other.of_rows(Told(p[:170]), metrics.score(Told(p[:170]), y[:170]))
    then = ConformalSets.from_tree(other.to_tree())
    rest = then.of_rows(Told(p[170:]), metrics.score(Told(p[170:]), y[170:]))
    assert_array_equal(np.concatenate([first, rest]), want)
    for name in ("coverage", "size"):
        assert then.result()[name] == pytest.approx(whole.result()[name])
        assert then.result()["own"][name] == pytest.approx(whole.result()["own"][name])


def stream(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(rows, 2))
    slope = np.where(np.arange(rows) < rows // 2, 2.0, -2.0)
    return X, np.digitize(slope * X[:, 0] + rng.normal(size=rows), [-1.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [StreamingGPClassifier, StreamingGPOrdinal])
def test_estimators_have_them(kind: Any):
    X, y = stream(1_200)
    labels = np.array(["high", "low", "mid"], object)[y] if kind is StreamingGPClassifier else y
    model = kind("linear", warmup=100)
    result = evaluate(model, X, labels, conformal=0.9)
    assert result.conformal is not None
    assert result.conformal.shape == result.probabilities.shape == (1_200, 3)
    code = np.array([list(model.classes_).index(label) for label in labels])
    inside = result.conformal[np.arange(1_200), code]
    assert result.metrics["conformal"]["coverage"] == pytest.approx(inside[100:].mean())
    assert abs(inside[100:].mean() - 0.9) < 0.03


@pytest.mark.slow
def test_no_set_knows_its_label_and_rows_without_one_have_one():
    X, y = stream(400)
    names = np.array(["a", "b", "c"], object)
    labels = names[y]
    changed = labels.copy()
    changed[250:] = "a"
    labels[200] = changed[200] = None
    X = X.copy()
    X[300] = np.nan
    found = [
        evaluate(StreamingGPClassifier("linear", warmup=60, missing="skip"), X, each, conformal=0.8)
        for each in (labels, changed)
    ]
    first, second = (each.conformal for each in found)
    assert_array_equal(first[:251], second[:251])
    assert not np.array_equal(first, second)
    assert not first[300].any()
