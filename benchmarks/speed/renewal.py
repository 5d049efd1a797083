"""The cost of renewal: CPU seconds of a whole evaluation, each in a process of its own, one after the other.

``OMP_NUM_THREADS=1 python -m benchmarks.speed.renewal --data DIR`` prints the seconds of every model and the ratio to
the first; imports and compilation are included.
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.common.datasets import load
from streamgp import StreamingGPRegressor, evaluate

MODELS: dict[str, dict[str, Any]] = {
    "never renewed": {"renew": False},
    "default": {},
    "best": {"model": "best"},
}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = "kin40k,cpusmall",
    rows: Annotated[int, typer.Option(help="Rows of each.")] = 10_000,
    repeats: Annotated[int, typer.Option(help="Runs of each model.")] = 1,
    only: Annotated[str | None, typer.Option(help="Run this model here, and print its CPU seconds.")] = None,
) -> None:
    """Time every model on every set."""
    if only is not None:
        X, y = load(names, data, rows)
        evaluate(StreamingGPRegressor(**MODELS[only]), X, y, progress=False)
        print(time.process_time())
        return
    program = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.renewal", "--rows", str(rows)]
    program += [] if data is None else ["--data", str(data)]
    for name in names.split(","):
        seconds: dict[str, list[float]] = {label: [] for label in MODELS}
        for _ in range(repeats):
            for label, taken in seconds.items():
                command = [*program, "--names", name, "--only", label]
                taken.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        first = median(next(iter(seconds.values())))
        for label, taken in seconds.items():
            print(f"{name}: {label}: {median(taken):.1f} s, {median(taken) / first:.2f} times", flush=True)


if __name__ == "__main__":
    typer.run(main)
