"""What it is worth to fit experts anew as the stream goes on, on tables in random order and on streams.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.renewal --data DIR`` writes ``results/renewal.json`` after every run
(started again, it goes on where it stopped), of which `benchmarks.pages.renewal` makes the table of
``docs/renewal.md``. It needs `river` and `lightgbm` besides what streamgp itself needs.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "renewal.json"
TABLES = (
    *("kin40k", "elevators_ucids", "cpusmall", "cadata"),
    *("kin8nm", "pumadyn8nm", "abalone", "wine_white"),
)
STREAMS = ("beijing_pm25", "schunk_arm", "appliances_energy")  # with lag 1
MODELS: dict[str, dict[str, Any]] = {
    "default": {"model": "default"},
    "best": {"model": "best"},
    "best, never renewed": {"model": "best", "renew": False},
}
# Names in `benchmarks.common.baselines`, which is imported where it is needed: it needs `river`.
BASELINES = {"HistGradientBoosting, refitted": "boosting_refitted", "LightGBM, refitted": "lightgbm_refitted"}
WARMUP = 1_000


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*TABLES, *STREAMS)),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
    results: Annotated[Path, typer.Option(help="Where scores are kept.")] = RESULTS,
) -> None:
    """Run what is missing."""
    runs: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    for seed in range(seeds):
        for name in names.split(","):
            X, y = _rows(name, data, seed)
            for label in (*MODELS, *BASELINES):
                of = runs.setdefault(name, {}).setdefault(label, {})
                if str(seed) not in of:
                    of[str(seed)] = _score(label, name, X, y, seed)
                    results.write_text(json.dumps(runs, indent=1) + "\n")
                    print(name, label, of[str(seed)], flush=True)


def _rows(name: str, data: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a stream in its order, or a table in random order."""
    X, y = load(name, data)
    if name in STREAMS:
        return X, y
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


def _score(label: str, name: str, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """Score the rows after the warm-up."""
    if label in BASELINES:
        from benchmarks.common import baselines

        # Trees get the last target as an input too, where our models do.
        wide = np.column_stack([X, np.r_[y[0], y[:-1]]]) if name in STREAMS else X
        ys = baselines.standardise(y)[0]
        mean, _ = getattr(baselines, BASELINES[label])(baselines.standardise(wide)[0], ys, seed)
        error = (ys - mean)[WARMUP:]
        return {"nmse": float(np.mean(error**2) / np.var(ys[WARMUP:]))}
    lags = {"lags": 1} if name in STREAMS else {}
    model = StreamingGPRegressor(**MODELS[label], **lags, warmup=WARMUP, random_state=seed)
    scores = evaluate(model, X, y, progress=False).metrics
    return {"nmse": scores["nmse"], "pll": scores["pll_standardised"], "coverage": scores["coverage"]["95"]}


if __name__ == "__main__":
    typer.run(main)
