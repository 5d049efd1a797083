"""A small model of every kind, what it learns from, and what it goes on to predict."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp import (
    SplittingGPRegressor,
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPFleet,
    StreamingGPLVM,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    TimeVaryingOptimizer,
)

WARMUP, SAVED, ROWS = 40, 70, 100
SMALL: dict[str, Any] = {"warmup": WARMUP, "random_state": 0}
ESTIMATORS: dict[str, Any] = {
    "default": lambda: StreamingGPRegressor(features_per_basis=10, **SMALL),
    "lags-horizon": lambda: StreamingGPRegressor(
        bases=("linear", "fourier"), features_per_basis=10, lags=(1, 3), horizon=2, **SMALL
    ),
    "rbf-nystrom": lambda: StreamingGPRegressor(
        bases=("rbf", "nystrom", "spline"), features_per_basis=10, weights="e-doebe", **SMALL
    ),
    "two-targets": lambda: StreamingGPRegressor("linear", noise=("constant", "adaptive 0.8 ar 0.5"), **SMALL),
    "raker": lambda: StreamingGPRegressor("raker", features_per_basis=10, **SMALL),
    "sfg-mkl": lambda: StreamingGPRegressor("sfg-mkl", features_per_basis=10, **SMALL),
    "ovfe": lambda: StreamingGPRegressor("ovfe", features_per_basis=10, **SMALL),
    "splitting": lambda: SplittingGPRegressor(batch_size=20, max_models=8, **SMALL),
    "classifier": lambda: StreamingGPClassifier(features_per_basis=10, **SMALL),
    "counts": lambda: StreamingGPCountRegressor(features_per_basis=10, **SMALL),
    "ordinal": lambda: StreamingGPOrdinal(features_per_basis=10, **SMALL),
}
OPTIMISERS = ("tv-gp-ucb", "ensemble")
NAMES = (*ESTIMATORS, "latent", "fleet", *OPTIMISERS)


def stream(name: str) -> tuple[np.ndarray, Any]:
    """Rows of two inputs and a target of the right kind, with a glitch and a gap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = f + 0.2 * rng.normal(size=ROWS)
    if name == "two-targets":
        return X, np.stack([y, X[:, 0] - y], axis=1)
    if name == "classifier":
        return X, np.where(y > 0.5, "high", np.where(y > -0.7, "middle", "low"))
    if name == "counts":
        return X, rng.poisson(np.exp(0.5 * f))
    if name == "ordinal":
        return X, 1 + (y > -0.5).astype(int) + (y > 0.5)
    y[60] += 50.0
    X[65, 0] = np.nan
    return X, y


def views(rows: int) -> np.ndarray:
    """Rows of a latent model: five readings of a place on a circle."""
    rng = np.random.default_rng(1)
    angle = rng.uniform(0.0, 2.0 * np.pi, size=rows)
    seen = np.stack([np.sin(angle), np.cos(angle), np.sin(2.0 * angle), np.cos(2.0 * angle), angle / 3.0], axis=1)
    return seen + 0.05 * rng.normal(size=seen.shape)


def keyed() -> pl.DataFrame:
    """Rows of four keys, one of which comes late."""
    rng = np.random.default_rng(2)
    key = np.where(np.arange(2 * ROWS) < ROWS, rng.integers(0, 3, 2 * ROWS), rng.integers(0, 4, 2 * ROWS))
    a = rng.normal(size=2 * ROWS)
    y = 3.0 * key + np.sin(2.0 * a) + 0.2 * rng.normal(size=2 * ROWS)
    return pl.DataFrame({"unique_id": key, "ds": np.arange(2.0 * ROWS), "y": y, "a": a})


def reward(x: Any, t: int) -> float:
    """What the optimisers are told."""
    return -float((np.asarray(x)[0] - 0.5 * np.sin(0.1 * t)) ** 2)


def predictions(model: Any, X: np.ndarray) -> np.ndarray:
    """What an estimator says of rows."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return np.stack(model.predict(X, return_std=True))


def go_on(name: str, model: Any) -> np.ndarray:
    """What a model that has learnt the first `SAVED` rows goes on to say as it learns the others."""
    if name == "latent":
        X, said = views(ROWS), []
        for at in range(SAVED, ROWS, 10):
            said.append(model.transform(X[at : at + 10]))
            model.partial_fit(X[at : at + 10])
        return np.concatenate(said)
    if name == "fleet":
        said = []
        for at in range(2 * SAVED, 2 * ROWS, 10):
            rows = keyed()[at : at + 10]
            said.append(model.predict(rows).drop("unique_id", "ds").to_numpy())
            model.partial_fit(rows)
        return np.concatenate(said)
    if name in OPTIMISERS:
        asked = []
        for t in range(12, 20):
            x = model.ask()
            model.tell(x, reward(x, t))
            asked.append([*x, *np.ravel(model.predict([x]))])
        return np.asarray(asked, float)
    X, y = stream(name)
    said = []
    for at in range(SAVED, ROWS, 10):
        said.append(predictions(model, X[at : at + 10]))
        model.partial_fit(X[at : at + 10], y[at : at + 10])
    return np.stack(said)


def made(name: str) -> Any:
    """A model after its first rows."""
    if name == "latent":
        return StreamingGPLVM(warmup=WARMUP, random_state=0).partial_fit(views(ROWS)[:SAVED])
    if name == "fleet":
        return StreamingGPFleet(warmup=WARMUP, shards=2).partial_fit(keyed()[: 2 * SAVED])
    if name in OPTIMISERS:
        model = TimeVaryingOptimizer([(-1.0, 1.0)], name, random_state=0)
        for t in range(12):
            x = model.ask()
            model.tell(x, reward(x, t))
        return model
    X, y = stream(name)
    return ESTIMATORS[name]().partial_fit(X[:SAVED], y[:SAVED])


def save(name: str, directory: Path) -> Path:
    """Save a model after its first rows in a directory of its name, if it is not there yet; return where."""
    path = directory / name
    if not path.exists():
        made(name).save(path)
    return path
