"""Other libraries' models on the same rows and by the same rules as streamgp.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.baselines --data DIR`` writes ``results/baselines.json`` after every
run; started again, it goes on where it stopped. It needs `river` besides what streamgp itself needs.

Every model is tested, then trained: row i is predicted from rows before i alone. Inputs and target are
standardised by the first 1,000 rows, from which every model learns too; the rows after them are scored. Where the
default would choose lags, a data set is run with them among the inputs as well.
"""

import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common.baselines import (
    WARMUP,
    Column,
    Prediction,
    Rows,
    boosting_refitted,
    persistence,
    river_arf,
    river_bayesian_linear,
    river_linear,
    running_mean,
    standardise,
    with_chosen_lags,
)
from benchmarks.common.datasets import CHOOSING, LAGGED, load
from benchmarks.common.paths import RESULTS_DIR
from streamgp.table.files import write_aside

RESULTS = RESULTS_DIR / "baselines.json"

MODELS: dict[str, Callable[[Rows, Column, int], Prediction]] = {
    f.__name__: f
    for f in (persistence, running_mean, river_bayesian_linear, river_linear, boosting_refitted, river_arf)
}
# The forest is slow; the models not named draw nothing.
SEEDS = {"boosting_refitted": 5, "river_arf": 3}


def score(model: str, X: Rows, y: Column, seed: int) -> dict[str, float]:
    """Run one model over one data set: metrics over the scored rows, and CPU seconds for all rows."""
    Xs, (ys, _, scale) = standardise(X)[0], standardise(y)
    start = time.process_time()
    mean, var = MODELS[model](Xs, ys, seed)
    seconds = time.process_time() - start
    scored = slice(WARMUP, None)
    error = (ys - mean)[scored]
    metrics = {
        "nmse": np.mean(error**2) / np.var(ys[scored]),
        "rmse": scale * np.sqrt(np.mean(error**2)),
        "mae": scale * np.mean(np.abs(error)),
        "seconds": seconds,
    }
    if var is not None:
        var = var[scored]
        metrics["pll"] = np.mean(-0.5 * (np.log(2 * np.pi * var) + error**2 / var))
    return {k: float(v) for k, v in metrics.items()}


def summarise(runs: list[dict]) -> dict:
    """Return median, smallest and largest of every metric over the seeds, by data set and model."""
    summary: dict = {}
    for run in runs:
        cell = summary.setdefault(run["data"], {}).setdefault(run["model"], {"seeds": 0})
        cell["seeds"] += 1
        for metric in ("nmse", "rmse", "mae", "pll", "seconds"):
            if metric in run:
                cell.setdefault(metric, []).append(run[metric])
    for models in summary.values():
        for cell in models.values():
            for metric, values in cell.items():
                if metric != "seeds":
                    cell[metric] = {
                        "median": float(np.median(values)),
                        "min": min(values),
                        "max": max(values),
                    }
    return summary


def write(path: Path, runs: list[dict]) -> None:
    """Write everything so far aside, then rename: a run that is stopped leaves the last whole file."""
    packages = ("river", "scikit-learn", "numpy")
    content = {
        "command": "OMP_NUM_THREADS=1 python -m benchmarks.accuracy.baselines --data DIR",
        "protocol": f"test-then-train, standardised by the first {WARMUP} rows, which are not scored; nmse "
        "is over the population variance of the scored targets; rmse and mae in units of the target; pll is "
        "per row with the target standardised; seconds are of CPU, for all rows",
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "summary": summarise(runs),
        "runs": runs,
    }
    write_aside(path, (json.dumps(content, indent=1) + "\n").encode())


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    out: Annotated[Path, typer.Option(help="JSON file to write, or to go on with.")] = RESULTS,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*CHOOSING, "friedman1")),
    models: Annotated[str, typer.Option(help="Models, with commas.")] = ",".join(MODELS),
) -> None:
    """Score every model on every data set: one seed of each first, then the further seeds."""
    runs = json.loads(out.read_text())["runs"] if out.exists() else []
    done = {(r["data"], r["model"], r["seed"]) for r in runs}
    try:
        tables = {name: load(name, data) for name in names.split(",")}
        for name, (X, y) in list(tables.items()):
            wide, lags = with_chosen_lags(X, y)
            tables |= {LAGGED.format(name): (wide, y)} if lags else {}
    except (ValueError, FileNotFoundError) as problem:
        raise SystemExit(str(problem)) from None
    for seed in range(5):
        for model in models.split(","):
            for name, (X, y) in tables.items():
                if seed >= SEEDS.get(model, 1) or (name, model, seed) in done:
                    continue
                metrics = score(model, X, y, seed)
                runs.append({"data": name, "rows": len(y), "model": model, "seed": seed, **metrics})
                write(out, runs)
                line = f"nmse {metrics['nmse']:.4f}  {metrics['seconds']:.1f} s"
                typer.echo(f"{name:16} {model:22} seed {seed}  {line}")


if __name__ == "__main__":
    typer.run(main)
