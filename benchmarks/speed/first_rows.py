"""The time of the first rows, in a new process.

``python -m benchmarks.speed.first_rows`` writes ``results/first_rows.json``. Every run is a process of its own: the
import of an estimator, and one `partial_fit` over the warm-up and 100 rows after it. Seconds of the processor, of all
threads, beside those of a clock: on a busy machine believe the former.
"""

import json
import subprocess
import sys
import time
from typing import Annotated

import numpy as np
import typer

from benchmarks.common.measure import spread
from benchmarks.common.paths import RESULTS_DIR, ROOT

WARMUP, AFTER, INPUTS = 1_000, 100, 8
PRESETS = ("linear", "fast", "default", "best")


def one(preset: str) -> None:
    """Print the seconds that the first rows take here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(WARMUP + AFTER, INPUTS))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    clock, processor = time.perf_counter(), time.process_time()
    from streamgp import StreamingGPRegressor

    imported = time.process_time()
    StreamingGPRegressor(preset, warmup=WARMUP, random_state=0).partial_fit(X, y)
    ended = time.process_time()
    seconds = {"import": imported - processor, "first rows": ended - imported, "clock": time.perf_counter() - clock}
    print(json.dumps(seconds))


def main(
    runs: Annotated[int, typer.Option(min=1, help="Processes for each preset.")] = 5,
    only: Annotated[str | None, typer.Option(help="Run this preset here, once, and print its times.")] = None,
) -> None:
    """Measure, keep and print."""
    if only is not None:
        one(only)
        return
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(runs):
        for preset in PRESETS:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.first_rows", "--only", preset]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            for name, value in json.loads(done.stdout.splitlines()[-1]).items():
                found.setdefault(preset, {}).setdefault(name, []).append(value)
    spreads = {preset: {name: spread(each) for name, each in measured.items()} for preset, measured in found.items()}
    from benchmarks.common.machine import machine  # imports what a process that is timed has yet to import

    (RESULTS_DIR / "first_rows.json").write_text(
        json.dumps({"machine": machine(), "runs": runs, "presets": spreads}, indent=1) + "\n"
    )
    for preset, measured in spreads.items():
        seconds = ", ".join(f"{name} {each['median']:.2f} s" for name, each in measured.items())
        print(f"{preset}: {seconds}")


if __name__ == "__main__":
    typer.run(main)
