"""Counts with past counts as inputs, beside the last count and the same model without lags.

``python -m benchmarks.accuracy.lagged_counts --data DIR`` writes ``results/lagged_counts.json``;
``python -m benchmarks.pages.labels`` renders the table of docs/research/labels.md.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPCountRegressor, evaluate
from streamgp.evaluation.metrics import paired_interval

RESULTS = RESULTS_DIR / "lagged_counts.json"
WARMUP = 1_000


class Counts(NamedTuple):
    """Counts, what is known of the clock as inputs, and what the counts grow with."""

    X: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | None = None


def _cycle(phase: np.ndarray) -> np.ndarray:
    return np.column_stack([np.sin(2.0 * np.pi * phase), np.cos(2.0 * np.pi * phase)])


def made(data: Path, seed: int) -> Counts:
    """Poisson counts: a daily cycle, and a log rate that goes on from row to row."""
    rng, n = np.random.default_rng(seed), 6_000
    level, day = np.zeros(n), np.arange(n) / 24.0
    for i in range(1, n):
        level[i] = 0.9 * level[i - 1] + 0.25 * rng.normal()
    return Counts(_cycle(day), rng.poisson(np.exp(1.2 + 0.8 * np.sin(2.0 * np.pi * day) + level)))


def commits(data: Path, seed: int) -> Counts:
    """Commits to a repository in each quarter of a day, 2013 to 2017, of the package bokeh_sampledata."""
    from bokeh_sampledata.commits import data as times

    each = pd.Series(1, index=pd.to_datetime(times.index, utc=True)).sort_index().resample("6h").sum()
    clock = pd.DatetimeIndex(each.index)
    weekend = (clock.dayofweek >= 5).astype(float)
    return Counts(np.column_stack([_cycle(clock.hour.to_numpy() / 24.0), weekend]), each.to_numpy())


def rain(data: Path, seed: int) -> Counts:
    """Australian weather stations with rain on a day, of those that reported: 2011 to 2017."""
    table = (
        pl.read_parquet(data / "aus_weather.parquet")
        .group_by("time")
        .agg(wet=(pl.col("x1") > 1.0).sum(), stations=pl.len())
    )
    day, wet, stations = table.sort("time").to_numpy().T
    return Counts(_cycle(day / 365.25), wet, stations)


Lags = str | list[int]
STREAMS: dict[str, tuple[Callable[[Path, int], Counts], Lags]] = {
    "a daily cycle and a level that lasts (made)": (made, "auto"),
    "commits in a quarter of a day": (commits, "auto"),
    "the same, lags given": (commits, [1, 2, 3, 4]),
    "stations with rain on a day": (rain, "auto"),
}


def run(stream: Counts, lags: Lags, model: str, seed: int) -> dict[str, Any]:
    """Score one model with lags, beside the last count and itself without them."""
    found, chosen = [], ()
    for each in ("none", lags):
        estimator = StreamingGPCountRegressor(model, lags=each, warmup=WARMUP, random_state=seed)
        found.append(evaluate(estimator, stream.X, stream.y, exposure=stream.exposure, progress=False))
        chosen = estimator._learner.spec.lags
    scored = slice(WARMUP, None)
    exposure = np.ones(len(stream.y)) if stream.exposure is None else stream.exposure
    last = np.roll(stream.y / exposure, 1) * exposure
    without, ours = found
    beside_last = paired_interval(ours.crps[scored], np.abs(last - stream.y)[scored])
    beside_none = paired_interval(-ours.log_density[scored], -without.log_density[scored])
    kept = ("pll", "crps", "deviance")
    return {
        "lags": list(chosen),
        "rows": len(stream.y),
        "with lags": {name: ours.metrics[name] for name in kept} | {"coverage": ours.metrics["coverage"]["90"]},
        "without": {name: without.metrics[name] for name in kept},
        "last": float(np.abs(last - stream.y)[scored].mean()),
        "crps beside the last count": list(beside_last),
        "log loss beside no lags": list(beside_none),
    }


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 3,
) -> None:
    """Run the streams that have not been run yet, and keep what was found."""
    warnings.simplefilter("ignore")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found: dict[str, Any] = {}
    for name, (stream, lags) in STREAMS.items():
        found[name] = known.get(name, {})
        for model in ("default", "fast"):
            if model not in found[name]:
                found[name][model] = [run(stream(data, seed), lags, model, seed) for seed in range(seeds)]
                print(name, model, found[name][model], flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
