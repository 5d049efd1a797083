"""The presets for numbers beside other libraries' models on the same rows: accuracy against time.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.presets --data DIR`` writes ``results/presets.json`` after every run
(started again, it goes on where it stopped), of which `benchmarks.pages.presets` makes the tables and the picture of
``docs/research/presets.md``. It needs `river` and `lightgbm` besides what streamgp itself needs.

Tables are in random order, streams in their own, with ``lags="auto"``; others get the same lags as inputs. Warm-up
1,000 rows, scored on those after it. Seconds are of CPU: of the rows after the warm-up, with everything compiled.
"""

import json
import time
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "presets.json"
# The presets were chosen on the first half; the other half was run when that was done.
CHOOSING = {
    "tables": ("kin40k", "elevators_ucids", "cpusmall", "cadata"),
    "streams": ("beijing_pm25", "schunk_arm", "appliances_energy"),
}
APART = {
    "tables": ("kin8nm", "pumadyn8nm", "wine_white", "abalone"),
    "streams": ("sml2010_stream", "air_quality", "household_power_hourly"),
}
TABLES = (*CHOOSING["tables"], *APART["tables"])
NAMES = (*CHOOSING["tables"], *CHOOSING["streams"], *APART["tables"], *APART["streams"])
PLAIN = ("linear", "hilbert", "fourier", "trees", "concatenation")
MODELS: dict[str, dict[str, Any]] = {
    "fast": {"model": "fast"},
    "default": {"model": "default"},
    "best": {"model": "best"},
    "neither trained nor boosted": {"model": "default", "bases": PLAIN},
}
INSIDE = "LightGBM inside the default"  # it runs where it is named
# Names in `benchmarks.common.baselines`, which is imported where it is needed: it needs `river`.
BASELINES = {
    "LightGBM, refitted": "lightgbm_refitted",
    "HistGradientBoosting, refitted": "boosting_refitted",
    "Bayesian linear regression": "river_bayesian_linear",
    "the last target": "persistence",
}
WARMUP = 1_000
# A copy learns so many rows first, so that nothing is left to compile.
COMPILED_ROWS = 2_048


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(NAMES),
    models: Annotated[str | None, typer.Option(help="Models, with semicolons.")] = None,
    rows: Annotated[int, typer.Option(help="Rows of each at most.")] = 5_000,
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
    results: Annotated[Path, typer.Option(help="Where scores are kept.")] = RESULTS,
) -> None:
    """Run what is missing."""
    runs: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    for seed in range(seeds):
        for name in names.split(","):
            X, y = _rows(name, data, rows, seed)
            for label in models.split(";") if models else (*MODELS, *BASELINES):
                of = runs.setdefault(name, {}).setdefault(label, {})
                if str(seed) not in of:
                    of[str(seed)] = _score(label, name, X, y, seed)
                    results.write_text(json.dumps(runs, indent=1) + "\n")
                    print(name, label, of[str(seed)], flush=True)


def _rows(name: str, data: Path | None, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a stream in its order, or a table in random order."""
    X, y = load(name, data)
    order = np.random.default_rng(seed).permutation(len(y)) if name in TABLES else np.arange(len(y))
    return X[order[:rows]], y[order[:rows]]


def _score(label: str, name: str, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Score the rows after the warm-up."""
    if label in BASELINES:
        return _baseline(label, name, X, y, seed)
    options = {"learners": _learners(seed)} if label == INSIDE else dict(MODELS[label])
    if name not in TABLES:
        options["lags"] = "auto"
    model = StreamingGPRegressor(**options, warmup=WARMUP, random_state=seed)
    model.partial_fit(X[:WARMUP], y[:WARMUP])
    later = slice(WARMUP, None)
    evaluate(deepcopy(model), X[later][:COMPILED_ROWS], y[later][:COMPILED_ROWS], progress=False)
    begin = time.process_time()
    scores = evaluate(model, X[later], y[later], progress=False).metrics
    return {
        "nmse": scores["nmse"],
        "pll": scores["pll_standardised"],
        "coverage": scores["coverage"],
        "seconds": time.process_time() - begin,
        "rows": len(y) - WARMUP,
    }


def _learners(seed: int) -> list[Any]:
    import lightgbm

    return [lightgbm.LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)]


def _baseline(label: str, name: str, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    from benchmarks.common import baselines

    if name not in TABLES:
        X, _ = baselines.with_chosen_lags(X, y)
    Xs, ys = baselines.standardise(X)[0], baselines.standardise(y)[0]
    begin = time.process_time()
    mean, var = getattr(baselines, BASELINES[label])(Xs, ys, seed)
    seconds = time.process_time() - begin
    error = (ys - mean)[WARMUP:]
    scores = {"nmse": float(np.mean(error**2) / np.var(ys[WARMUP:])), "seconds": seconds, "rows": len(y) - WARMUP}
    if var is None:
        return scores
    return scores | {"pll": float(-0.5 * np.mean(np.log(2 * np.pi * var[WARMUP:]) + error**2 / var[WARMUP:]))}


if __name__ == "__main__":
    typer.run(main)
