"""Predictions of single targets joined, against one prediction of all of them and against each by itself."""

from typing import Any

import numpy as np
import pytest

from streamgp.likelihoods import MappedPredictive, Predictive, SideBySide, TargetMap, mapped, side_by_side, unmapped
from streamgp.likelihoods.conditional import Conditional
from streamgp.numerics import keys
from streamgp.numerics.precision import float64

ROWS, EXPERTS, TARGETS = 5, 4, 3
R = np.array([[1.0, 0.6, -0.2], [0.6, 1.0, 0.3], [-0.2, 0.3, 1.0]])


def all_of_them() -> Predictive:
    """Return a prediction of all targets by the same experts."""
    rng = np.random.default_rng(3)
    shape = ROWS, EXPERTS, TARGETS
    log_weights = np.log(rng.dirichlet(np.ones(EXPERTS), ROWS))
    dof = np.where(np.arange(EXPERTS) % 2, np.inf, 6.0) + np.zeros((ROWS, 1))
    there = np.repeat(R[None], ROWS, axis=0)
    return Predictive(log_weights, rng.normal(size=shape), rng.gamma(2.0, size=shape), dof, 0.02, correlation=there)


def part_of(whole: Predictive, e: int) -> Predictive:
    return Predictive(whole.log_weights, whole.loc[:, :, [e]], whole.var[:, :, [e]], whole.dof, whole.trim)


@pytest.fixture(name="whole")
def fixture_whole() -> Predictive:
    return all_of_them()


@pytest.fixture(name="joined")
def fixture_joined(whole: Predictive) -> SideBySide:
    return side_by_side([part_of(whole, e) for e in range(TARGETS)], np.repeat(R[None], ROWS, axis=0))


@pytest.fixture(name="y")
def fixture_y() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(ROWS, TARGETS))


@pytest.mark.parametrize("name", ["mean", "variance", "std", "loc", "log_weights"])
def test_what_is_predicted_is_that_of_one_prediction(name: str, whole: Predictive, joined: SideBySide) -> None:
    np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-12)


@pytest.mark.parametrize("name", ["cdf", "crps", "marginal_log_density", "joint_log_density", "at_scores"])
def test_what_is_asked_of_targets_is_that_of_one_prediction(
    name: str, whole: Predictive, joined: SideBySide, y: np.ndarray
) -> None:
    with float64():
        np.testing.assert_allclose(getattr(joined, name)(y), getattr(whole, name)(y), rtol=1e-9)


@pytest.mark.parametrize("level", [0.05, np.linspace(0.1, 0.9, ROWS * TARGETS).reshape(ROWS, TARGETS)])
def test_quantiles_are_those_of_one_prediction(level: Any, whole: Predictive, joined: SideBySide) -> None:
    with float64():
        np.testing.assert_allclose(joined.quantile(level), whole.quantile(level), rtol=1e-7)


def test_draws_are_those_of_one_prediction(whole: Predictive, joined: SideBySide) -> None:
    with float64():
        key = keys.key(0)
        np.testing.assert_allclose(joined.sample(key, (7,)), whole.sample(key, (7,)), rtol=1e-7)


def test_given_some_targets_the_others_are_those_of_one_prediction(
    whole: Predictive, joined: SideBySide, y: np.ndarray
) -> None:
    given = np.where(np.arange(TARGETS) == 1, np.nan, y)
    given[0] = np.nan
    with float64():
        a, b = Conditional(joined, given), Conditional(whole, given)
        for name in ("mean", "std"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9)
        np.testing.assert_allclose(a.log_density(y), b.log_density(y), rtol=1e-9)
        np.testing.assert_allclose(a.quantile(0.9), b.quantile(0.9), rtol=1e-7)


def test_targets_by_themselves_are_independent(joined: SideBySide, y: np.ndarray) -> None:
    with float64():
        own = [np.asarray(part.log_density(y[:, [e]])) for e, part in enumerate(joined.parts)]
        np.testing.assert_allclose(joined.log_density(y), np.sum(own, axis=0), rtol=1e-12)
        moments = [np.asarray(part.moment_log_density(y[:, [e]])) for e, part in enumerate(joined.parts)]
        np.testing.assert_allclose(joined.moment_log_density(y), np.sum(moments, axis=0), rtol=1e-12)


def test_mixtures_may_have_different_numbers_of_components(whole: Predictive, y: np.ndarray) -> None:
    one = Predictive(np.zeros((ROWS, 1)), np.ones((ROWS, 1, 1)), np.full((ROWS, 1, 1), 4.0))
    joined = side_by_side([part_of(whole, 0), one], np.repeat(np.eye(2)[None], ROWS, axis=0))
    assert joined.loc.shape == (ROWS, EXPERTS, 2)
    np.testing.assert_allclose(joined.mean, np.column_stack([whole.mean[:, 0], np.ones(ROWS)]))
    np.testing.assert_allclose(joined.std[:, 1], 2.0)


def test_a_map_of_the_target_is_each_target_s_own(joined: SideBySide, y: np.ndarray) -> None:
    target = TargetMap.of(None, (0.0, None))
    bounded = mapped(joined, target)
    assert mapped(joined, TargetMap.of(None, (None, None))) is joined
    np.testing.assert_array_equal(unmapped(bounded).mean, joined.mean)
    each = [MappedPredictive(part, target) for part in joined.parts]
    with float64():
        expected = [np.asarray(part.quantile(0.05)) for part in each]
        np.testing.assert_allclose(bounded.quantile(0.05), np.hstack(expected), rtol=1e-12)
        np.testing.assert_allclose(bounded.mean, np.hstack([part.mean for part in each]), rtol=1e-12)
