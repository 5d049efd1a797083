"""One stream through an ensemble spread over devices; run as a script, in a process with devices of its own.

``python sharded_stream.py DIRECTORY [PROCESS PORT]`` spreads it over all devices (of two processes, if told which of
the two this is) and writes what `learn` returns, and a checkpoint from the middle of the stream, to the directory.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.bases import Fourier, Linear
from streamgp.checkpoint import save
from streamgp.filters.dynamics import parse
from streamgp.filters.engine.sharding import Sharded
from streamgp.filters.kalman import FilterState
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.weights import BMA

CHUNK, CHUNKS = 100, 3  # a block and a part of one
DYNAMICS = ("static", "walk 0.01", "revert 0.95")


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, mask, times): two outputs, irregular times with ties, rows left out."""
    rng = np.random.default_rng(1)
    n = CHUNK * CHUNKS
    X = rng.uniform(-1.0, 1.0, (n, 2))
    y = np.sin(4.0 * X[:, :1] + np.array([0.0, 1.0])) + 0.1 * rng.normal(size=(n, 2))
    times = np.cumsum(rng.exponential(0.02, n) * (rng.random(n) > 0.3)) + 1e3
    mask = rng.random(n) > 0.1
    X[~mask] = y[~mask] = times[~mask] = np.nan
    return X, y, mask, times


def model() -> Ensemble:
    """Five bases of one shape and one of another, some of whose experts are so bad that they are soon shut down."""
    X = rows()[0][rows()[2]]
    bases = [Fourier.from_data(X, num_features=8, start=1.0, key=jax.random.key(i)) for i in range(5)]
    experts = [
        Expert(basis, jnp.asarray(1.0), jnp.asarray(noise), parse(name))
        for basis, noise in zip([*bases, Linear(2)], (0.9, 1.0, 1e-3, 0.8, 0.9, 1.0), strict=True)
        for name in DYNAMICS
    ]
    return ensemble(experts, BMA(1e-16), num_outputs=2, time_unit=0.02)


def learn(ens: Ensemble, state: EnsembleState, first: int = 0, at_chunk: Any = None) -> dict[str, np.ndarray]:
    """What is predicted of every row from chunk `first` on, and the beliefs at the end."""
    X, y, mask, times = rows()
    infos = []
    for i in range(first, CHUNKS):
        if at_chunk is not None:
            at_chunk(i, state)
        now = slice(i * CHUNK, (i + 1) * CHUNK)
        ahead = ens.predict(state, jnp.nan_to_num(jnp.asarray(X[now])), jnp.asarray(times[now]))
        state, info = ens.update(state, *(jnp.asarray(a[now]) for a in (X, y, mask, times)))
        infos.append((ahead.loc, ahead.var, *jax.tree.leaves(info)))
    found = [np.concatenate(part) for part in zip(*infos, strict=True)]
    found += jax.tree.leaves(state.unsharded())
    return {str(i): np.asarray(a) for i, a in enumerate(found)} | {"weights": np.asarray(state.weights)}


def in_single_precision() -> None:
    """What the CPU's threads do not serve goes to all devices by itself, a state from a checkpoint as well."""
    X, y, mask, times = (jnp.asarray(a[:CHUNK], bool if a.dtype == bool else jnp.float32) for a in rows())
    with jax.enable_x64(False):
        ens = model()
        state = ens.init(jax.random.key(0))
        for start in (state, state.unsharded()):
            after, info = ens.update(start, X, y, mask, times)
            assert np.isfinite(info.predictive.var).all()
            for beliefs in (state.filters[0], after.filters[0]):
                assert isinstance(beliefs, Sharded)
                assert beliefs.padded.cov.sharding.device_set == set(jax.devices())
                assert beliefs.padded.cov.dtype == np.float32


def main(directory: Path, process: int | None = None, port: int | None = None) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)  # compiles in a third of the time
    if process is not None:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
    else:
        in_single_precision()
    compiled: list[str] = []
    ens = model()
    plain = ens.init(jax.random.key(0))
    assert type(plain.filters[0]) is FilterState, "the CPU's threads serve, where nobody has chosen"

    def at_chunk(i: int, state: EnsembleState) -> None:
        arrays = jax.tree.leaves(state.filters)
        assert all(a.sharding.device_set == set(jax.devices()) for a in arrays), "a belief has left its device"
        assert all(len(a.addressable_shards[0].data) < len(a) for a in arrays), "every device holds all beliefs"
        if i == 1:
            save(directory / "checkpoint", state, {})
            jax.monitoring.register_event_duration_secs_listener(
                lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
            )

    found = learn(ens, plain.shard(jax.devices()), at_chunk=at_chunk)
    assert len(jax.devices()) > 1
    np.savez(directory / "found.npz", **found, compiled=len(compiled))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
