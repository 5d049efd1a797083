"""Missing inputs: the loss of accuracy with 10% of the cells gone at random, beside the best imputation.

``python -m benchmarks.robustness.missing --data DIR`` runs the default over complete rows, over rows with gaps, and
over rows whose gaps were filled beforehand by trees that saw all rows, those that come later among them
(scikit-learn's `IterativeImputer` over extremely randomised trees): no stream can know so much. LightGBM, which takes
gaps as they are, is refitted every 500 rows. It writes ``results/missing.json`` after every run and goes on where it
stopped.
"""

import json
import warnings
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from benchmarks.common.baselines import WARMUP, Column, Rows, lightgbm_refitted
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from benchmarks.robustness.corrupted import stream
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "missing.json"
SETS = ("cpusmall", "elevators_ucids", "beijing_pm25", "kin40k", "cadata")
SHARE = 0.1


def default(X: Rows, y: Column, seed: int) -> dict:
    """Return scores of the default."""
    metrics = evaluate(StreamingGPRegressor(warmup=WARMUP, random_state=seed), X, y, progress=False).metrics
    return {name: metrics[name] for name in ("nmse", "pll_standardised", "coverage")}


def filled(X: Rows, seed: int) -> Rows:
    """Return the rows without gaps, by trees that see all of them."""
    trees = ExtraTreesRegressor(100, min_samples_leaf=2, random_state=seed, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not settled after four rounds, and further ones change little
        return np.asarray(IterativeImputer(trees, max_iter=4, random_state=seed).fit_transform(X))


def lightgbm(X: Rows, y: Column, seed: int) -> dict:
    """Return the score of LightGBM."""
    error = (lightgbm_refitted(X, y, seed)[0] - y)[WARMUP:]
    return {"nmse": float(np.mean(error**2) / y[WARMUP:].var())}


MODELS = {
    "default": lambda X, gaps, y, seed: default(X, y, seed),
    "default, 10% missing": lambda X, gaps, y, seed: default(gaps, y, seed),
    "default, filled by trees that saw all rows": lambda X, gaps, y, seed: default(filled(gaps, seed), y, seed),
    "LightGBM": lambda X, gaps, y, seed: lightgbm(X, y, seed),
    "LightGBM, 10% missing": lambda X, gaps, y, seed: lightgbm(gaps, y, seed),
}
RATIOS = (
    ("default", "default, 10% missing", "default"),
    ("filled by trees that saw all rows", "default, filled by trees that saw all rows", "default"),
    ("LightGBM refitted", "LightGBM, 10% missing", "LightGBM"),
)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 3,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the table.")] = False,
) -> None:
    """Run what is missing and print a table."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine(), "runs": {}}
    for seed in range(0 if table_only else seeds):
        for name in names.split(","):
            X, y = stream(name, data, seed)
            gaps = np.where(np.random.default_rng([seed, 5]).random(X.shape) < SHARE, np.nan, X)
            for model, run in MODELS.items():
                of = stored["runs"].setdefault(name, {}).setdefault(model, [])
                if len(of) <= seed:
                    of.append(run(X, gaps, y, seed))
                    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
                    print(name, model, seed, of[-1], flush=True)
    print("| nMSE with 10% missing over that of complete rows | " + " | ".join(stored["runs"]) + " |")
    print("|---" * (len(stored["runs"]) + 1) + "|")
    for says, gappy, complete in RATIOS:
        cells = []
        for models in stored["runs"].values():
            each = [g["nmse"] / c["nmse"] for g, c in zip(models[gappy], models[complete], strict=False)]
            several = f" ({min(each):.2f} to {max(each):.2f})" if len(each) > 1 else ""
            cells.append(f"{median(each):.2f}{several}")
        print(f"| {says} | " + " | ".join(cells) + " |")
    held = [
        f"{median(100 * run['coverage']['90'] for run in models['default, 10% missing']):.1f}"
        for models in stored["runs"].values()
    ]
    print("| 90% bands of the default hold, with gaps (%) | " + " | ".join(held) + " |")


if __name__ == "__main__":
    typer.run(main)
