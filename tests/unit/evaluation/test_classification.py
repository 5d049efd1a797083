"""Running scores of labels against scikit-learn's and the textbook's, over the recorded predictions."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores
from streamgp.numerics.checkpoint.encoding import decode, encode

ROWS = 400
NAMES = ["ash", "beech", "oak"]


class Told:
    """Predictions from arrays."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self.p = probabilities

    def probabilities(self) -> np.ndarray:
        return self.p

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.take_along_axis(self.p, y.astype(int), axis=1)[:, 0])


def recorded(classes: int = 3, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that lean towards unbalanced labels, but not by enough."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, p=np.array([8, 4, 2, 1])[:classes] / np.sum([8, 4, 2, 1][:classes]), size=ROWS)
    p = rng.dirichlet(np.ones(classes), size=ROWS) + 0.7 * np.eye(classes)[y]
    return p / p.sum(1, keepdims=True), y


def score(p: np.ndarray, y: np.ndarray, warmup: int, cuts: tuple[int, ...] = (), horizon: int = 0) -> dict[str, Any]:
    metrics = ClassificationMetrics(NAMES[: p.shape[1]], warmup, horizon)
    for start, stop in itertools.pairwise((0, *cuts, len(y))):
        metrics.add(metrics.score(Told(p[start:stop]), y[start:stop, None].astype(float)))
    return metrics.result()


def hand_ece(p: np.ndarray, y: np.ndarray) -> float:
    """Row by row, bins open at the left."""
    total = 0.0
    for low in range(15):
        rows = [i for i in range(len(y)) if low / 15 < max(p[i]) <= (low + 1) / 15]
        if rows:
            right = np.mean([np.argmax(p[i]) == y[i] for i in rows])
            total += len(rows) / len(y) * float(abs(right - np.mean([max(p[i]) for i in rows])))
    return total


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("warmup", [0, 37])
def test_scores_are_those_of_scikit_learn(classes: int, warmup: int):
    p, y = recorded(classes)
    found = score(p, y, warmup)
    labels = list(range(classes))
    p, y = p[warmup:], y[warmup:]
    predicted = p.argmax(1)
    assert (found["rows"], found["scored_rows"], found["new_class_rows"]) == (ROWS, len(y), 0)
    assert found["error_rate"] == pytest.approx(1 - sk.accuracy_score(y, predicted), abs=1e-14)
    assert found["log_loss"] == pytest.approx(sk.log_loss(y, p, labels=labels), rel=1e-12)
    # Of two classes, scikit-learn's own is of class 1 alone: half of the sum over both.
    brier = (
        2 * sk.brier_score_loss(y, p[:, 1])
        if classes == 2
        else sum(sk.brier_score_loss(y == k, p[:, k]) for k in labels)
    )
    assert found["brier"] == pytest.approx(brier, rel=1e-12)
    assert found["ece"] == pytest.approx(hand_ece(p, y), rel=1e-12)
    assert found["balanced_error"] == pytest.approx(1 - sk.balanced_accuracy_score(y, predicted), abs=1e-14)
    recall = sk.recall_score(y, predicted, average=None)  # pyright: ignore[reportArgumentType]
    assert list(found["recall"].values()) == pytest.approx(recall)
    np.testing.assert_array_equal(found["confusion"], sk.confusion_matrix(y, predicted))
    assert found["classes"] == NAMES[:classes]


@pytest.mark.parametrize("horizon", [0, 1, 3])
def test_the_baselines_use_what_was_known(horizon: int):
    p, y = recorded()
    late = max(horizon, 1)
    found = score(p, y, 20, horizon=horizon)["naive"]
    rows = range(20, ROWS)
    assert found["last_label"]["error_rate"] == pytest.approx(np.mean([y[i - late] != y[i] for i in rows]))
    frequencies = []
    for i in range(ROWS):
        known = y[: max(0, i - late + 1)]
        frequencies.append([(np.sum(known == k) + 1) / (len(known) + 3) for k in range(3)])
    q = np.array(frequencies)[20:]
    assert found["frequencies"]["error_rate"] == pytest.approx(np.mean(q.argmax(1) != y[20:]))
    assert found["frequencies"]["log_loss"] == pytest.approx(sk.log_loss(y[20:], q), rel=1e-12)
    assert found["frequencies"]["brier"] == pytest.approx(np.mean(np.sum((q - np.eye(3)[y[20:]]) ** 2, axis=1)))


def grows(cuts: tuple[int, ...]) -> tuple[dict[str, Any], list[ClassificationScores]]:
    """Labels of which one is new at row 150, the predictions having a column for it from 160 on."""
    p, y = recorded()
    y[:150] = np.minimum(y[:150], 1)
    y[150] = y[155] = 2
    two = p[:, :2] / p[:, :2].sum(1, keepdims=True)
    metrics = ClassificationMetrics(NAMES, 100)
    scores = []
    for start, stop in itertools.pairwise((0, *cuts, 160, ROWS)):
        told = Told(two[start:stop] if stop <= 160 else p[start:stop])
        scores.append(metrics.score(told, y[start:stop, None].astype(float)))
        metrics.add(scores[-1])
    return metrics.result(), scores


def test_a_class_that_no_row_had_before():
    result, (scores, later) = grows(())
    p, _ = recorded()
    two = p[:, :2] / p[:, :2].sum(1, keepdims=True)
    assert scores.y[150] == 2
    assert scores.log_density[150] == pytest.approx(-np.log(152.0))  # after 150 rows
    assert scores.brier[150] == pytest.approx(1 + np.sum(two[150] ** 2))
    late = slice(100, None)
    new = int(np.sum(scores.y == 2))
    assert result["new_class_rows"] == new >= 2
    loss = np.concatenate([scores.log_density[late], later.log_density])
    assert result["log_loss"] == pytest.approx(-loss.mean(), rel=1e-12)
    assert result["confusion"][2][2] == np.sum((later.y == 2) & (later.predicted == 2))
    assert sum(result["confusion"][2]) == new + np.sum(later.y == 2)
    assert np.isfinite(result["naive"]["frequencies"]["log_loss"])
    assert result["balanced_error"] == pytest.approx(1 - np.mean(list(result["recall"].values())))


def flat(result: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for name, value in result.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        exact = not isinstance(value, float)
        assert other[name] == (value if exact else pytest.approx(value, rel=1e-12)), name


@pytest.mark.parametrize("cuts", [(1, 2, 3, 38), (36, 37, 38), tuple(range(10, ROWS, 10))])
@pytest.mark.parametrize("horizon", [0, 5])
def test_chunks_do_not_matter(cuts: tuple[int, ...], horizon: int):
    p, y = recorded()
    same(score(p, y, 37, horizon=horizon), score(p, y, 37, cuts, horizon=horizon))
    same(grows(())[0], grows((149, 150, 151, 154))[0])


def test_what_the_baselines_predicted():
    p, y = recorded()
    metrics = ClassificationMetrics(NAMES, 10)
    parts = [metrics.add(metrics.score(Told(p[a]), y[a, None].astype(float))) for a in (slice(0, 3), slice(3, ROWS))]
    last, frequencies = (np.concatenate(each) for each in zip(*parts, strict=True))
    np.testing.assert_array_equal(last, [-1, *y[:-1]])
    np.testing.assert_allclose(frequencies.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(frequencies[0], 1 / 3)


def test_stored_in_the_middle_and_restored():
    p, y = recorded()
    unbroken = ClassificationMetrics(NAMES, 50, 3)
    unbroken.add(unbroken.score(Told(p[:80]), y[:80, None].astype(float)))
    tree = unbroken.to_tree()
    stored = encode(tree)
    rest = (Told(p[80:]), y[80:, None].astype(float))
    unbroken.add(unbroken.score(*rest))
    for kept in (decode(*stored, {}), tree, tree):
        restored = ClassificationMetrics.from_tree(kept)
        restored.add(restored.score(*rest))
        assert restored.result() == unbroken.result()


def test_without_a_scored_row_there_is_no_score():
    p, y = recorded()
    for result in (score(p, y, ROWS), ClassificationMetrics(NAMES, 5).result()):
        assert result["scored_rows"] == 0
        names = ("error_rate", "log_loss", "brier", "ece", "balanced_error", "naive", "recall")
        assert set(flat({name: result[name] for name in names}).values()) == {None}


def test_one_class_only():
    result = score(np.ones((ROWS, 1)), np.zeros(ROWS, int), 10)
    assert result["error_rate"] == result["log_loss"] == result["brier"] == result["ece"] == 0.0
    assert result["balanced_error"] == 0.0
