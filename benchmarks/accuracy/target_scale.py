"""The gain of ``target_transform`` on targets with heavy tails.

``python -m benchmarks.accuracy.target_scale --data DIR`` runs the model `fast` on made-up streams, and on the tables
of DIR if it is given; it writes ``results/target_scale.json`` and prints the table of docs/how-to/target-scale.md.
`bound` is the share of scored rows whose CRPS is above sqrt(std^2 + (mean - y)^2), which no distribution's is.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "target_scale.json"
ROWS, WARMUP = 3_000, 500
TABLES: dict[str, dict[str, Any]] = {
    "cadata": {},
    "abalone": {},
    "household_power_hourly": {"lags": [1, 24]},
    "beijing_pm25": {"lags": [1, 2]},
    "appliances_energy": {"lags": [1, 2]},
}
Stream = tuple[np.ndarray, np.ndarray]


def jobs(rng: np.random.Generator) -> Stream:
    """Generate durations proportional to a size, for four kinds of work, with lognormal noise."""
    size, kind = rng.lognormal(0.0, 1.2, ROWS), rng.integers(0, 4, ROWS)
    X = np.column_stack([size, kind == 1, kind == 2, rng.normal(size=ROWS)]).astype(float)
    return X, 5.0 * size * np.array([1.0, 2.0, 5.0, 0.5])[kind] * rng.lognormal(0.0, 1.0, ROWS)


def durations(rng: np.random.Generator) -> Stream:
    """Generate durations whose logarithm has noise with standard deviation 2.5."""
    X = rng.normal(size=(ROWS, 4))
    return X, np.exp(1.0 + 0.8 * X[:, 0] - 0.5 * X[:, 1] * (X[:, 2] > 0.0) + 2.5 * rng.normal(size=ROWS))


def pareto(rng: np.random.Generator) -> Stream:
    """Generate sizes with a Pareto tail of index 1.5, which has no variance."""
    X = rng.normal(size=(ROWS, 5))
    return X, np.exp(1.0 + X[:, 0] + np.sin(2.0 * X[:, 1])) * (1.0 + rng.pareto(1.5, ROWS))


def river(rng: np.random.Generator) -> Stream:
    """Flow that goes back to its base between floods of any height."""
    z, flood = np.zeros(ROWS), rng.exponential(0.8, ROWS) * (rng.random(ROWS) < 0.05)
    for i in range(1, ROWS):
        z[i] = 0.97 * z[i - 1] + 0.06 * rng.normal() + flood[i]
    return rng.normal(size=(ROWS, 1)), np.exp(z)


MADE_UP: dict[str, tuple[Callable[[np.random.Generator], Stream], dict[str, Any]]] = {
    "jobs": (jobs, {}),
    "durations": (durations, {}),
    "pareto": (pareto, {}),
    "river": (river, {"lags": [1, 2]}),
}


def measured(X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> dict[str, float]:
    """Return the scores of one run."""
    r = evaluate(StreamingGPRegressor("fast", warmup=WARMUP, **options), X, y, progress=False)
    most = np.hypot(r.std, r.mean - y)
    names = ("nmse", "crps", "pll")
    found = {name: float(r.metrics[name]) for name in names} | {"coverage90": float(r.metrics["coverage"]["90"])}
    return found | {"bound": float(np.mean((r.crps > 1.001 * most)[WARMUP:]))}


def main(data: Annotated[Path | None, typer.Option(help="The folder of the tables.")] = None) -> None:
    """Run all, write the results and print the table."""
    streams = {name: (make(np.random.default_rng(0)), options) for name, (make, options) in MADE_UP.items()}
    for name, options in TABLES.items() if data is not None else ():
        X, y = load(name, data, whole=True)
        streams[name] = (np.asarray(X, float)[:ROWS], np.ravel(y)[:ROWS]), options
    results: dict[str, dict[str, dict[str, float]]] = {}
    print("| stream | scale | nMSE | CRPS | log density | in bands of 90% |\n|---|---|---|---|---|---|")
    for name, ((X, y), options) in streams.items():
        scale = "log" if y.min() > 0.0 else "log1p"
        results[name] = {}
        for transform in (None, scale):
            found = measured(X, y, options | {"target_transform": transform})
            results[name][transform or "none"] = found
            scores = f"{found['nmse']:.3f} | {found['crps']:.4g} | {found['pll']:.3f} | {found['coverage90']:.1%}"
            print(f"| {name} | {transform or 'its own'} | {scores} |", flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
