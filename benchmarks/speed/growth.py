"""The growth of time and memory with rows, features, experts, outputs and inputs.

``python -m benchmarks.speed.growth`` prints, as JSON: (e) seconds and microseconds for a row and expert; resident
memory along a stream; (f) memory of an expert. Memory is read in processes of its own, on Linux.
"""

import gc
from functools import partial
from typing import Any

import jax
import numpy as np
from rich import print_json

from benchmarks.common.measure import RUNS, in_fresh_process, in_turn, memory_mb, spread
from benchmarks.common.workload import LEVELS, fourier_experts, rows, stream
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.weights import BMA

LENGTHS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SLOPE_FROM = 10_000  # below it the price of a call shows
FEATURES = (32, 64, 128, 256, 512, 1024, 2048)
EXPERTS = (1, 4, 16, 64, 256, 512)
OUTPUTS = (1, 2, 4, 8, 16, 32, 64)
INPUTS = (1, 8, 32, 128, 500)
PIECE = 100_000  # rows drawn at a time where memory is read
PAIR = (0.0, 1e-3)


def few_experts() -> Ensemble:
    """Return three experts of one basis: light enough for a million rows."""
    return ensemble(fourier_experts(1, 50), BMA())


def growth(runs: int = RUNS) -> dict[str, Any]:
    """Measure (e): time against rows, features, experts, outputs and inputs; memory along the rows."""
    model = few_experts()
    X, y = rows(max(LENGTHS))
    seconds = in_turn({str(n): partial(stream, model, X[:n], y[:n]) for n in LENGTHS}, runs)
    long = [n for n in LENGTHS if n >= SLOPE_FROM]
    slopes = [np.polyfit(np.log(long), np.log([seconds[str(n)][i] for n in long]), 1)[0] for i in range(runs)]
    return {
        "rows_s": {n: spread(values) for n, values in seconds.items()},
        "slope": spread([float(slope) for slope in slopes]),
        "memory_mb": in_fresh_process(memory_along_rows),
        "features_us": _per_expert(runs, {F: (2, F, LEVELS, 1, 8) for F in FEATURES}),
        "experts_us": _per_expert(
            runs, {K: (max(K // 2, 1), 100, PAIR if K > 1 else PAIR[:1], 1, 8) for K in EXPERTS}
        ),
        "outputs_us": _per_expert(runs, {E: (2, 100, LEVELS, E, 8) for E in OUTPUTS}),
        "inputs_us": _per_expert(runs, {d: (2, 100, LEVELS, 1, d) for d in INPUTS}),
    }


def _per_expert(runs: int, shapes: dict[int, tuple]) -> dict[int, dict[str, float]]:
    """Time a row and expert, in microseconds, by bases, features, levels of forgetting, outputs and inputs."""
    found = {}
    for name, (bases, features, levels, outputs, inputs) in shapes.items():
        X, y = rows(1024, inputs, outputs)
        model = ensemble(fourier_experts(bases, features, levels, inputs), BMA(), num_outputs=outputs)
        seconds = in_turn({"stream": partial(stream, model, X, y)}, runs)["stream"]
        found[name] = spread(seconds, 1e6 / len(X) / model.num_experts)
    return found


def memory_along_rows() -> dict[int, dict[str, float]]:
    """Return resident MiB after so many rows of one stream, of which one piece is held at a time."""
    found = {}
    with jax.enable_x64(True):
        model = few_experts()
        X, y = rows(PIECE)
        state, at = None, 0
        for n in LENGTHS:
            while at < n:
                state, _ = stream(model, X[: n - at], y[: n - at], state)
                at += min(n - at, PIECE)
            found[n] = memory_mb()
    return found


def memory_per_expert(runs: int = RUNS) -> list[dict[str, float]]:
    """Measure (f): KiB of an expert: its arrays, and how much larger a process is with 256 of them than with 64.

    `resident` is what stays; `peak` counts what an update needs beside it. Sizes do not scatter as times do: each is
    measured once, whatever `runs`.
    """
    del runs
    found = []
    for F in (100, 200, 400):
        few, many = (in_fresh_process(memory_of, K, F) for K in (64, 256))
        per_expert = {name: (many[name] - few[name]) / (256 - 64) * 1024 for name in ("now", "peak")}
        kib = {"arrays": many["arrays"] * 1024 / 256, "resident": per_expert["now"], "peak": per_expert["peak"]}
        found.append({"features": F, **{f"{name}_kib": value for name, value in kib.items()}})
    return found


def memory_of(experts: int, features: int) -> dict[str, float]:
    """Return MiB of a process that has streamed through an ensemble, and of the ensemble's state."""
    with jax.enable_x64(True):
        model = ensemble(fourier_experts(experts // 2, features, PAIR), BMA())
        state, _ = stream(model, *rows(4096))
        arrays = sum(a.nbytes for a in jax.tree.leaves(state.filters))
        gc.collect()
        return {"arrays": arrays / 2**20, **memory_mb()}


if __name__ == "__main__":
    with jax.enable_x64(True):
        print_json(data={"growth": growth(), "memory": memory_per_expert()})
