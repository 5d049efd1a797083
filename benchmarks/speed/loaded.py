"""The cost of a busy machine: a warm-up and the rows after it, alone and beside a process that fills a core.

``python -m benchmarks.speed.loaded`` writes ``results/loaded.json``. Every run is a process of its own, alone and
loaded by turns. A row may cost twice as much where two programs share the cores; many times as much means that
threads wait for each other.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Annotated

import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR, ROOT
from benchmarks.common.workload import rows
from streamgp import StreamingGPRegressor

WARMUP, CHUNK, CHUNKS = 1_000, 1_024, 4
BUSY = """
import os, numpy as np
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
A = np.random.default_rng(0).normal(size=(1500, 1500))
while True:
    A @ A
"""


@contextmanager
def load() -> Iterator[None]:
    """Keep one of the cores busy meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    try:
        yield
    finally:
        process.kill()
        process.wait()


def one(preset: str) -> None:
    """Print the seconds of a warm-up, and microseconds a row after it."""
    X, y = rows(WARMUP + (CHUNKS + 1) * CHUNK)
    start = time.perf_counter()
    model = StreamingGPRegressor(preset, warmup=WARMUP, random_state=0).partial_fit(X[:WARMUP], y[:WARMUP, 0])
    middle, at = time.perf_counter(), WARMUP + CHUNK
    model.partial_fit(X[WARMUP:at], y[WARMUP:at, 0])
    begun = time.perf_counter()
    model.partial_fit(X[at:], y[at:, 0])
    each = (time.perf_counter() - begun) / (CHUNKS * CHUNK)
    print(json.dumps({"warmup_seconds": middle - start, "microseconds_a_row": 1e6 * each}))


def main(
    runs: Annotated[int, typer.Option(min=1, help="Runs of each kind.")] = 3,
    only: Annotated[str | None, typer.Option(help="Run this preset here, once, and print its times.")] = None,
) -> None:
    """Measure, keep and print."""
    if only is not None:
        one(only)
        return
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for _ in range(runs):
        for preset in ("fast", "default"):
            for state in ("alone", "loaded"):
                with load() if state == "loaded" else nullcontext():
                    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.loaded", "--only", preset]
                    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
                for name, value in json.loads(done.stdout.splitlines()[-1]).items():
                    found.setdefault(preset, {}).setdefault(name, {}).setdefault(state, []).append(value)
    for preset, measured in found.items():
        for name, each in measured.items():
            alone, loaded = (median(each[state]) for state in ("alone", "loaded"))
            print(f"{preset}, {name}: alone {alone:.4g}, loaded {loaded:.4g}: {loaded / alone:.2f} times")
    (RESULTS_DIR / "loaded.json").write_text(json.dumps({"machine": machine(), "presets": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
