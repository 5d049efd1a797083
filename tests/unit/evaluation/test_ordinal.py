"""Running scores of grades by their definitions, over the recorded predictions."""

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss
from test_classification import ROWS, Told, recorded, same

from streamgp.evaluation.ordinal import OrdinalMetrics
from streamgp.numerics.checkpoint.encoding import decode, encode

GRADES = ["low", "mid", "high"]


def score(p: np.ndarray, y: np.ndarray, warmup: int, cuts: tuple[int, ...] = (), horizon: int = 0) -> dict[str, Any]:
    metrics = OrdinalMetrics(GRADES, warmup, horizon)
    for start, stop in itertools.pairwise((0, *cuts, len(y))):
        metrics.add(metrics.score(Told(p[start:stop]), y[start:stop, None].astype(float)))
    return metrics.result()


def crps(p: np.ndarray, y: int) -> float:
    """E|Y - y| - E|Y - Y'| / 2, the other form of the ranked probability score."""
    places = range(len(p))
    spread = sum(p[i] * p[j] * abs(i - j) for i in places for j in places)
    return sum(p[i] * abs(i - y) for i in places) - spread / 2


def median(p: np.ndarray) -> int:
    return next(k for k in range(len(p)) if sum(p[: k + 1]) >= 0.5 - 1e-12)


@pytest.mark.parametrize("warmup", [0, 37])
def test_scores_are_the_definitions(warmup: int):
    p, y = recorded()
    p[50] = [0.5, 0.25, 0.25]
    found = score(p, y, warmup)
    p, y = p[warmup:], y[warmup:]
    assert found["scored_rows"] == ROWS - warmup
    assert found["error_rate"] == pytest.approx(np.mean(p.argmax(1) != y))
    assert found["mae"] == pytest.approx(np.mean([abs(median(q) - k) for q, k in zip(p, y, strict=True)]))
    assert found["rps"] == pytest.approx(np.mean([crps(q, k) for q, k in zip(p, y, strict=True)]), rel=1e-12)
    assert found["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-12)
    assert np.sum(found["confusion"]) == ROWS - warmup
    assert found["grades"] == GRADES


@pytest.mark.parametrize("late", [1, 4])
def test_the_baselines(late: int):
    p, y = recorded()
    found = score(p, y, 20, horizon=late)["naive"]
    off = np.abs(y[20 - late : -late] - y[20:])
    assert found["last_grade"] == pytest.approx(
        {"error_rate": np.mean(off > 0), "mae": off.mean(), "rps": off.mean()}
    )
    q = np.array([(np.bincount(y[: i - late + 1], minlength=3) + 1) / (i - late + 4) for i in range(20, ROWS)])
    assert found["frequencies"]["log_loss"] == pytest.approx(log_loss(y[20:], q), rel=1e-12)
    assert found["frequencies"]["rps"] == pytest.approx(np.mean([crps(a, b) for a, b in zip(q, y[20:], strict=True)]))
    assert found["frequencies"]["error_rate"] == pytest.approx(np.mean(q.argmax(1) != y[20:]))
    assert found["frequencies"]["mae"] == pytest.approx(
        np.mean([abs(median(a) - b) for a, b in zip(q, y[20:], strict=True)])
    )


@pytest.mark.parametrize("cuts", [(1, 2, 3, 38), (36, 37, 38), tuple(range(10, ROWS, 10))])
def test_chunks_do_not_matter(cuts: tuple[int, ...]):
    p, y = recorded()
    same(score(p, y, 37, horizon=3), score(p, y, 37, cuts, horizon=3))


def test_stored_in_the_middle_and_restored():
    p, y = recorded()
    unbroken = OrdinalMetrics(GRADES, 50, 2)
    unbroken.add(unbroken.score(Told(p[:80]), y[:80, None].astype(float)))
    tree = unbroken.to_tree()
    stored = encode(tree)
    rest = (Told(p[80:]), y[80:, None].astype(float))
    unbroken.add(unbroken.score(*rest))
    for kept in (decode(*stored, {}), tree, tree):
        restored = OrdinalMetrics.from_tree(kept)
        restored.add(restored.score(*rest))
        assert restored.result() == unbroken.result()


def test_without_a_scored_row_there_is_no_score():
    result = OrdinalMetrics(GRADES, 5).result()
    assert [result[name] for name in ("error_rate", "mae", "rps", "log_loss")] == [None] * 4
