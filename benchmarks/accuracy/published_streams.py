"""Streams whose scores other libraries print: CapyMOA's Fried, and river's ChickWeights and TrumpApproval.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.published_streams --data DIR`` writes
``results/published_streams.json`` after every run and goes on where it stopped. The directory holds
``capymoa_fried.parquet``; river's two come with river. Every row counts, from the first on: each is predicted, then
learnt. On Fried there are 95% bands, whose width is CapyMOA's NMPIW: the mean width over the range of the targets, in
percent. On river's, MAE, RMSE and R2 are those of river's own metrics.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS = RESULTS_DIR / "published_streams.json"
PRESETS = ("linear", "fast", "default")
RIVER_STREAMS = ("ChickWeights", "TrumpApproval")
# Warm-ups: the usual one on Fried; river's streams have 578 and 1,001 rows.
FRIED_WARMUP, RIVER_WARMUP = 1_000, 100


def fried(data: Path, preset: str, seed: int) -> dict[str, float]:
    """Return the scores of a preset on Fried, by CapyMOA's definitions."""
    frame = pl.read_parquet(data / "capymoa_fried.parquet")
    X, y = frame.drop("y").to_numpy(), frame["y"].to_numpy()
    learner = StreamLearner(StreamSettings(make_spec(preset), num_inputs=X.shape[1], warmup=FRIED_WARMUP, seed=seed))
    parts = [
        np.column_stack([info.predictive.mean, info.predictive.quantile(0.025), info.predictive.quantile(0.975)])
        for info in learner.learn(X, y[:, None])
    ]
    mean, low, high = np.concatenate(parts).T
    return {
        "rmse": float(np.sqrt(np.mean(np.square(y - mean)))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "nmpiw": 100.0 * float(np.mean(high - low) / np.ptp(y)),
        "nmpiw_of_the_noise": 100.0 * float(2.0 * 1.959964 / np.ptp(y)),
    }


def river_models(seed: int) -> dict[str, Any]:
    """Return what is run on river's streams: presets, and models of river with the target scaled."""
    from river import dummy, ensemble, forest, linear_model, preprocessing, stats

    from streamgp.adapters.river import RiverRegressor

    def scaled(regressor: Any) -> Any:
        return preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(regressor)

    found: dict[str, Any] = {
        f"streamgp {preset}": RiverRegressor(preset, warmup=RIVER_WARMUP, seed=seed) for preset in PRESETS
    }
    return found | {
        "river Bayesian linear, target scaled": scaled(linear_model.BayesianLinearRegression()),
        "river Linear Regression, target scaled": scaled(linear_model.LinearRegression()),
        "river Adaptive Random Forest": preprocessing.StandardScaler() | forest.ARFRegressor(seed=42),
        "river Aggregated Mondrian Forest": preprocessing.StandardScaler() | forest.AMFRegressor(seed=42),
        "river Bagging": preprocessing.StandardScaler() | ensemble.BaggingRegressor(model=_tree(), seed=42),
        "river mean": dummy.StatisticRegressor(stats.Mean()),
    }


def _tree() -> Any:
    from river import tree

    return tree.HoeffdingAdaptiveTreeRegressor(bootstrap_sampling=False)


def river_stream(name: str, model: Any) -> dict[str, float]:
    """Return the scores of a model on a stream of river: of all rows that it predicts, and of all but the first."""
    from river import datasets, metrics

    every, later = ({"mae": metrics.MAE(), "rmse": metrics.RMSE(), "r2": metrics.R2()} for _ in range(2))
    unpredicted = 0
    for row, (x, y) in enumerate(getattr(datasets, name)()):
        predicted = model.predict_one(x)
        unpredicted += predicted is None
        if predicted is not None:
            for scores in (every,) if row == 0 else (every, later):
                for metric in scores.values():
                    metric.update(y, predicted)
        model.learn_one(x, y)
    found = {score: float(metric.get()) for score, metric in every.items()}
    found |= {f"{score}_from_row_two": float(metric.get()) for score, metric in later.items()}
    return found | {"unpredicted": unpredicted}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    seeds: Annotated[int, typer.Option(help="Seeds of ours, from 0.")] = 3,
) -> None:
    """Run what is missing of the results."""
    kept: dict[str, Any] = {"machine": machine(), "streams": {}}
    if RESULTS.exists():
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    for seed in range(seeds):
        for stream in (*RIVER_STREAMS, "Fried"):
            models = {f"streamgp {preset}": preset for preset in PRESETS} if stream == "Fried" else river_models(seed)
            for name, model in models.items():
                runs = kept["streams"].setdefault(stream, {}).setdefault(name, {})
                if str(seed) in runs or (seed and not name.startswith("streamgp")):
                    continue
                began = time.process_time()
                scores = fried(data, model, seed) if stream == "Fried" else river_stream(stream, model)
                runs[str(seed)] = scores | {"seconds": round(time.process_time() - began, 1)}
                RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
                print(stream, name, seed, runs[str(seed)], flush=True)


if __name__ == "__main__":
    typer.run(main)
