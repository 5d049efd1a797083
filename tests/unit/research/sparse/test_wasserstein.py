"""The Bures-Wasserstein distance and its gradient against matrix roots, closed cases and independent vectors."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.dense_vfe import squared_wasserstein
from streamgp.research.sparse.wasserstein import bures_wasserstein

NONE = np.zeros(1)


def covariances(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    A, B = np.random.default_rng(seed).normal(size=(2, n, n + 2))
    return A @ A.T, B @ B.T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1, 2, 7])
def test_it_is_that_of_matrix_roots_in_both_namespaces(n, seed):
    one, other = covariances(n, seed)
    want = squared_wasserstein(NONE, one, NONE, other)
    assert_allclose(bures_wasserstein(one, other), want, rtol=1e-10, atol=1e-10)
    assert_allclose(bures_wasserstein(jnp.asarray(other), jnp.asarray(one)), want, rtol=1e-10, atol=1e-10)


def test_independent_vectors():
    vectors = np.load(Path(__file__).parents[3] / "golden" / "bures.npz")
    got = bures_wasserstein(vectors["S1"], vectors["S2"])
    assert_allclose(got, vectors["bures_squared"], rtol=1e-12)
    assert_allclose(got + np.square(vectors["m1"] - vectors["m2"]).sum(), vectors["W2_squared"], rtol=1e-12)
    singular = bures_wasserstein(vectors["S1"], vectors["S_singular"])
    assert_allclose(singular, vectors["bures_squared_S1_singular"], atol=1e-6)


def test_matrices_that_commute_and_a_point_mass():
    a, b = np.diag([4.0, 9.0, 0.0]), np.diag([1.0, 16.0, 25.0])
    assert_allclose(bures_wasserstein(a, b), 1.0 + 1.0 + 25.0, rtol=1e-12)
    assert_allclose(bures_wasserstein(a, 0.0 * a), 13.0, rtol=1e-12)
    assert_allclose(bures_wasserstein(b, b), 0.0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_gradient_is_that_of_differences_and_of_the_optimal_map(n):
    one, other = covariances(n, 3)
    slope_one, slope_other = jax.grad(bures_wasserstein, (0, 1))(jnp.asarray(one), jnp.asarray(other))
    A = np.random.default_rng(4).normal(size=(n, n))
    step = 1e-6 * (A + A.T)
    for slope, move in ((slope_one, lambda h: (one + h, other)), (slope_other, lambda h: (one, other + h))):
        change = (bures_wasserstein(*move(step)) - bures_wasserstein(*move(-step))) / 2.0
        assert_allclose(np.sum(slope * step), change, rtol=1e-6, atol=1e-12)
    push = np.eye(n) - np.asarray(slope_one)
    assert_allclose(push @ one @ push, other, rtol=1e-8, atol=1e-8)


def test_the_gradient_of_equal_covariances_with_equal_eigenvalues_is_zero():
    slopes = jax.grad(bures_wasserstein, (0, 1))(jnp.eye(4), jnp.eye(4))
    assert_allclose(slopes, 0.0, atol=1e-12)
