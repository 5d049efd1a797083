"""A check that a change of the code leaves every number as it was: write before it, compare after it.

    python -m benchmarks.robustness.unchanged write before.npz
    python -m benchmarks.robustness.unchanged against before.npz

Cases: presets and a model of each family on three streams; classes, ordered classes and counts; labels that come
late, horizons, lags, missing cells, bounds and a transform, several targets; rows one at a time; a fleet. All that
they predict is compared, relative to the largest number of its kind.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import typer

from streamgp import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPFleet,
    StreamingGPOrdinal,
    StreamingGPRegressor,
    evaluate,
)

ROWS, WARMUP = 700, 250
LEVELS = [0.05, 0.5, 0.95]
TOLERANCE = 1e-9
app = typer.Typer(help=__doc__, add_completion=False)


def jumping() -> tuple[np.ndarray, np.ndarray]:
    """Return a curve of three inputs that changes once, two thirds in."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=ROWS)
    y[2 * ROWS // 3 :] += 2.0 - 2.0 * X[2 * ROWS // 3 :, 1]
    return X, y


def drifting() -> tuple[np.ndarray, np.ndarray]:
    """Return a plane whose coefficients walk, with heavy tails and some absurd targets."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2.0, 2.0, size=(ROWS, 5))
    w = np.cumsum(0.05 * rng.normal(size=(ROWS, 5)), axis=0) + rng.normal(size=5)
    y = 10.0 + (X * w).sum(axis=1) + 0.5 * rng.standard_t(4.0, size=ROWS)
    y[[300, 450, 451]] = 1e4
    return X, y


def hourly() -> tuple[np.ndarray, np.ndarray]:
    """Return positive values with a daily cycle and autoregressive noise."""
    rng = np.random.default_rng(3)
    X, noise = rng.normal(size=(ROWS, 2)), rng.normal(size=ROWS)
    for i in range(1, ROWS):
        noise[i] += 0.8 * noise[i - 1]
    return X, np.exp(2.0 + 0.5 * np.sin(2.0 * np.pi * np.arange(ROWS) / 24.0) + 0.1 * X[:, 0] + 0.1 * noise)


STREAMS = {"jumping": jumping, "drifting": drifting, "hourly": hourly}


def evaluated(learner: Any, X: Any, y: Any, **options: Any) -> dict[str, np.ndarray]:
    """Return all that is predicted of a stream, row after row, and the weights at its end."""
    found = evaluate(learner, X, y, progress=False, **options)
    arrays = {"mean": found.mean, "std": found.std, "log_density": found.log_density}
    return {name: np.asarray(array, float) for name, array in arrays.items() if array is not None}


def regression(model: str, stream: str, **options: Any) -> dict[str, np.ndarray]:
    """Return what a model predicts of a stream of numbers."""
    late = {name: options.pop(name) for name in ("delay", "steps_ahead") if name in options}
    X, y = STREAMS[stream]()
    learner = StreamingGPRegressor(model, warmup=WARMUP, random_state=0, **options)
    found = evaluated(learner, X, y, **late)
    if learner.horizon is None:
        found["quantiles"] = np.asarray(learner.predict_quantiles(X[:5], LEVELS))
        found["weights"] = np.asarray(
            list(learner.weights_.values()) if isinstance(learner.weights_, dict) else learner.weights_
        )
    return found


def single_rows(model: str, stream: str) -> dict[str, np.ndarray]:
    """Return what a model predicts of rows one at a time."""
    X, y = STREAMS[stream]()
    learner = StreamingGPRegressor(model, warmup=WARMUP, random_state=0).partial_fit(X[:WARMUP], y[:WARMUP])
    mean = []
    for x, target in zip(X[WARMUP:], y[WARMUP:], strict=True):
        mean.append(learner.predict_one(x))
        learner.learn_one(x, target)
    return {"mean": np.asarray(mean, float)}


def holed(stream: str) -> dict[str, np.ndarray]:
    """Return what `fast` predicts where cells and targets are missing."""
    X, y = STREAMS[stream]()
    rng = np.random.default_rng(4)
    X[rng.random(X.shape) < 0.1] = np.nan
    y[rng.random(len(y)) < 0.1] = np.nan
    return evaluated(StreamingGPRegressor("fast", warmup=WARMUP, lags=[1, 2, 24], random_state=0), X, y)


def several(stream: str) -> dict[str, np.ndarray]:
    """Return what `linear` predicts of two targets."""
    X, y = STREAMS[stream]()
    learner = StreamingGPRegressor("linear", warmup=WARMUP, random_state=0)
    return evaluated(learner, X, np.stack([y, X[:, 0] - 0.5 * y], axis=1))


def labels(kind: Any, model: str) -> dict[str, np.ndarray]:
    """Return the probabilities of classes, or the means of counts."""
    X, y = jumping()
    rng = np.random.default_rng(5)
    if kind is StreamingGPCountRegressor:
        return evaluated(kind(model, warmup=WARMUP, random_state=0), X, rng.poisson(np.exp(0.5 * np.clip(y, -3, 3))))
    learner = kind(model, warmup=WARMUP, random_state=0)
    classes = np.digitize(y, [-1.0, 1.0])
    found = evaluate(learner, X, classes, progress=False)
    return {"probabilities": np.asarray(learner.predict_proba(X[:50])), "score": np.asarray(found.log_density, float)}


def fleet() -> dict[str, np.ndarray]:
    """Return predictions and forecasts of a fleet of thirty keys."""
    rng = np.random.default_rng(6)
    keys, steps = 30, 60
    ids, ds = np.tile(np.arange(keys), steps), np.repeat(np.arange(steps), keys)
    a = rng.normal(size=keys * steps)
    y = ids * 0.1 + a * (1.0 + 0.05 * ids) + np.sin(ds / 5.0) + 0.3 * rng.normal(size=keys * steps)
    frame = pl.DataFrame({"unique_id": ids, "ds": ds, "a": a, "y": y})
    learner, found = StreamingGPFleet(warmup=600, shards=4, random_state=0), []
    for at in range(0, len(frame), 150):
        part = frame[at : at + 150]
        found.append(learner.predict(part.drop("y")).select("mean", "std", "q05", "q95").to_numpy())
        learner.partial_fit(part)
    ahead = pl.DataFrame({"unique_id": np.arange(keys), "ds": np.full(keys, steps), "a": np.zeros(keys)})
    last = learner.predict(ahead).select("mean", "std").to_numpy()
    return {"rows": np.concatenate(found), "ahead": last}


def cases() -> Iterator[tuple[str, Callable[[], dict[str, np.ndarray]]]]:
    """Yield the names of the cases, and what runs each."""
    for stream in STREAMS:
        for model in ("linear", "fast", "default"):
            yield f"{model} {stream}", lambda m=model, s=stream: regression(m, s)
    for model in ("soebe", "sie-gp", "i-ssgpr", "sfg-mkl", "adaraker", "omkl-gf", "ovfe", "wgpr", "solar-gp", "lgpr"):
        yield f"{model} jumping", lambda m=model: regression(m, "jumping")
    for stream in STREAMS:
        yield f"late {stream}", lambda s=stream: regression("fast", s, delay=12)
        yield f"horizon {stream}", lambda s=stream: regression("linear", s, horizon=6)
        yield f"ahead {stream}", lambda s=stream: regression("linear", s, lags=[1, 2, 3], steps_ahead=3)
        yield f"missing {stream}", lambda s=stream: holed(s)
        yield f"two targets {stream}", lambda s=stream: several(s)
        yield f"single rows {stream}", lambda s=stream: single_rows("fast", s)
    yield "late default drifting", lambda: regression("default", "drifting", delay=40)
    yield "calendar-free lags hourly", lambda: regression("default", "hourly", lags="auto")
    yield "log hourly", lambda: regression("fast", "hourly", target_transform="log")
    yield "bounds jumping", lambda: regression("fast", "jumping", bounds=(-20.0, 20.0))
    for model in ("linear", "default"):
        yield f"classes {model}", lambda m=model: labels(StreamingGPClassifier, m)
        yield f"ordered {model}", lambda m=model: labels(StreamingGPOrdinal, m)
        yield f"counts {model}", lambda m=model: labels(StreamingGPCountRegressor, m)
    yield "fleet", fleet


def run(only: str) -> dict[str, np.ndarray]:
    """Run the cases whose name holds a word; return their arrays."""
    found = {}
    for name, case in cases():
        if only in name:
            began = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found |= {f"{name}: {what}": array for what, array in case().items()}
            print(f"{name} {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest difference, relative to the largest number; infinite where shapes or NaN differ."""
    if before.shape != after.shape or not np.array_equal(np.isnan(before), np.isnan(after)):
        return np.inf
    held = np.isfinite(before)
    if not np.array_equal(held, np.isfinite(after)):
        return np.inf
    if not held.any():
        return 0.0
    return float(np.abs(before - after)[held].max() / max(np.abs(before[held]).max(), 1e-300))


@app.command()
def write(path: str, only: str = "") -> None:
    """Write the numbers of all cases into a file."""
    np.savez_compressed(path, **run(only))


@app.command()
def against(path: str, only: str = "") -> None:
    """Compare with a file; the exit status is 1 where any number is another."""
    with np.load(path) as file:
        before = {name: file[name] for name in file.files if only in name}
    after, worst = run(only), 0.0
    if before.keys() != after.keys():
        print("only on one side:", *sorted(before.keys() ^ after.keys()), sep="\n  ")
        worst = np.inf
    for name in before.keys() & after.keys():
        found = difference(before[name], after[name])
        worst = max(worst, found)
        if found > TOLERANCE:
            print(f"{name}: differs by {found:.2g}")
    print(f"{len(before)} arrays, largest relative difference {worst:.2g}")
    raise SystemExit(int(worst > TOLERANCE))


if __name__ == "__main__":
    app()
