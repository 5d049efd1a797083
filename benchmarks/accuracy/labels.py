"""Counts and grades: a rate that drifts, and grades beside their numbers.

``python -m benchmarks.accuracy.labels --data DIR`` writes both parts of ``results/labels.json``, or the one that
``--part`` names; ``python -m benchmarks.pages.labels`` renders the tables of docs/research/labels.md. Classes on real
data are in `streamgp reproduce ie-gp-classification`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import polars as pl
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp import (
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)
from streamgp.evaluation.ordinal import score_ordinal

RESULTS = RESULTS_DIR / "labels.json"


def run_counts(data: Path, seeds: int) -> dict[str, Any]:
    """Score counts whose Poisson rate grows tenfold along the stream, with a seasonal part."""
    found: dict[str, Any] = {}
    for label, model, dynamics in (
        ("the default", "default", None),
        ("static", "linear", "static"),
        ("forgetting", "linear", "walk 0.001"),
    ):
        runs = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            n = 6_000
            t = np.arange(n)
            X = np.column_stack([rng.normal(size=n), np.sin(t / 24), np.cos(t / 24)])
            rate = np.exp(1.0 + np.log(10.0) * t / n + 0.4 * X[:, 0] + 0.3 * X[:, 1])
            y = rng.poisson(rate)
            estimator = StreamingGPCountRegressor(model, dynamics=dynamics, random_state=seed)
            result = evaluate(estimator, X, y.astype(float), progress=False)
            off = float(np.median(np.abs(np.log(result.mean[n // 2 :] / rate[n // 2 :]))))
            truth = float(np.mean(y[1000:] * np.log(rate[1000:]) - rate[1000:] - _log_factorial(y[1000:])))
            keys = ("deviance", "pll", "coverage", "naive")
            runs.append({key: result.metrics[key] for key in keys} | {"off": off, "truth": truth})
        found[label] = runs
    return found


def _log_factorial(y: np.ndarray) -> np.ndarray:
    return np.asarray(jax.scipy.special.gammaln(y + 1.0))


def run_wine(data: Path, seeds: int) -> dict[str, Any]:
    """Score grades of white wine by the ordinal model, and by regression on their numbers as probabilities."""
    table = pl.read_parquet(data / "wine_white.parquet")
    X, y = table.drop("y").to_numpy().astype(float), table["y"].to_numpy().astype(int)
    grades = np.arange(y.min(), y.max() + 1)
    found: dict[str, Any] = {}
    settings = {"bases": ["linear", "fourier", "rbf"], "features_per_basis": 100, "weights": "auto"}
    settings["dynamics"] = ["static", "walk 0.001", "walk 0.1"]
    for label, make in (
        ("ordinal, the default", lambda seed: StreamingGPOrdinal(random_state=seed)),
        ("regression, the same experts, constant noise", lambda seed: _regressor(seed, settings, "constant")),
        ("regression, the default", lambda seed: StreamingGPRegressor(random_state=seed)),
    ):
        found[label] = [_grade(make, seed, X, y, grades) for seed in range(seeds)]
    return found


def _regressor(seed: int, settings: dict[str, Any], noise: str) -> StreamingGPRegressor:
    return StreamingGPRegressor("oebe", noise=noise, random_state=seed, **settings)


def _grade(make: Callable[[int], Any], seed: int, X: np.ndarray, y: np.ndarray, grades: np.ndarray) -> dict[str, Any]:
    model, scored = make(seed), slice(979, None)  # the warm-up: a fifth of the rows
    if isinstance(model, StreamingGPOrdinal):
        model.partial_fit(X[:1], y[:1], grades=grades)
        result = evaluate(model, X[1:], y[1:], progress=False)
        probabilities = np.concatenate([np.full((1, len(grades)), 1.0 / len(grades)), result.probabilities])
    else:
        probabilities = np.concatenate(list(_rounded(model, X, y.astype(float), grades)))
    scores = score_ordinal(_Listed(probabilities), (y - grades[0]).astype(float)[:, None])
    return {
        "rps": float(scores.rps[scored].mean()),
        "log_loss": float(-scores.log_density[scored].mean()),
        "error_rate": float(np.mean(scores.predicted[scored] != y[scored] - grades[0])),
    }


def _rounded(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, grades: np.ndarray) -> Any:
    """Yield the probability that a regression's number rounds to each grade, the lowest and the highest open."""
    model.partial_fit(X[:1], y[:1])
    yield np.full((1, len(grades)), 1.0 / len(grades))
    edges = grades[:-1] + 0.5
    learner = model._learner
    at = 1
    while at < len(X):
        info = next(learner.learn(X[at : at + 256], y[at : at + 256, None]))
        p = info.predictive
        below = np.column_stack([p.cdf(np.full((len(p.loc), 1), edge))[:, 0] for edge in edges])
        yield np.diff(np.column_stack([np.zeros(len(below)), below, np.ones(len(below))]), axis=1)
        at += len(p.loc)


class _Listed:
    """Probabilities, as the scores want them."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self._probabilities = np.maximum(probabilities, 1e-12)

    def probabilities(self) -> np.ndarray:
        return self._probabilities

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.log(self._probabilities[np.arange(len(y)), y[:, 0].astype(int)])


PARTS = {"counts": run_counts, "wine": run_wine}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    part: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; all by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 3,
) -> None:
    """Run the parts and keep what they found."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in part or PARTS:
        stored[name] = PARTS[name](data, seeds)
        RESULTS.write_text(json.dumps(stored) + "\n")
        print(name, stored[name], flush=True)


if __name__ == "__main__":
    typer.run(main)
