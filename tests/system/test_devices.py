"""Experts spread over devices: the same numbers on any number of devices, in one process or in two."""

import os
import socket
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sharded_stream import CHUNK, CHUNKS, DYNAMICS, learn, model, rows
from streamgp import StreamingGPRegressor
from streamgp.bases import Linear
from streamgp.checkpoint import load
from streamgp.filters.dynamics import static
from streamgp.filters.engine import sharding, xla
from streamgp.filters.engine.blocks import in_blocks
from streamgp.filters.engine.clock import advance
from streamgp.filters.kalman import FilterState
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.weights import markov

pytestmark = [pytest.mark.slow, pytest.mark.process]

TESTS = Path(__file__).parents[1]
KINDS = ("alone", "first of two", "second of two")


def started() -> EnsembleState:
    return model().init(jax.random.key(0))


def close(got: dict[str, np.ndarray], want: dict[str, np.ndarray], first: int = 0) -> None:
    """Predictions of the rows from chunk `first` on, then the final state, relative to the largest number of each."""
    for name, value in want.items():
        value = value[first * CHUNK :] if value.shape[:1] == (CHUNK * CHUNKS,) else value
        finite = np.isfinite(value)
        scale = np.abs(value[finite]).max()
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9 * scale, err_msg=f"array {name}")


@pytest.fixture(scope="module")
def want() -> dict[str, np.ndarray]:
    """By the CPU's own threads, which the loop filter holds to account elsewhere."""
    with jax.enable_x64(True):
        return learn(model(), started())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stream on two devices of one process, and on three devices that belong to two processes, all at once."""
    port = str(free_port())
    kinds = dict(zip(KINDS, [(2, []), (2, ["0", port]), (1, ["1", port])], strict=True))
    directories, processes = {}, {}
    for kind, (devices, arguments) in kinds.items():
        directories[kind] = tmp_path_factory.mktemp("run")
        command = [
            sys.executable,
            "-W",
            "error",
            str(TESTS / "sharded_stream.py"),
            str(directories[kind]),
            *arguments,
        ]
        flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
        environment = os.environ | {"XLA_FLAGS": flags}
        processes[kind] = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    for kind, process in processes.items():
        error = process.communicate(timeout=120)[1]
        assert process.returncode == 0, f"{kind}: {error}"
    return directories


@pytest.mark.parametrize("kind", KINDS)
def test_any_devices_give_the_numbers_of_one(kind, runs, want):
    found = dict(np.load(runs[kind] / "found.npz"))
    assert found.pop("compiled") == 0  # from the second chunk on
    close(found, want)
    # The test means something: bases were unevenly spread, some experts have been shut down, others go on.
    assert 0 < np.isfinite(want["weights"]).sum() < 18


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_knows_nothing_of_devices(kind, runs, want):
    state = load(runs[kind] / "checkpoint")[0]
    assert all(type(beliefs) is FilterState for beliefs in state.filters)
    assert state.filters[0].cov.shape == (5, len(DYNAMICS), 8, 8)
    close(learn(model(), state, first=1), want, first=1)


def test_one_device_is_the_same_path(want):
    close(learn(model(), started().shard(jax.devices()[:1])), want)


def test_no_devices_are_refused():
    with pytest.raises(ValueError, match="expected at least one device, got none"):
        started().shard([])


def test_inside_a_transformation_a_sharded_state_is_gathered(want):
    X, y, mask, times = (jnp.asarray(a[:CHUNK]) for a in rows())
    spread = started().shard(jax.devices()[:1])
    ens = model()
    state, info = jax.jit(lambda state, *rows: ens.update(state, *rows))(spread, X, y, mask, times)
    assert type(state.filters[0]) is FilterState
    np.testing.assert_allclose(info.predictive.var, want["4"][:CHUNK], rtol=1e-9)


def test_experts_side_by_side_as_on_a_gpu_give_the_numbers_of_one_after_the_other():
    X, y, mask, times = (jnp.asarray(a[:CHUNK]) for a in rows())
    ens, state = model(), started()
    blocks = in_blocks(X, y, mask, advance(ens.time_unit, state.last_time, mask, times)[0])
    some = jnp.asarray(np.arange(15).reshape(5, 3) % 4 != 0)

    @eqx.filter_jit
    def run(platform: str, live: jax.Array | None) -> list[jax.Array]:
        updated = xla.update_group(ens.groups[0], state.filters[0], blocks, live, platform)
        ahead = xla.predict_group(ens.groups[0], updated[0], jnp.nan_to_num(X), jnp.ones(CHUNK), platform)
        return jax.tree.leaves((updated, ahead))

    for live in (None, some):
        for at_once, one_by_one in zip(run("gpu", live), run("cpu", live), strict=True):
            assert np.isfinite(one_by_one).all()
            np.testing.assert_allclose(at_once, one_by_one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("sizes", "devices", "most"), [((1, 1, 1, 1), 2, 2), ((5, 3, 4), 4, 3), ((1,), 3, 1)])
def test_every_device_gets_its_share(sizes, devices, most):
    taken = np.zeros(devices, int)
    for places, G in zip(sharding._assign_slots([(G, 2, 4, 4) for G in sizes], devices), sizes, strict=True):
        slots = -(-G // devices)  # of each device
        assert len(set(places)) == G
        np.add.at(taken, np.asarray(places) // slots, 1)
    assert taken.sum() == sum(sizes)
    assert taken.max() == most


def test_an_expert_without_weight_learns_all_the_same_if_it_may_get_some():
    X, y = (jnp.asarray(a) for a in (rows()[0][rows()[2]], rows()[1][rows()[2]]))
    experts = [Expert(Linear(2), jnp.asarray(1.0), jnp.asarray(0.1 * (1 + i)), static()) for i in range(3)]
    # Weight moves from the first to the second and from there to the third, which has none for two rows.
    Q = np.array([[0.9, 0.0, 0.0], [0.1, 0.9, 0.0], [0.0, 0.1, 1.0]])
    ens = ensemble(experts, markov(Q), num_outputs=2, log_prior=np.array([0.0, -690.0, -690.0]))
    late = ensemble(experts, markov(Q), num_outputs=2, log_prior=np.array([0.0, -np.inf, -np.inf]))
    want, _ = ens.update(ens.init(jax.random.key(0)), X, y)
    state = late.init(jax.random.key(0))
    for start in (state, state.shard(jax.devices()[:1])):
        got, _ = late.update(start, X, y)
        np.testing.assert_allclose(got.unsharded().filters[0].mean, want.filters[0].mean, rtol=1e-9)


def test_a_regressor_goes_on_with_its_experts_on_other_devices(tmp_path):
    """As it does by itself where there are several GPUs."""
    X, y, mask, _ = rows()
    X, y = X[mask], y[mask]
    here = StreamingGPRegressor("linear", warmup=16).partial_fit(X[:50], y[:50])
    there = deepcopy(here)
    regressors = [there, here]
    state = there._learner.state
    there._learner.state = replace(state, model_state=state.model_state.shard(jax.devices()[:1]))
    for each in regressors:
        each.partial_fit(X[50:100], y[50:100])
    assert not isinstance(there._learner.state.model_state.filters[0], FilterState)
    there.save(tmp_path / "checkpoint")
    everyone = [*regressors, StreamingGPRegressor.load(tmp_path / "checkpoint")]
    predictions = [each.learn_one(X[100], y[100]).predict(X[101:], return_std=True) for each in everyone]
    for mean, std in predictions:
        np.testing.assert_allclose(mean, predictions[1][0], rtol=1e-9)
        np.testing.assert_allclose(std, predictions[1][1], rtol=1e-9)
