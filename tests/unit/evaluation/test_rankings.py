"""How probabilities rank rows, against scikit-learn's areas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics as sk

from streamgp.evaluation.rankings import REACH, STEP, Rankings


def recorded(rows: int = 4_000, rare: float = 0.02, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes, the last of them rare, and labels that follow them somewhat."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, p=[0.6, 0.4 - rare, rare], size=rows)
    scores = np.log([0.6, 0.4 - rare, rare]) + 2.0 * np.eye(3)[y] + rng.normal(size=(rows, 3))
    p = np.exp(scores)
    return p / p.sum(1, keepdims=True), y


def rankings(p: np.ndarray, y: np.ndarray, chunk: int) -> Rankings:
    found = Rankings(p.shape[1])
    for at in range(0, len(y), chunk):
        found.add(p[at : at + chunk], y[at : at + chunk])
    return found


@pytest.mark.parametrize("chunk", [1, 777, 4_000])
def test_areas_are_those_of_scikit_learn_of_binned_log_odds_and_nearly_of_the_probabilities(chunk: int):
    p, y = recorded()
    found = rankings(p, y, chunk).result()
    binned = np.floor((np.log(p) - np.log1p(-p)) / STEP)
    for code, (area, precision) in enumerate(found):
        own = y == code
        assert_allclose(area, sk.roc_auc_score(own, binned[:, code]), rtol=1e-12)
        assert_allclose(precision, sk.average_precision_score(own, binned[:, code]), rtol=1e-12)
        assert_allclose(area, sk.roc_auc_score(own, p[:, code]), atol=5e-4)
        assert_allclose(precision, sk.average_precision_score(own, p[:, code]), atol=5e-3)


def test_the_area_is_off_by_no_more_than_half_the_pairs_that_share_a_bin():
    p, y = recorded(rows=300, seed=1)
    p = 0.5 + 0.2 * (p - 0.5)  # crowded
    counts = rankings(p, y, 300).to_tree()["counts"]
    off = []
    for code, (area, _) in enumerate(rankings(p, y, 300).result()):
        others, own = counts[code]
        tied = others @ own / (others.sum() * own.sum())
        off.append(abs(area - sk.roc_auc_score(y == code, p[:, code])))  # type: ignore[operator]
        assert off[-1] <= 0.5 * tied
    assert max(off) > 0.0


def test_certain_and_impossible_classes_are_at_the_ends():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    found = rankings(p, np.array([0, 1, 1]), 3)
    assert found.result() == [(1.0, 1.0), (1.0, 1.0)]
    beyond = 1.0 / (1.0 + np.exp(REACH + 5.0))
    assert rankings(np.array([[beyond, 1.0 - beyond]]), np.array([1]), 1).to_tree()["counts"][0, 0, 0] == 1


def test_without_rows_of_a_class_or_of_others_there_is_no_area():
    p = np.tile([0.7, 0.3], (5, 1))
    assert rankings(p, np.zeros(5, int), 2).result() == [(None, 1.0), (None, None)]
    assert Rankings(2).result() == [(None, None)] * 2


def test_a_class_counts_from_the_row_after_its_first():
    found = Rankings(2)
    found.add(np.array([[0.4, 0.6]]), np.array([2]))  # of none that was known: another row to both
    found.add(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), np.array([2, 0]))
    again = Rankings.from_tree(found.to_tree())
    found.add(np.array([[0.2, 0.2, 0.6]]), np.array([1]))
    assert again.result() == [(1.0, 1.0), (None, None), (1.0, 1.0)]
    assert found.result()[1] == (0.0, 0.25)
