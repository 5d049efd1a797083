"""The ensemble's filters on one device and on several, beside the CPU's own threads.

``python benchmarks/devices.py`` learns 1,024 rows with 18 experts of F = 100 and of F = 500 features, on 1, 2, 4, ...
of the devices that JAX finds, prints a table and writes it to ``results/devices.json``, under the machine's
name. Medians of `--runs` runs after one that is thrown away. A CPU counts as two devices, unless XLA_FLAGS says
otherwise; on a machine with GPUs these are the devices.
"""

import json
import os
import platform
from functools import partial
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # has to be set before JAX starts

import jax
import jax.numpy as jnp
import numpy as np
import typer
from engine import fourier_experts, rows, timed
from rich.console import Console
from rich.table import Table

from streamgp.ensemble import ensemble
from streamgp.weights import BMA

RESULTS = Path(__file__).parent / "results" / "devices.json"
ROWS, BASES, FEATURES = 1024, 6, (100, 500)


def measure(features: int, runs: int) -> dict[str, float]:
    """Microseconds for a row and expert, by where the filters run; all of them give the same numbers."""
    X, y = (jnp.asarray(a) for a in rows(ROWS))
    model = ensemble(fourier_experts(BASES, features), BMA())
    plain = model.init(jax.random.key(0)).gathered()
    mask = jnp.ones(ROWS, bool)
    devices = jax.devices()
    ways: dict[str, Any] = {"one program": partial(model._update_compiled, plain, X, y, mask, None)}
    if jax.default_backend() == "cpu":
        ways["the CPU's threads"] = partial(model.update, plain, X, y)
    for n in [2**i for i in range(len(devices).bit_length())]:
        ways[f"{n} device{'s' * (n > 1)}"] = partial(model.update, plain.spread(devices[:n]), X, y)
    micro, wanted = {}, None
    for name, run in ways.items():
        density = np.asarray(run()[1].predictive.log_density(y))
        wanted = density if wanted is None else wanted
        np.testing.assert_allclose(density, wanted, rtol=1e-8)
        seconds = timed(lambda run=run: jax.block_until_ready(run()), runs)
        micro[name] = seconds / ROWS / model.num_experts * 1e6
    return micro


def main(runs: Annotated[int, typer.Option(help="Timed runs of each kind.")] = 5) -> None:
    """Measure, print, keep."""
    with jax.enable_x64(True):
        found = {f"F = {features}": measure(features, runs) for features in FEATURES}
    devices = jax.devices()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {len(devices)} x {devices[0].device_kind}"
    table = Table("microseconds for a row and expert", *found, title=machine)
    for way in found[f"F = {FEATURES[0]}"]:
        table.add_row(way, *(f"{micro[way]:.1f}" for micro in found.values()))
    Console().print(table)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(stored | {machine: found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
