"""Simulated runs over labels, grades and counts, scored and written by the code that serves a real run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from streamgp.app.outputs import RunDirectory
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.session import new_metrics
from streamgp.table.labels import ClassNames

EXPERTS = ("linear x1, static", "fourier x1, walk 0.001")


class Told:
    """Predictions from probabilities."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self.p = probabilities

    def probabilities(self) -> np.ndarray:
        return self.p

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.take_along_axis(self.p, y.astype(int), axis=1)[:, 0])


class ToldCounts:
    """Poisson predictions from rates."""

    def __init__(self, rate: np.ndarray) -> None:
        self.law: Any = stats.poisson(rate)
        self.mean, self.std = rate, np.sqrt(rate)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return self.law.cdf(y)

    def quantile(self, probability: float) -> np.ndarray:
        return self.law.ppf(probability)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return self.law.logpmf(y)[:, 0]


def told_labels(rows: int, classes: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Drifting probabilities, and labels drawn from them; `sharpness` above one makes the told ones too sure."""
    rng = np.random.default_rng(seed)
    drift = 1.5 * np.sin(np.arange(rows)[:, None] / 700 + 2.0 * np.arange(classes))
    logits = drift + 1.3 * rng.normal(size=(rows, classes))
    p, told = np.exp(logits), np.exp(sharpness * logits)
    p, told = p / p.sum(1, keepdims=True), told / told.sum(1, keepdims=True)
    return told, (rng.random((rows, 1)) > p.cumsum(1)).sum(1)


def fake_labels(
    out: Path,
    task: str,
    names: list[str],
    *,
    rows: int = 4000,
    warmup: int = 500,
    sharpness: float = 1.0,
) -> dict[str, Any]:
    """A run of `task` over the named classes or grades."""
    told, y = told_labels(rows, len(names), sharpness)
    kind = "numeric" if names[0].isdigit() else "text"
    labels = ClassNames.from_first_rows(names, kind, ordered=task == "ordinal")
    parts = [(Told(told[i : i + 500]), y[i : i + 500]) for i in range(0, rows, 500)]
    return fake(out, task, labels, parts, warmup)


def fake_counts(out: Path, *, rows: int = 4000, warmup: int = 500) -> dict[str, Any]:
    """A run over counts whose rate drifts by a factor of ten."""
    rng = np.random.default_rng(3)
    rate = np.exp(1.15 * np.sin(np.arange(rows) / 600))[:, None] * 2.0
    y = rng.poisson(rate)[:, 0]
    parts = [(ToldCounts(rate[i : i + 500]), y[i : i + 500]) for i in range(0, rows, 500)]
    return fake(out, "count", None, parts, warmup)


def fake(
    out: Path, task: str, labels: ClassNames | None, parts: list[tuple[Any, np.ndarray]], warmup: int
) -> dict[str, Any]:
    """Score the parts of a stream and write what a run does."""
    metrics: Any = new_metrics(task, ["kind"] if labels is None else labels.names, warmup, 0)
    directory = RunDirectory(out, ["kind"])
    directory.start()
    for predictive, y in parts:
        at, scored = metrics.rows, metrics.scored_rows
        scores = metrics.score(predictive, y[:, None].astype(float))
        persistence, running = metrics.add(scores)
        weights = None if at < warmup else np.tile([0.25, 0.75], (len(y), 1))
        part = ScoredRows(0, scores, weights, None, persistence, running)
        rows = np.arange(at, at + len(y))
        directory.add(rows, 1.7e9 + 600.0 * rows, part, scored, EXPERTS, labels=labels)
    found = metrics.result() | {
        "judgement": metrics.judgements()[0].to_json(),
        "task": task,
        "model": "default",
        "data": "kinds.csv",
        "targets": ["kind"],
        "target": "kind",
        "seconds": {"read": 0.02, "warmup": 6.5, "stream": 4.8, "total": 11.4},
        "rows_per_second": 830.0,
        "experts": [
            dict(zip(("basis", "dynamics"), name.split(", "), strict=True)) | {"name": name, "weight": weight}
            for name, weight in zip(EXPERTS, (0.25, 0.75), strict=True)
        ],
        "warnings": [],
        "command": "streamgp run kinds.csv --target kind",
    }
    directory.flush()
    directory.finish(found)
    return json.loads((out / "metrics.json").read_text())


def predictions(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "predictions.parquet")
