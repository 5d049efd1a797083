"""Weights of rows that are predicted while others wait, against plain Python."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles.late_weights import PlainLateWeights, densities
from streamgp.likelihoods import Predictive
from streamgp.stream.late_weights import LateWeights, Made, made_from_tree, made_to_tree

K = 5
SINCE = np.zeros(K, dtype=int)
UNIT = np.ones(1)


def rows(n: int, seed: int = 0, k: int = K) -> list[Predictive]:
    """Return mixtures of one row, in the first of which all experts are Gaussians."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        w = rng.dirichlet(np.ones(k))
        dof = None if i == 0 else np.where(rng.uniform(size=(1, k)) < 0.5, np.inf, rng.uniform(5.0, 20.0, (1, k)))
        loc, var = rng.normal(size=(1, k, 1)), rng.uniform(0.1, 3.0, (1, k, 1))
        made.append(Predictive(np.log(w)[None], loc, var, dof))
    return made


def made_of(predictive: Predictive, since: Any = SINCE) -> Made:
    return Made(predictive, since)


@pytest.mark.parametrize("scale", [1.0, 0.01, 300.0])
def test_they_are_those_of_plain_python(scale: float):
    plain, weights, rng = PlainLateWeights(K), LateWeights.start(SINCE), np.random.default_rng(1)
    for i, row in enumerate(rows(60)):
        if 20 <= i < 40:  # an expert rests
            own = np.asarray(row.log_weights).copy()
            own[0, 2] = -np.inf
            row = replace(row, log_weights=own - np.log(np.exp(own).sum()))
        own = np.exp(np.asarray(row.log_weights)[0])
        expected = plain.averaged(own.tolist())
        np.testing.assert_allclose(np.exp(weights.averaged(np.asarray(row.log_weights))[0]), expected, rtol=1e-10)
        y = float(rng.normal() * 2.0)
        weights = weights.learn(made_of(row), np.array([y]), np.array([scale]))
        plain.learn(own.tolist(), densities(row, y), scale)
    np.testing.assert_allclose(np.exp(weights.rules), [plain.in_time, 1.0 - plain.in_time], rtol=1e-10)
    assert abs(plain.in_time - 0.5) > 0.05
    assert max(plain.experts) > 1.3 / K


def test_they_prefer_the_expert_that_predicts_late_rows_well():
    weights, rng = LateWeights.start(SINCE), np.random.default_rng(2)
    own = np.log([0.96, 0.01, 0.01, 0.01, 0.01])
    for _ in range(300):
        y = rng.normal()
        row = Predictive(own[None], np.array([4.0, 0.0, 4.0, 4.0, 4.0])[None, :, None], np.ones((1, K, 1)))
        weights = weights.learn(Made(row, SINCE), np.array([y]), UNIT)
    assert np.exp(weights.averaged(own[None]))[0, 1] > 0.9


@pytest.mark.parametrize("y", [1e12, -1e300, 3e3])
def test_an_absurd_label_teaches_nothing(y: float):
    weights = before = LateWeights.start(SINCE)
    for row in rows(30):
        weights = before = before.learn(made_of(row), np.array([0.3]), UNIT)
    for row in rows(5, seed=4):
        weights = weights.learn(made_of(row), np.array([y]), UNIT)
    np.testing.assert_allclose(np.exp(weights.experts), np.exp(before.experts), atol=1e-3)
    np.testing.assert_allclose(np.exp(weights.rules), np.exp(before.rules), atol=0.03)  # what SWITCH takes in five


def test_an_expert_that_was_fitted_anew_starts_with_an_equal_share():
    weights = LateWeights.start(SINCE)
    for row in rows(40):
        weights = weights.learn(made_of(row), np.array([0.5]), UNIT)
    renewed = np.array([0, 0, 700, 0, 0])
    after = weights.of_experts(renewed)
    assert np.exp(after.experts).sum() == pytest.approx(1.0)
    kept = [0, 1, 3, 4]
    np.testing.assert_allclose(np.diff(after.experts[kept]), np.diff(weights.experts[kept]), atol=1e-12)
    # What was predicted by experts gone by tells of the others alone.
    row = rows(1)[0]
    whole, part = weights.learn(made_of(row), np.array([0.4]), UNIT), after.learn(made_of(row), np.array([0.4]), UNIT)
    assert part.experts[2] == pytest.approx(after.experts[2])
    np.testing.assert_allclose(np.diff(part.experts[kept]), np.diff(whole.experts[kept]), atol=0.05)
    assert np.abs(np.diff(part.experts[kept]) - np.diff(after.experts[kept])).max() > 1e-3
    assert after.learn(made_of(row, SINCE + 9), np.array([0.4]), UNIT) is after
    more = LateWeights.start(np.zeros(K + 1, dtype=int))
    np.testing.assert_array_equal(after.of_experts(more.since).experts, more.experts)


def test_rows_that_wait_come_back_from_a_checkpoint():
    kept = [made_of(row) for row in rows(4)]
    other = made_of(rows(1, seed=9)[0], np.array([0, 0, 7, 0, 0]))
    made: list[tuple[Made, ...]] = [(), (kept[0],), (kept[1],), (), (other,), (kept[2],), (kept[3],)]
    tree = made_to_tree(made)
    assert len(tree) == 3  # Gaussians, Student's t, and those of other experts
    back = made_from_tree(tree, len(made))
    assert [len(each) for each in back] == [len(each) for each in made]
    for (a,), (b,) in ((a, b) for a, b in zip(made, back, strict=True) if a):
        np.testing.assert_array_equal(np.asarray(a.predictive.log_weights), b.predictive.log_weights)
        np.testing.assert_array_equal(a.since, b.since)
        np.testing.assert_array_equal(np.asarray(a.predictive.loc), b.predictive.loc)
        assert (a.predictive.dof is None) == (b.predictive.dof is None)
    assert made_to_tree([(), ()]) == []
