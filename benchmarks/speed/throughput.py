"""Rows a second of a model, the default one or another preset, and the share of the time that goes to compiling.

``python -m benchmarks.speed.throughput [--data DIR] [--name friedman1]`` runs test-then-train once in this process,
from nothing compiled, and once more with everything compiled, and prints both.
"""

import time
from pathlib import Path
from typing import Annotated

import jax
import typer

from benchmarks.common.datasets import load
from streamgp import StreamingGPRegressor, evaluate


def main(
    name: Annotated[str, typer.Option(help="Data set; friedman1 needs no files.")] = "friedman1",
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    warmup: Annotated[int, typer.Option(help="Rows of the warm-up.")] = 1_000,
    preset: Annotated[str, typer.Option("--model", help="Preset.")] = "default",
) -> None:
    """Time the warm-up and the stream after it, with and without compilation."""
    spent = {"compiling": 0.0}

    def listen(event: str, seconds: float, **_: object) -> None:
        if event.startswith("/jax/core/compile/"):
            spent["compiling"] += seconds

    jax.monitoring.register_event_duration_secs_listener(listen)
    X, y = load(name, data)
    for label in ("from nothing compiled", "everything compiled"):
        spent["compiling"] = 0.0
        model = StreamingGPRegressor(preset, warmup=warmup)
        began = time.perf_counter()
        evaluate(model, X[:warmup], y[:warmup], progress=False)
        middle, compiling_warmup = time.perf_counter(), spent["compiling"]
        evaluate(model, X[warmup:], y[warmup:], progress=False)
        end = time.perf_counter()
        rows, experts = len(X) - warmup, len(model.experts_)
        print(
            f"{name}, {label}: warm-up {middle - began:.1f} s ({compiling_warmup / (middle - began):.0%} compiling); "
            f"{rows:,} rows x {experts} experts in {end - middle:.1f} s = {rows / (end - middle):,.0f} rows/s "
            f"({(spent['compiling'] - compiling_warmup) / (end - middle):.0%} compiling); "
            f"of all {end - began:.1f} s, {spent['compiling'] / (end - began):.0%} went to compiling"
        )


if __name__ == "__main__":
    typer.run(main)
