"""The ensemble's filters on one device and on several, beside the CPU's own threads.

``python -m benchmarks.speed.devices`` learns 1,024 rows with 18 experts of F = 100 and of F = 500 features, on 1, 2,
4, ... of the devices that JAX finds, prints a table and writes the figures with the machine's description to
``results/devices.json`` (on GPUs, ``devices_gpu.json``). Medians of `--runs` runs after one that is thrown away, with
the least and the largest. A CPU counts as two devices, unless XLA_FLAGS says otherwise.
"""

import json
import os
from functools import partial
from typing import Annotated, Any

from benchmarks.common.paths import RESULTS_DIR

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # has to be set before JAX starts

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.common.machine import machine
from benchmarks.common.measure import RUNS, Spread, in_turn, spread
from benchmarks.common.workload import PIECE, fourier_experts, rows
from streamgp.models.gaussian.model import ensemble
from streamgp.weights import BMA

BASES, FEATURES = 6, (100, 500)


def on_devices(runs: int = RUNS) -> dict[str, dict[str, Spread]]:
    """Return microseconds for a row and expert, by where the filters run, by the number of features."""
    return {f"F = {features}": _measure(features, runs) for features in FEATURES}


def _measure(features: int, runs: int) -> dict[str, Spread]:
    X, y = (jnp.asarray(a) for a in rows(PIECE))
    model = ensemble(fourier_experts(BASES, features), BMA())
    plain = model.init(jax.random.key(0)).unsharded()
    devices = jax.devices()
    ways: dict[str, Any] = {
        "one program": partial(model._update_compiled, plain, X, y, jnp.ones(PIECE, bool), None),
        **({"the CPU's threads": partial(model.update, plain, X, y)} if jax.default_backend() == "cpu" else {}),
    }
    for n in [2**i for i in range(len(devices).bit_length())]:
        ways[f"{n} device{'s' * (n > 1)}"] = partial(model.update, plain.shard(devices[:n]), X, y)
    densities = [np.asarray(way()[1].predictive.log_density(y)) for way in ways.values()]
    for density in densities:
        np.testing.assert_allclose(density, densities[0], rtol=1e-8)  # wherever it ran
    jobs = {name: partial(lambda way: jax.block_until_ready(way()), way) for name, way in ways.items()}
    return {name: spread(values, 1e6 / PIECE / model.num_experts) for name, values in in_turn(jobs, runs).items()}


def main(runs: Annotated[int, typer.Option(min=1, help="Timed runs of each kind.")] = RUNS) -> None:
    """Measure, print and keep."""
    with jax.enable_x64(True):
        found = on_devices(runs)
    backend = jax.default_backend()
    about = machine() | {"devices": len(jax.devices())}
    results = RESULTS_DIR / ("devices.json" if backend == "cpu" else f"devices_{backend}.json")
    results.write_text(json.dumps({"machine": about, "runs": runs, "us": found}, indent=1) + "\n")
    table = Table("us, row and expert", *found, title=f"{about['devices']} x {about['device']}")
    for way in found[f"F = {FEATURES[0]}"]:
        each = (us[way] for us in found.values())
        table.add_row(way, *(f"{s['median']:.1f} ({s['min']:.1f} to {s['max']:.1f})" for s in each))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
