"""How much any layer of noise could gain on the tables of Vasiloudis et al. (2019), the means being what they are.

``python -m benchmarks.accuracy.noise_in_hindsight --data DIR`` runs `fast` on every ``jmlr_*.parquet`` without noise
by input, and then lets LightGBM learn the log squares of its standardised errors, from the inputs, the predicted
mean and the predicted spread: five folds of all rows, each predicted by a fit to the others, of the future too, with
the best of three sizes of trees and three shrinkages by the score itself. Both distributions take the quantiles of
their errors from all rows. So this is no method, but what one may hope for. ``results/noise_in_hindsight.json``
has the changes of the CRPS.
"""

import json
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from lightgbm import LGBMRegressor

from benchmarks.accuracy.noise_by_input import ROWS, WARMUP
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "noise_in_hindsight.json"
LEVELS = np.arange(1, 100) / 100
TREES = ((15, 20, 100), (7, 50, 150), (4, 100, 200))  # leaves, least rows of one, rounds
SHRINKAGES = (0.5, 0.75, 1.0)
FOLDS = 5


def crps(error: np.ndarray, std: np.ndarray) -> float:
    """Return the CRPS where errors over their scale have, in every row, the quantiles that they have in all."""
    off = error[:, None] - std[:, None] * np.quantile(error / std, LEVELS)
    return 2.0 * float(np.maximum(LEVELS * off, (LEVELS - 1.0) * off).mean())


def log_squares(inputs: np.ndarray, z: np.ndarray, leaves: int, least: int, rounds: int) -> np.ndarray:
    """Predict the logs of the squares of `z`, every fold by the others."""
    logs, fold = np.log(np.maximum(np.square(z), 1e-4)), np.random.default_rng(0).integers(0, FOLDS, len(z))
    found = np.empty(len(z))
    for k in range(FOLDS):
        model = LGBMRegressor(
            n_estimators=rounds,
            learning_rate=0.05,
            num_leaves=leaves,
            min_child_samples=least,
            random_state=0,
            n_jobs=1,
            verbose=-1,
        ).fit(inputs[fold != k], logs[fold != k])
        found[fold == k] = np.asarray(model.predict(inputs[fold == k]))
    return found


def gains(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the changes of the CRPS over no layer, of ours and of the one in hindsight."""
    with_it, without = (
        evaluate(StreamingGPRegressor("fast", warmup=WARMUP, noise_by_input=on), X, y, progress=False)
        for on in (True, False)
    )
    late = slice(WARMUP, None)
    mean, std = without.mean[late], without.std[late]
    error, inputs = y[late] - mean, np.column_stack([X[late], mean, np.log(std)])
    logs = [log_squares(inputs, error / std, *each) for each in TREES]
    best = min(crps(error, std * np.exp(0.5 * share * h)) for h, share in product(logs, SHRINKAGES))
    return {
        "noise by input": with_it.metrics["crps"] / without.metrics["crps"] - 1.0,
        "in hindsight": best / crps(error, std) - 1.0,
    }


def main(data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")]) -> None:
    """Run every table."""
    tables: dict[str, dict[str, float]] = {}
    for path in sorted(data.glob("jmlr_*.parquet")):
        frame = pl.read_parquet(path).head(ROWS).with_columns(pl.col(pl.String).cast(pl.Categorical).to_physical())
        X, y = frame.drop("y").to_numpy().astype(float), frame["y"].to_numpy().astype(float)
        name = path.stem.removeprefix("jmlr_")
        tables[name] = {which: round(gain, 5) for which, gain in gains(X, y).items()}
        print(name, tables[name], flush=True)
        RESULTS.write_text(json.dumps({"machine": machine(), "tables": tables}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
