"""What noise that follows the inputs costs: CPU seconds of `fast` with it over those without.

``OMP_NUM_THREADS=1 python -m benchmarks.speed.noise_by_input`` runs both in turn in this process on a constructed
stream of 20 inputs, several times, and writes the median of the ratios of neighbouring runs to
``results/noise_by_input_cost.json``. The warm-up is not counted.
"""

import json
import os
from copy import deepcopy
from statistics import median
from typing import Annotated

import numpy as np
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor

RESULTS = RESULTS_DIR / "noise_by_input_cost.json"
WARMUP, INPUTS = 1_000, 20


def seconds(warm: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> float:
    """Return the CPU seconds that a copy of a model takes for the rows after the warm-up, in chunks of 1,000."""
    model = deepcopy(warm)
    began = os.times().user
    for at in range(WARMUP, len(X), 1_000):
        model.partial_fit(X[at : at + 1_000], y[at : at + 1_000])
    return os.times().user - began


def main(
    rows: Annotated[int, typer.Option(help="Rows after the warm-up.")] = 20_000,
    repeats: Annotated[int, typer.Option(help="How often each is run.")] = 21,
) -> None:
    """Time both in turn, after one run of each that is not counted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(WARMUP + rows, INPUTS))
    y = np.sin(X[:, 0]) + X[:, 1] + np.exp(0.5 * X[:, 2]) * rng.normal(size=len(X))
    warm = [
        StreamingGPRegressor("fast", warmup=WARMUP, random_state=0, noise_by_input=on).partial_fit(
            X[:WARMUP], y[:WARMUP]
        )
        for on in (True, False)
    ]
    spent = [[seconds(model, X, y) for model in warm] for _ in range(repeats + 1)][1:]
    ratios = sorted(on / off for on, off in spent)
    found = {"machine": machine(), "rows": rows, "inputs": INPUTS, "ratio": median(ratios), "ratios": ratios}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    typer.run(main)
