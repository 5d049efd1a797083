"""Levels of the noise along rows in NumPy against the same inside a program of JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import invgamma

from kernel_forms import in_both_forms
from streamgp.filters import noise
from streamgp.filters.noise import NoiseState, parse
from streamgp.filters.noise_kernel import is_compiled
from streamgp.numerics import tree

KINDS = parse(("constant", "adaptive 1.0", "adaptive 0.9", "adaptive 0.8 ar 0.5"))
ADAPTS, CORRELATIONS = (False, True, True, True), (0.0, 0.0, 0.0, 0.5)
N, K, E = 120, 4, 2
RNG = np.random.default_rng(0)
ROWS = {
    "error": RNG.normal(size=(N, K, E)),
    "var": RNG.uniform(0.5, 2.0, (N, K, E)),
    "gap": RNG.exponential(size=N),
    "mask": np.ones(N, bool),
    "known": None,
    "is_outlier": None,
}
ABSURD = np.where(RNG.random((N, K, E)) < 0.05, np.array([np.nan, np.inf, 1e200, 40.0])[:, None], ROWS["error"])
CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "some": {"mask": RNG.random(N) < 0.7},
    "none": {"mask": np.zeros(N, bool)},
    "absurd errors": {"error": ABSURD},
    "no error for long": {"error": np.zeros((N, K, E))},
    "outliers": {"error": 5.0 * ROWS["error"], "is_outlier": RNG.random((N, K)) < 0.2},
    "absurd outliers": {"error": ABSURD, "is_outlier": ~(np.abs(ABSURD) < 3.0).all(2), "mask": RNG.random(N) < 0.8},
    "forecasts": {"known": RNG.normal(size=(N, K, E)), "mask": RNG.random(N) < 0.8},
    "forecasts and outliers": {"known": RNG.normal(size=(N, K, E)), "is_outlier": RNG.random((N, K)) < 0.2},
}


def same(ours: Any, theirs: Any) -> None:
    for a, b in zip(tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-300)


form = in_both_forms(noise, "is_compiled", lambda: False, is_compiled())


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("case", ["all", "absurd errors", "no error for long", "outliers"])
def test_a_row_by_itself_is_learnt_as_among_others(case):
    rows = ROWS | CASES[case]
    state = KINDS.init(K, E)
    after, _ = KINDS.update_rows(state, **rows)
    for i in range(N):
        outlier = None if rows["is_outlier"] is None else rows["is_outlier"][i]
        state = KINDS.update(state, rows["error"][i], rows["var"][i], rows["gap"][i], outlier)
    same(state, after)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("case", CASES)
def test_levels_of_the_noise(case):
    rows = ROWS | CASES[case]
    state = KINDS.init(K, E)
    if case == "no error for long":  # the level is down to its least
        state = NoiseState(state.shape, 1e-12 * state.rate, state.error)
    traced = jax.jit(lambda state, rows: KINDS.update_rows(state, **rows))
    same(KINDS.update_rows(state, **rows), traced(tree.map(jnp.asarray, state), tree.map(jnp.asarray, rows)))


def test_a_prediction_has_the_moments_of_a_variance_that_is_unknown():
    """The noise variance is inverse gamma, and what the last error leaves over is added to the mean."""
    shape, rate = np.array([5.0, 7.0, 3.0, 4.0]), RNG.uniform(2.0, 9.0, (K, 4, E))
    state = NoiseState(shape, rate, RNG.normal(size=(K, E)))
    loc, var, gap = RNG.normal(size=(N, K, E)), ROWS["var"], ROWS["gap"]
    mean, variance, dof = KINDS.predict(tree.map(lambda a: a[None], state), loc, var, gap)
    for k in range(K):
        for j, (adapts, rho) in enumerate(zip(ADAPTS, CORRELATIONS, strict=True)):
            left_over = (rho ** gap[:, None] if rho else 0.0) * state.error[k]
            level = invgamma(shape[j], scale=rate[k, j]).mean() if adapts else 1.0
            np.testing.assert_allclose(mean[:, 4 * k + j], loc[:, k] + left_over, rtol=1e-12)
            np.testing.assert_allclose(variance[:, 4 * k + j], var[:, k] * level, rtol=1e-12)
            assert (dof[:, 4 * k + j] == (2.0 * shape[j] if adapts else np.inf)).all()
