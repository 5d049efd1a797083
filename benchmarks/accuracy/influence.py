"""Importance on streams whose shares of the variance are known: the true shares beside the reported ones.

``python -m benchmarks.accuracy.influence`` writes ``results/influence.json`` and prints the table of
docs/research/robustness.md. The truth is that of the law that streams are drawn from: what independent inputs put
into the variance of the target, half of an interaction or of what copies say, and the closed form for two normal
inputs of a plane (Owen and Prieur 2017).
"""

import json
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor

RESULTS = RESULTS_DIR / "influence.json"
ROWS, WARMUP = 4_000, 300
NOISE = 0.1
SLOPES = np.array([3.0, 2.0, 1.0])

Stream = tuple[np.ndarray, np.ndarray, Any]


def independent(rng: np.random.Generator) -> Stream:
    """Generate three independent inputs."""
    X = rng.normal(size=(ROWS, 3))
    return X, X @ SLOPES + NOISE * rng.normal(size=ROWS), np.square(SLOPES) / 14.0


def noisy(rng: np.random.Generator) -> Stream:
    """Generate noise with as much variance as all inputs together."""
    X, y, shares = independent(rng)
    return X, y + np.sqrt(14.0) * rng.normal(size=ROWS), shares / 2.0


def copies(rng: np.random.Generator) -> Stream:
    """Generate three inputs, the third a copy of the first."""
    X = rng.normal(size=(ROWS, 3))
    X[:, 2] = X[:, 0]
    return X, X @ [2.0, 1.0, 0.0] + NOISE * rng.normal(size=ROWS), [0.4, 0.2, 0.4]


def near_copies(rng: np.random.Generator) -> Stream:
    """Generate three inputs, the third the first with a thousandth of noise."""
    X = rng.normal(size=(ROWS, 3))
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]
    return X, X @ [2.0, 1.0, 0.0] + NOISE * rng.normal(size=ROWS), [0.4, 0.2, 0.4]


def correlated(rng: np.random.Generator) -> Stream:
    """Generate two inputs with a correlation of 0.8."""
    X, rho = rng.normal(size=(ROWS, 2)), 0.8
    X[:, 1] = rho * X[:, 0] + np.sqrt(1.0 - rho**2) * X[:, 1]
    one = (4.0 * (1.0 - rho**2 / 2.0) + 2.0 * rho + rho**2 / 2.0) / (5.0 + 4.0 * rho)
    return X, X @ [2.0, 1.0] + NOISE * rng.normal(size=ROWS), [one, 1.0 - one]


def standing_still(rng: np.random.Generator) -> Stream:
    """Generate two inputs, the first constant in the last 64 rows."""
    X = rng.normal(size=(ROWS, 2)) * [np.sqrt(24.0), 1.0]
    X[-64:, 0] = X[-65, 0]
    return X, X.sum(axis=1) + NOISE * rng.normal(size=ROWS), [0.96, 0.04]


def growing_inputs(rng: np.random.Generator) -> Stream:
    """Generate inputs, and with them a target, whose spread grows twentyfold."""
    X = rng.normal(size=(ROWS, 2)) * np.linspace(1.0, 20.0, ROWS)[:, None]
    return X, X @ [3.0, 1.0] + NOISE * rng.normal(size=ROWS), [0.9, 0.1]


def growing_slopes(rng: np.random.Generator) -> Stream:
    """Generate a target whose slopes grow twentyfold."""
    X = rng.normal(size=(ROWS, 2))
    return X, np.linspace(1.0, 20.0, ROWS) * (X @ [3.0, 1.0]), [0.9, 0.1]


def drifting_level(rng: np.random.Generator) -> Stream:
    """Generate a target whose level is a random walk, independent of the inputs."""
    X, level = rng.normal(size=(ROWS, 2)), np.cumsum(0.2 * rng.normal(size=ROWS))
    return X, X.sum(axis=1) + level, np.ones(2) / (2.0 + level.var())


def interaction(rng: np.random.Generator) -> Stream:
    """Generate a target that is the product of two of three inputs."""
    X = rng.normal(size=(ROWS, 3))
    return X, X[:, 0] * X[:, 1] + NOISE * rng.normal(size=ROWS), [0.5, 0.5, 0.0]


def curves(rng: np.random.Generator) -> Stream:
    """Generate a target that is a sine of one input and the square of another."""
    X = rng.normal(size=(ROWS, 3))
    f = np.sqrt(2.0) * np.sin(2.0 * X[:, 0]) + np.square(X[:, 1]) / np.sqrt(2.0)
    return X, f + NOISE * rng.normal(size=ROWS), [0.5, 0.5, 0.0]


PLANES: dict[str, Callable[[np.random.Generator], Stream]] = {
    "independent": independent,
    "as much noise": noisy,
    "copies": copies,
    "near-copies": near_copies,
    "correlated": correlated,
    "still at the end": standing_still,
    "inputs spread 20 times": growing_inputs,
    "slopes grow 20 times": growing_slopes,
    "level drifts": drifting_level,
}
CURVED: dict[str, Callable[[np.random.Generator], Stream]] = {"interaction": interaction, "curves": curves}


def told(model: str, make: Callable[[np.random.Generator], Stream], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth and what a model says after a stream."""
    X, y, truth = make(np.random.default_rng(seed))
    found = StreamingGPRegressor(model, warmup=WARMUP).partial_fit(X, y).feature_importance()
    return np.asarray(truth, dtype=float), np.array([found[f"x{i}"] for i in range(X.shape[1])])


def main(
    seeds: Annotated[int, typer.Option(help="Seeds of the model `linear`, from 0.")] = 20,
    curved_seeds: Annotated[int, typer.Option(help="Seeds of the models `fast` and `default`.")] = 3,
) -> None:
    """Run, store and print the table."""
    warnings.simplefilter("ignore")
    curved = [(model, PLANES | CURVED, curved_seeds) for model in ("fast", "default")]
    runs = [("linear", PLANES, seeds), *curved]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    print("| model | stream | truth | told, first seed | largest error of all seeds |\n" + "|---" * 5 + "|")
    for model, streams, count in runs:
        for name, make in streams.items():
            pairs = [told(model, make, seed) for seed in range(count)]
            errors = [float(np.abs(share - truth).max()) for truth, share in pairs]
            largest = max(float(share.sum()) for _, share in pairs)
            found.setdefault(model, {})[name] = {
                "truth": pairs[0][0].round(4).tolist(),
                "told": pairs[0][1].round(4).tolist(),
                "largest_sum": round(largest, 6),
                "errors": [round(error, 4) for error in errors],
            }
            first = (" ".join(f"{share:.3f}" for share in each) for each in pairs[0])
            print(f"| {model} | {name} | {' | '.join(first)} | {max(errors):.3f} |", flush=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "influence": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
