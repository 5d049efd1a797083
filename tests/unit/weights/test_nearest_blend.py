"""The projection of the online Newton step: an exact search, a general solver, and the conditions of the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from oracles.stacking_loop import least_on_simplex
from streamgp.weights.stacking import nearest_blend

K = 4
project = jax.jit(nearest_blend)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e7])
def test_the_projection_is_that_of_a_quadratic_program(size):
    rng = np.random.default_rng(3)
    for _ in range(30):
        x = rng.exponential(size=(30, K)) ** rng.choice([0.3, 1.0, 3.0])
        A, b = np.eye(K) + size * x.T @ x, size * x.sum(0) * rng.uniform(0.5, 2.0)
        if rng.uniform() < 0.3:  # two experts that are hard to tell apart
            A[:, 1], A[1] = A[:, 0], A[0]
            A[0, 0] = A[1, 1] = A[0, 0] + 1.0
            b[1] = b[0]
        got, want = np.asarray(project(jnp.asarray(A), jnp.asarray(b))), least_on_simplex(A, b)
        np.testing.assert_allclose(got.sum(), 1.0, rtol=1e-14)
        assert (got > 0.0).all()
        assert (0.5 * got @ A @ got - b @ got) - (0.5 * want @ A @ want - b @ want) < 1e-12 * np.trace(A)
        np.testing.assert_allclose(got, want, atol=np.sqrt(2.0 * 64.0 * np.finfo(float).eps * np.trace(A) / K))


def test_the_projection_agrees_with_a_solver_for_general_programs():
    rng = np.random.default_rng(4)
    for n in (2, 8):
        x = rng.exponential(size=(40, n))
        A, b = np.eye(n) + x.T @ x, 1.3 * x.sum(0)
        found = minimize(
            lambda p, A=A, b=b: 0.5 * p @ A @ p - b @ p,
            np.full(n, 1.0 / n),
            jac=lambda p, A=A, b=b: A @ p - b,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * n,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": np.ones_like},
            options={"ftol": 1e-14, "maxiter": 1_000},
        )
        np.testing.assert_allclose(project(jnp.asarray(A), jnp.asarray(b)), found.x, atol=1e-5)


def test_the_projection_of_many_experts_meets_its_conditions():
    """Where the slope is least there is weight, and only there (Karush, Kuhn and Tucker)."""
    rng = np.random.default_rng(5)
    x = np.exp(2.0 * rng.normal(size=(500, 80)))
    x /= x.mean(1, keepdims=True)
    A, b = np.eye(80) + x.T @ x, 1.5 * x.sum(0)
    p = np.asarray(project(jnp.asarray(A), jnp.asarray(b)))
    slope = A @ p - b
    excess = (slope - slope.min()) / np.trace(A) * 80
    assert 5 < (p > 1e-6).sum() < 75
    assert excess[p > 1e-6].max() < 1e-8
    assert p @ excess < 1e-13
