"""Labels of rows from long ago, against dense joint Gaussians and against rows that came in time."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Fourier, Linear
from streamgp.filters.dynamics import parse
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.weights import BMA

pytestmark = pytest.mark.slow

PRIOR_VAR, NOISE_VAR = 1.5, 0.1
BASES = (Linear(2), Fourier(jnp.asarray([[1.0, 0.3], [-0.4, 2.0], [0.7, 0.9]]), jnp.ones(2)))
NEXT = np.random.default_rng(9).normal(size=(4, 2))


def model(*dynamics: str, **more: Any) -> Ensemble:
    """Return experts of every basis with these dynamics."""
    experts = [
        Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), parse(each))
        for basis in BASES
        for each in dynamics
    ]
    return ensemble(experts, BMA(), **more)


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, :1]) + 0.3 * rng.normal(size=(n, 1))


def learnt(of: Ensemble, X: np.ndarray, y: np.ndarray) -> Any:
    return of.update(of.init(jax.random.key(0)), jnp.asarray(X), jnp.asarray(y))[0]


def moments(of: Ensemble, state: Any, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    predictive = of.predict(state, jnp.asarray(NEXT), None if times is None else jnp.asarray(times))
    return np.asarray(predictive.loc)[..., 0], np.asarray(predictive.var)[..., 0]


@pytest.mark.parametrize("num_old", [1, 100])
def test_of_weights_that_stand_still_nothing_tells_when_a_row_came(num_old: int):
    of, (X, y) = model("static"), rows(150)
    old = np.random.default_rng(1).permutation(150)[:num_old]
    kept = np.setdiff1d(np.arange(150), old)
    state = of.learn_old(learnt(of, X[kept], y[kept]), X[old], y[old], 150.0 - old)
    for found, wanted in zip(moments(of, state), moments(of, learnt(of, X, y)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("timed", [False, True])
def test_of_weights_that_revert_the_first_row_says_what_a_joint_gaussian_does(timed: bool):
    lam, age = 0.9, 7.0
    of, (X, y) = model(f"revert {lam}"), rows(1)
    state = of.init(jax.random.key(0))
    if timed:  # the belief is of time 7; the row is of time 0
        state = replace(state, last_time=jnp.asarray(age))
        state = of.learn_old(state, X, y, np.zeros(1), np.zeros(1))
        loc, var = moments(of, state, np.full(len(NEXT), age + 1.0))
    else:
        loc, var = moments(of, of.learn_old(state, X, y, np.array([age])))
    for k, basis in enumerate(BASES):
        then, later = np.asarray(basis(jnp.asarray(X))), np.asarray(basis(jnp.asarray(NEXT)))
        total = PRIOR_VAR * (then @ then.T).item() + NOISE_VAR
        cross = PRIOR_VAR * lam ** (age + 1.0) * (later @ then.T)[:, 0]
        np.testing.assert_allclose(loc[:, k], cross * y.item() / total, rtol=1e-9)
        own = PRIOR_VAR * np.sum(later**2, axis=1) + NOISE_VAR
        np.testing.assert_allclose(var[:, k], own - cross**2 / total, rtol=1e-9)


def test_of_a_walk_a_row_is_noisier_by_what_the_weights_have_moved_since():
    q, age, extra = 0.02, 12.0, 0.4
    of, (X, y) = model(f"walk {q}"), rows(40)
    state = learnt(of, X[:39], y[:39])
    found = of.learn_old(state, X[39:], y[39:], np.array([age]), None, np.array([extra]))
    for before, after, basis in zip(state.filters, found.filters, BASES, strict=True):
        mean, cov = np.asarray(before.mean[0, 0]), np.asarray(before.cov[0, 0])
        phi = np.asarray(basis(jnp.asarray(X[39:])))[0]
        noise = NOISE_VAR + extra + q * PRIOR_VAR * age * phi @ phi
        precision = np.linalg.inv(cov) + np.outer(phi, phi) / noise
        wanted = np.linalg.solve(precision, np.linalg.solve(cov, mean) + phi[:, None] * y[39] / noise)
        np.testing.assert_allclose(after.cov[0, 0], np.linalg.inv(precision), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(after.mean[0, 0], wanted, rtol=1e-9, atol=1e-11)


def test_an_old_row_tells_less_the_older_it_is_and_an_absurd_one_hardly_anything():
    of, (X, y) = model("walk 0.01", guarded=True), rows(200)
    state = learnt(of, X[:199], y[:199])
    before = moments(of, state)[0]
    far, moved = y[199:] + 1.0, []
    for age in (1.0, 30.0, 1_000.0):
        after = of.learn_old(state, X[199:], far, np.array([age]))
        moved.append(np.abs(moments(of, after)[0] - before).max())
        assert all(
            np.array_equal(a.guard.run, b.guard.run) for a, b in zip(after.filters, state.filters, strict=True)
        )
    assert moved[0] > moved[1] > moved[2] > 0.0
    absurd = of.learn_old(state, X[199:], y[199:] + 1e9, np.array([1.0]))
    assert np.abs(moments(of, absurd)[0] - before).max() < 3.0
    np.testing.assert_allclose(moments(of, absurd)[1], moments(of, state)[1], rtol=0.2)
