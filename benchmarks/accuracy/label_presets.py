"""The models `default`, `fast` and `linear` for classes, counts and grades: how good, and how many seconds.

``python -m benchmarks.accuracy.label_presets --data DIR`` writes ``results/label_presets.json``, run by run;
``python -m benchmarks.pages.labels`` renders the table of docs/research/labels.md. `fast` was chosen on the sets of
`CHOOSING` alone; the others were first run when that was done.
"""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPClassifier, StreamingGPCountRegressor, StreamingGPOrdinal, evaluate

RESULTS = RESULTS_DIR / "label_presets.json"
MODELS = ("default", "fast", "linear")
ROWS, WARMUP = 6_000, 1_000


class Stream(NamedTuple):
    """Rows, and the estimator of their kind of target."""

    kind: type
    X: np.ndarray
    y: np.ndarray


def _shuffled(name: str, data: Path, seed: int) -> Stream:
    table = pl.read_parquet(data / f"{name}.parquet")
    order = np.random.default_rng(seed).permutation(len(table))
    X, y = table.drop("label").to_numpy().astype(float), table["label"].to_numpy()
    return Stream(StreamingGPClassifier, X[order], y[order])


def _table(name: str, kind: type) -> Callable[[Path, int], Stream]:
    def of(data: Path, seed: int) -> Stream:
        table = pl.read_parquet(data / f"{name}.parquet")
        return Stream(kind, table.drop("y").to_numpy().astype(float), table["y"].to_numpy().astype(int))

    return of


def _turning_classes(data: Path, seed: int) -> Stream:
    rng, angle = np.random.default_rng(seed), np.pi * np.arange(ROWS) / ROWS
    X = rng.normal(size=(ROWS, 5))
    turning = 2.0 * (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1])
    f = np.column_stack([np.zeros(ROWS), turning, 1.5 * np.sin(2.0 * X[:, 2]) + X[:, 3] * X[:, 0]])
    return Stream(StreamingGPClassifier, X, (f + rng.gumbel(size=f.shape)).argmax(axis=1))


def _ring(data: Path, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    X, then = rng.normal(size=(ROWS, 3)), np.sin(np.pi * np.arange(ROWS) / ROWS)
    f = 3.0 * (np.hypot(X[:, 0], X[:, 1]) - 1.2) + 4.0 * then * X[:, 2] * X[:, 0]
    return Stream(StreamingGPClassifier, X, (f + rng.logistic(size=ROWS) > 0.0).astype(int))


def _growing_counts(data: Path, seed: int) -> Stream:
    rng, t = np.random.default_rng(seed), np.arange(ROWS)
    X = np.column_stack([rng.normal(size=ROWS), np.sin(t / 24), np.cos(t / 24)])
    rate = np.exp(1.0 + np.log(10.0) * t / ROWS + 0.4 * X[:, 0] + 0.3 * X[:, 1])
    return Stream(StreamingGPCountRegressor, X, rng.poisson(rate))


def _curved_counts(data: Path, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(ROWS, 4))
    rate = np.exp(1.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] - 0.3 * X[:, 3] ** 2)
    return Stream(StreamingGPCountRegressor, X, rng.poisson(rate * rng.gamma(3.0, 1.0 / 3.0, size=ROWS)))


STREAMS: dict[str, Callable[[Path, int], Stream]] = {
    "banana": lambda data, seed: _shuffled("banana", data, seed),
    "musk": lambda data, seed: _shuffled("musk2", data, seed),
    "grades of white wine": _table("wine_white", StreamingGPOrdinal),
    "three classes that turn (made)": _turning_classes,
    "counts that grow tenfold (made)": _growing_counts,
    "ionosphere": lambda data, seed: _shuffled("ionosphere", data, seed),
    "a ring that tilts (made)": _ring,
    "curved counts (made)": _curved_counts,
    "rings of abalones": _table("abalone", StreamingGPCountRegressor),
}
CHOOSING = tuple(STREAMS)[:5]


def run(stream: Stream, model: str, seed: int) -> dict[str, float]:
    """Return the log loss of one model, and the processor's seconds for predicting, learning and scoring."""
    estimator = stream.kind(model, warmup=min(WARMUP, len(stream.y) // 5), random_state=seed)
    X, y, begin = stream.X, stream.y, time.process_time()
    if stream.kind is StreamingGPOrdinal:
        estimator.partial_fit(X[:1], y[:1], grades=np.unique(y))
        X, y = X[1:], y[1:]
    metrics = evaluate(estimator, X, y, progress=False).metrics
    loss = -metrics["pll"] if "pll" in metrics else metrics["log_loss"]
    return {"log_loss": loss, "seconds": time.process_time() - begin}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="Streams to run; all by default.")] = None,
) -> None:
    """Run what has not been run yet, and keep it."""
    warnings.simplefilter("ignore")
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in only or STREAMS:
        for seed in range(seeds):
            for model in MODELS:
                of = found.setdefault(name, {}).setdefault(model, {})
                if str(seed) not in of:
                    of[str(seed)] = run(STREAMS[name](data, seed), model, seed)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
                    print(name, model, seed, of[str(seed)], flush=True)


if __name__ == "__main__":
    typer.run(main)
