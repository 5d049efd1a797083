"""Quantiles of streamgp and of LightGBM for the prices of diamonds, of the package plotnine.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.diamonds`` draws 20,000 of the 53,940 stones, others and in
another order for each seed, writes ``results/diamonds.json`` after every run and goes on where it stopped. It needs
`lightgbm` and `plotnine`. Models and scores are those of `benchmarks.accuracy.jmlr_tables`; of cut, colour and
clarity the inputs are the grades.
"""

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import typer

from benchmarks.accuracy.jmlr_tables import MODELS, score
from benchmarks.common.baselines import Column, Rows
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "diamonds.json"
ROWS, SEEDS = 20_000, 3
COMPARED = ("fast", "default", "LightGBM quantiles")
GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": ["J", "I", "H", "G", "F", "E", "D"],
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def stones(seed: int) -> tuple[Rows, Column]:
    """Return inputs and prices of stones drawn at random."""
    package = find_spec("plotnine")
    if package is None or package.origin is None:
        raise typer.BadParameter("the package plotnine, which has the table, is not installed: pip install plotnine")
    frame = pl.read_csv(Path(package.origin).parent / "data" / "diamonds.csv")
    graded = [pl.col(name).replace_strict(grades, range(len(grades))) for name, grades in GRADES.items()]
    frame = frame.with_columns(graded).sample(ROWS, shuffle=True, seed=seed)
    X = frame.select("carat", *GRADES, "depth", "table", "x", "y", "z").to_numpy()
    return X.astype(float), frame["price"].to_numpy().astype(float)


def main() -> None:
    """Run what is missing of the results."""
    found: dict[str, Any] = {"machine": machine(), "models": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for seed in range(SEEDS):
        X, y = stones(seed)
        for model in COMPARED:
            runs = found["models"].setdefault(model, {})
            if str(seed) in runs:
                continue
            began = time.process_time()
            quantiles = np.asarray(MODELS[model](X, y, seed))
            seconds = time.process_time() - began
            runs[str(seed)] = score(X, y, quantiles) | {"rows": len(y), "seconds": round(seconds, 1)}
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(model, seed, runs[str(seed)], flush=True)


if __name__ == "__main__":
    typer.run(main)
