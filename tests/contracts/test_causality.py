"""Predict never sees y: no prediction depends on its own target or on a later one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.bases import Fourier, Linear
from streamgp.filters.dynamics import parse
from streamgp.likelihoods import Predictive
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA, markov, share

pytestmark = pytest.mark.slow

N = 150  # two blocks and a part of a third
RULES = ("bma", "bma-shutdown", "e-doebe", "Q")


@cache
def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, np.sin(X) + 0.1 * rng.normal(size=(N, 2)), np.cumsum(rng.exponential(1.0, N))


@cache
def model(rule: str) -> Ensemble:
    rules = {
        "bma": BMA(),
        "bma-shutdown": BMA(1e-16),
        "e-doebe": share([0, 0, 0, 1, 1, 1], 0.05),
        "Q": markov(np.random.default_rng(2).dirichlet(np.ones(6), 6).T),
    }
    bases = Linear(2), Fourier(jnp.asarray(np.random.default_rng(1).normal(size=(4, 2))), jnp.ones(2))
    experts = [
        Expert(basis, jnp.asarray(1.0), jnp.asarray(0.05), parse(name))
        for basis in bases
        for name in ("static", "walk 0.001", "revert 0.95")
    ]
    return ensemble(experts, rules[rule], num_outputs=2)


def ahead(rule: str, y: np.ndarray) -> Predictive:
    X, _, times = stream()
    start = model(rule).init(keys.key(0))
    return model(rule).update(start, jnp.asarray(X), jnp.asarray(y), None, jnp.asarray(times))[1].predictive


@cache
def undisturbed(rule: str) -> Predictive:
    return ahead(rule, stream()[1])


@pytest.mark.parametrize("rule", RULES)
@given(
    row=st.integers(0, N - 1),
    size=st.sampled_from([1e-6, 1.0, 1e8, 1e12]),
    seed=st.integers(0, 2**32 - 1),
    to_the_end=st.booleans(),
)
@settings(max_examples=6, deadline=None)
def test_targets_from_a_row_on_leave_its_prediction_alone(rule, row, size, seed, to_the_end):
    y = stream()[1].copy()
    changed = slice(row, None) if to_the_end else slice(row, row + 1)
    y[changed] += size * np.random.default_rng(seed).normal(size=y[changed].shape)
    got, want = ahead(rule, y), undisturbed(rule)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a[: row + 1], b[: row + 1], rtol=1e-12, atol=0.0)
    if row < N - 1:
        assert not np.array_equal(got.loc[row + 1 :], want.loc[row + 1 :])


@pytest.mark.parametrize("rule", RULES)
def test_a_wild_target_leaves_no_trace_before_it(rule):
    y = stream()[1].copy()
    y[100] = 1e12
    got, want = ahead(rule, y), undisturbed(rule)
    np.testing.assert_allclose(got.mean[:101], want.mean[:101], rtol=1e-12)
    np.testing.assert_allclose(got.variance[:101], want.variance[:101], rtol=1e-12)


def test_variances_know_no_target_at_all():
    # Of a Gaussian filter with known noise; the weights do depend on the targets.
    got = ahead("bma", 10.0 * stream()[1])
    np.testing.assert_allclose(got.var, undisturbed("bma").var, rtol=1e-12)
    assert not np.allclose(got.weights, undisturbed("bma").weights)
