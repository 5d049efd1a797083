"""B-splines against scipy."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline

from streamgp.bases import Spline
from streamgp.numerics import keys

KEY = keys.key(0)

features = eqx.filter_jit(lambda basis, X: basis(X))


def scipy_features(basis: Spline, X: np.ndarray) -> np.ndarray:
    columns = [BSpline.design_matrix(x, np.asarray(t), 3).toarray() for x, t in zip(X.T, basis.knots, strict=True)]
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("num_features", [1, 12, 15, 60])
def test_features_match_scipy(num_features):
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 30.0, 0.01]
    basis = Spline.from_data(X, num_features=num_features, start=1.0, key=KEY)
    assert basis.num_features == 3 * max(4, num_features // 3)
    # The warm-up holds both ends of the range.
    np.testing.assert_allclose(features(basis, jnp.asarray(X)), scipy_features(basis, X), rtol=1e-10, atol=1e-14)


def test_uneven_and_coinciding_knots_match_scipy():
    knots = np.array([[0.0] * 4 + [0.1, 0.5, 0.5, 0.9] + [1.0] * 4])
    basis, x = Spline(jnp.asarray(knots)), np.linspace(0, 1, 101)[:, None]
    np.testing.assert_allclose(features(basis, jnp.asarray(x)), scipy_features(basis, x), rtol=1e-10, atol=1e-14)


def test_features_are_a_partition_of_unity_everywhere():
    warm_up = np.random.default_rng(0).normal(size=(50, 2))
    basis = Spline.from_data(warm_up, num_features=20, start=1.0, key=KEY)
    rows = jnp.asarray(np.random.default_rng(1).normal(size=(100, 2)) * 5)
    phi = features(basis, rows).reshape(100, 2, 10)
    assert phi.min() >= 0
    np.testing.assert_allclose(phi.sum(-1), 1.0, rtol=1e-13)


def test_rows_beyond_the_knots_are_moved_to_the_ends_and_flagged():
    warm_up = np.array([[0.0, -1.0], [2.0, 1.0]])
    basis = Spline.from_data(warm_up, num_features=12, start=1.0, key=KEY)
    rows = jnp.array([[0.0, 1.0], [2.5, 0.0], [1.0, -1.1]])
    np.testing.assert_array_equal(basis.outside(rows), [False, True, True])
    at_ends = jnp.array([[0.0, 1.0], [2.0, 0.0], [1.0, -1.0]])
    np.testing.assert_array_equal(features(basis, rows), features(basis, at_ends))


def test_a_constant_column_gets_a_range_of_one():
    basis = Spline.from_data(np.full((5, 1), 3.0), num_features=5, start=1.0, key=KEY)
    np.testing.assert_allclose(basis.knots[0], [2.5] * 4 + [3.0] + [3.5] * 4)
