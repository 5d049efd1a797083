"""Bands of streamgp, of river's adaptive random forest and of LightGBM on the tables of Vasiloudis et al. (2019).

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.jmlr_tables --data DIR`` runs every model on every
``jmlr_*.parquet`` of the directory, writes ``results/jmlr_tables.json`` after every run and goes on where it stopped.
It needs `river` and `lightgbm` besides what streamgp itself needs.

Every model is tested, then trained; the first 1,000 rows are not scored. Every model names the same ten quantiles,
those in the middle of tenths, of which the outermost are the ends of a 90% band, and twice their mean quantile loss
is the midpoint rule for the CRPS. Words are numbered in the order in which they come.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.accuracy.noise_by_input import fifths
from benchmarks.common.baselines import WARMUP, Column, Rows
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.evaluation.metrics import interval_score
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "jmlr_tables.json"
LEVELS = np.arange(0.05, 1.0, 0.1)
REFIT_EVERY = 1_000  # rows after which LightGBM's models are fitted anew, to all rows seen
# Fried is CapyMOA's stream, which has a program of its own.
LEFT_OUT = ("jmlr_fried",)
INPUTS = 5  # so many inputs, those that go most with the size of a model's errors, make fifths of rows


def ours(preset: str) -> Callable[[Rows, Column, int], np.ndarray]:
    """Return what runs a preset over a table and gives its quantiles (n, 10) of every row."""

    def run(X: Rows, y: Column, seed: int) -> np.ndarray:
        learner = StreamLearner(StreamSettings(make_spec(preset), num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
        parts = [
            np.column_stack([np.asarray(info.predictive.quantile(float(level)))[:, 0] for level in LEVELS])
            for info in learner.learn(X, y[:, None])
        ]
        return np.concatenate(parts)

    return run


class _Told:
    """A regressor that predicts what it was told of each row, in turn."""

    def __init__(self, told: Column) -> None:
        self._told, self._row = told, 0

    def predict_one(self, x: dict) -> float:
        """Return what was told of the present row."""
        return float(self._told[self._row])

    def learn_one(self, x: dict, y: float) -> None:
        """Go on to the next row."""
        self._row += 1


def river_forest(X: Rows, y: Column, seed: int) -> np.ndarray:
    """Return quantiles of river's adaptive random forest behind its scaler, with its jackknife's intervals."""
    from river import conf, forest, preprocessing

    model: Any = preprocessing.StandardScaler() | forest.ARFRegressor(seed=seed)
    mean = np.empty(len(y))
    for i, (row, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row))
        mean[i] = model.predict_one(x)
        model.learn_one(x, target)
    found = np.empty((len(y), len(LEVELS)))
    for low, level in enumerate(LEVELS[:5]):
        told: Any = _Told(mean)
        around = conf.RegressionJackknife(told, confidence_level=1.0 - 2.0 * float(level))
        for i, target in enumerate(y.tolist()):
            interval: Any = around.predict_one({}, with_interval=True)
            found[i, low], found[i, -1 - low] = interval.lower, interval.upper
            around.learn_one({}, target)
    return np.sort(found, axis=1)


def lightgbm_quantiles(X: Rows, y: Column, seed: int) -> np.ndarray:
    """Return quantiles of LightGBM, one fit for each level, refitted on all rows seen."""
    from lightgbm import LGBMRegressor

    found = np.full((len(y), len(LEVELS)), np.nan)
    for at in range(WARMUP, len(y), REFIT_EVERY):
        now = slice(at, at + REFIT_EVERY)
        for i, level in enumerate(LEVELS):
            model = LGBMRegressor(
                objective="quantile", alpha=float(level), random_state=seed, n_jobs=1, verbose=-1
            ).fit(X[:at], y[:at])
            found[now, i] = np.asarray(model.predict(X[now]))
    return np.sort(found, axis=1)


def lightgbm_conformal(X: Rows, y: Column, seed: int) -> np.ndarray:
    """Return split-conformal quantiles around LightGBM: each time it is fitted to two thirds of the rows seen.

    The absolute errors of the other third, drawn anew each time, give the half-widths (Lei et al. 2018).
    """
    from lightgbm import LGBMRegressor

    rng, found = np.random.default_rng(seed), np.full((len(y), len(LEVELS)), np.nan)
    for at in range(WARMUP, len(y), REFIT_EVERY):
        now, order = slice(at, at + REFIT_EVERY), rng.permutation(at)
        held, fitted = order[: at // 3], order[at // 3 :]
        model = LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1).fit(X[fitted], y[fitted])
        errors = np.sort(np.abs(y[held] - np.asarray(model.predict(X[held]))))
        mean = np.asarray(model.predict(X[now]))
        for low, level in enumerate(LEVELS[:5]):
            rank = int(np.ceil((1.0 - 2.0 * level) * (len(held) + 1)))
            half = errors[min(rank, len(held)) - 1]
            found[now, low], found[now, -1 - low] = mean - half, mean + half
    return found


MODELS: dict[str, Callable[[Rows, Column, int], np.ndarray]] = {
    "fast": ours("fast"),
    "default": ours("default"),
    "river forest": river_forest,
    "LightGBM quantiles": lightgbm_quantiles,
    "LightGBM split-conformal": lightgbm_conformal,
}


def score(X: Rows, y: Column, found: np.ndarray) -> dict[str, Any]:
    """Return the scores of quantiles (n, 10) of the rows after the warm-up; lengths are in the targets' sd."""
    X, y, found = X[WARMUP:], y[WARMUP:], found[WARMUP:]
    low, high, scale = found[:, 0], found[:, -1], float(y.std())
    middle = found[:, 4:6].mean(axis=1)
    held, size = (low <= y) & (y <= high), np.log(np.abs(y - middle) + 1e-4 * scale)
    linked = [abs(float(np.nan_to_num(np.corrcoef(x, size)[0, 1]))) if np.ptp(x) else 0.0 for x in X.T]
    by = {"width": high - low, "middle": middle} | {f"x{i}": X[:, i] for i in np.argsort(linked)[::-1][:INPUTS]}
    error = y[:, None] - found
    loss = np.maximum(LEVELS * error, (LEVELS - 1.0) * error)
    return {
        "coverage": float(held.mean()),
        "width": float(np.mean(high - low)) / scale,
        "interval_score": float(np.mean(interval_score(low, high, y, 0.9))) / scale,
        "crps": 2.0 * float(loss.mean()) / scale,
        "nmse_of_middle": float(np.mean(np.square(y - middle))) / scale**2,
        "coverage_by": {name: fifths(held, key) for name, key in by.items()},
    }


def table(path: Path) -> tuple[Rows, Column]:
    """Return inputs and target of a file."""
    frame = pl.read_parquet(path).with_columns(pl.col(pl.String).cast(pl.Categorical).to_physical())
    return frame.drop("y").to_numpy().astype(float), frame["y"].to_numpy().astype(float)


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    models: Annotated[str, typer.Option(help="Models, with commas.")] = ",".join(MODELS),
    seed: int = 0,
) -> None:
    """Run what is missing of the results."""
    found: dict[str, Any] = {"machine": machine(), "tables": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    paths = [path for path in sorted(data.glob("jmlr_*.parquet")) if path.stem not in LEFT_OUT]
    for model in models.split(","):
        for path in paths:
            runs = found["tables"].setdefault(path.stem.removeprefix("jmlr_"), {}).setdefault(model, {})
            if str(seed) in runs:
                continue
            X, y = table(path)
            began = time.process_time()
            quantiles = MODELS[model](X, y, seed)
            seconds = time.process_time() - began
            runs[str(seed)] = score(X, y, quantiles) | {"rows": len(y), "seconds": round(seconds, 1)}
            RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(path.stem, model, seed, runs[str(seed)], flush=True)


if __name__ == "__main__":
    typer.run(main)
