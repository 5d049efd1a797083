"""Rare classes: how well probabilities rank rows, beside LightGBM that is fitted anew along the stream.

``python -m benchmarks.accuracy.rare_classes --data DIR`` writes ``results/rare_classes.json``;
``python -m benchmarks.pages.labels`` renders the table of docs/research/labels.md. LightGBM is fitted anew every 500
rows, to the last 10,000 at most, and predicts the 500 rows after; the same rows are scored of all.
"""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import lightgbm
import numpy as np
import polars as pl
import typer
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, evaluate
from streamgp.evaluation.metrics import decisions

RESULTS = RESULTS_DIR / "rare_classes.json"
WARMUP, EVERY, KEPT = 1_000, 500, 10_000
MISSED, FALSE_ALARM = 100.0, 4.0

Rows = tuple[np.ndarray, np.ndarray]


def one_in_200(data: Path, seed: int) -> Rows:
    """Events, one row in 200, whose causes turn half a circle along the stream."""
    rng, n = np.random.default_rng(seed), 20_000
    X, angle = rng.normal(size=(n, 6)), np.pi * np.arange(n) / n
    f = 2.0 * (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]) + 1.5 * np.sin(1.5 * X[:, 2]) + X[:, 3] * X[:, 4]
    level = brentq(lambda c: expit(f + c).mean() - 1.0 / 200.0, -30.0, 0.0)
    return X, (rng.random(n) < expit(f + level)).astype(int)


def good_wines(data: Path, seed: int) -> Rows:
    """White wines of grade 8 or 9, one in 29, each once, in an order of chance.

    The file has one in five twice, whose grade trees remember.
    """
    table = pl.read_parquet(data / "wine_white.parquet").unique(maintain_order=True)
    order = np.random.default_rng(seed).permutation(len(table))
    return table.drop("y").to_numpy().astype(float)[order], (table["y"].to_numpy() >= 8).astype(int)[order]


STREAMS: dict[str, Callable[[Path, int], Rows]] = {
    "one in 200, causes that turn (made)": one_in_200,
    "white wines of grade 8 or 9": good_wines,
}


def of_streamgp(model: str) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """Return what predicts the probability of class 1 of each row before its label is seen."""

    def predict(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        estimator = StreamingGPClassifier(model, warmup=WARMUP, random_state=seed).partial_fit(X[:1], y[:1], [0, 1])
        found = evaluate(estimator, X[1:], y[1:], progress=False).probabilities[:, 1]
        return np.r_[0.5, found]

    return predict


def of_lightgbm(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Predict by trees that are fitted anew."""
    found = np.full(len(y), np.nan)
    for at in range(WARMUP, len(y), EVERY):
        known = slice(max(at - KEPT, 0), at)
        trees = lightgbm.LGBMClassifier(n_jobs=1, random_state=seed, verbosity=-1).fit(X[known], y[known])
        found[at : at + EVERY] = trees.predict_proba(X[at : at + EVERY])[:, 1]
    return found


MODELS = {"default": of_streamgp("default"), "fast": of_streamgp("fast"), "LightGBM every 500 rows": of_lightgbm}


def scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the scores of the rows after the warm-up."""
    p, y = p[WARMUP:], y[WARMUP:]
    by_cost = decisions(p, y == 1, MISSED, FALSE_ALARM)
    return {
        "average_precision": float(average_precision_score(y, p)),
        "roc_auc": float(roc_auc_score(y, p)),
        "log_loss": float(log_loss(y, p)),
        "share": float(y.mean()),
        "cost": by_cost.cost / min(by_cost.never, by_cost.always),
    }


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 5,
) -> None:
    """Run what has not been run yet, and keep it."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, stream in STREAMS.items():
        for model, predict in MODELS.items():
            runs = found.setdefault(name, {}).setdefault(model, [])
            for seed in range(len(runs), seeds):
                X, y = stream(data, seed)
                begin = time.process_time()
                p = predict(X, y, seed)
                runs.append({"seconds": time.process_time() - begin} | scores(p, y))
                print(name, model, seed, runs[-1], flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
