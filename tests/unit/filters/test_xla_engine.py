"""The engine of filters that XLA compiles: the same numbers in the order of a CPU and in that of a GPU."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Fourier, Linear
from streamgp.filters.dynamics import parse, static
from streamgp.filters.engine import xla
from streamgp.filters.engine.blocks import in_blocks
from streamgp.filters.engine.clock import advance
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA, markov

pytestmark = pytest.mark.slow

ROWS = 100  # a block and a part of one


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, mask, times): two outputs, irregular times with ties, rows left out."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (ROWS, 2))
    y = np.sin(4.0 * X[:, :1] + np.array([0.0, 1.0])) + 0.1 * rng.normal(size=(ROWS, 2))
    times = np.cumsum(rng.exponential(0.02, ROWS) * (rng.random(ROWS) > 0.3)) + 1e3
    mask = rng.random(ROWS) > 0.1
    X[~mask] = y[~mask] = times[~mask] = np.nan
    return X, y, mask, times


def test_experts_side_by_side_as_on_a_gpu_give_the_numbers_of_one_after_the_other():
    X, y, mask, times = (jnp.asarray(a) for a in rows())
    seen = np.asarray(X)[np.asarray(mask)]
    bases = [Fourier.from_data(seen, num_features=8, start=1.0, key=keys.key(i)) for i in range(5)]
    dynamics = ("static", "walk 0.01", "revert 0.95")
    one = jnp.asarray(1.0)
    experts = [Expert(basis, one, one, parse(name)) for basis in bases for name in dynamics]
    ens = ensemble(experts, BMA(1e-16), num_outputs=2, time_unit=0.02)
    state = ens.init(keys.key(0))
    blocks = in_blocks(X, y, mask, advance(ens.time_unit, state.last_time, mask, times)[0])
    some = jnp.asarray(np.arange(15).reshape(5, 3) % 4 != 0)

    @eqx.filter_jit
    def run(platform: str, live: jax.Array | None) -> list[jax.Array]:
        updated = xla.update_group(ens.groups[0], state.filters[0], blocks, live, platform)
        ahead = xla.predict_group(ens.groups[0], updated[0], jnp.nan_to_num(X), jnp.ones(ROWS), platform)
        return jax.tree.leaves((updated, ahead))

    for live in (None, some):
        for at_once, one_by_one in zip(run("gpu", live), run("cpu", live), strict=True):
            assert np.isfinite(one_by_one).all()
            np.testing.assert_allclose(at_once, one_by_one, rtol=1e-9, atol=1e-12)


def test_an_expert_without_weight_learns_all_the_same_if_it_may_get_some():
    X, y, mask, _ = rows()
    X, y = jnp.asarray(X[mask]), jnp.asarray(y[mask])
    experts = [Expert(Linear(2), jnp.asarray(1.0), jnp.asarray(0.1 * (1 + i)), static()) for i in range(3)]
    # Weight moves from the first to the second and from there to the third, which has none for two rows.
    Q = np.array([[0.9, 0.0, 0.0], [0.1, 0.9, 0.0], [0.0, 0.1, 1.0]])
    ens = ensemble(experts, markov(Q), num_outputs=2, log_prior=np.array([0.0, -690.0, -690.0]))
    late = ensemble(experts, markov(Q), num_outputs=2, log_prior=np.array([0.0, -np.inf, -np.inf]))
    want, _ = ens.update(ens.init(keys.key(0)), X, y)
    state = late.init(keys.key(0))
    for update in (late.update, late._update_compiled):
        got, _ = update(state, X, y, jnp.ones(len(X), bool), None)
        np.testing.assert_allclose(got.filters[0].mean, want.filters[0].mean, rtol=1e-9)
