"""Levels of the noise and of the recalibration along rows in NumPy against the same inside a program of JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.core import recalibration
from streamgp.filters.noise import NoiseState, parse
from streamgp.numerics import tree

KINDS = parse(("constant", "adaptive 1.0", "adaptive 0.9", "adaptive 0.8 ar 0.5"))
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


@pytest.mark.parametrize("case", CASES)
def test_levels_of_the_noise(case):
    rows = ROWS | CASES[case]
    state = KINDS.init(K, E)
    if case == "no error for long":  # the level is down to its least
        state = NoiseState(state.shape, 1e-12 * state.rate, state.error)
    traced = jax.jit(lambda state, rows: KINDS.update_rows(state, **rows))
    same(KINDS.update_rows(state, **rows), traced(tree.map(jnp.asarray, state), tree.map(jnp.asarray, rows)))


@pytest.mark.parametrize("share", [1.0, 0.6, 0.0])
def test_counts_of_the_recalibration(share):
    u = RNG.random((N, E)) ** 3
    u[RNG.random((N, E)) < 0.1] = np.nan
    u[:3] = np.array([0.0, 1.0, 1e-300])[:, None]
    given = recalibration.start(E), u, RNG.random(N) < share
    same(recalibration.learn_rows(*given), jax.jit(recalibration.learn_rows)(*map(jnp.asarray, given)))
