"""Runs of sparse and local Gaussian processes: rows learnt in order, models scored on rows held out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.estimators import StreamingGPRegressor
from streamgp.likelihoods import Predictive
from streamgp.models.presets import PRESETS
from streamgp.numerics import keys
from streamgp.numerics.accelerator import jnp
from streamgp.numerics.precision import in_float64
from streamgp.research.sparse import (
    Batch,
    BatchOptimiser,
    LocalGPs,
    absorb,
    empty_posterior,
    fit_exact_hyperparameters,
    function_posterior,
)
from streamgp.research.sparse.warmup import from_spec
from streamgp_papers.data_files import load

BATCH = PRESETS["wgpr"].batch_size
TEST_SHARE = 0.2
EXACT_ROWS = 1_500
HYPER_ROWS = 500
# One in so many lines and points of a grid is kept.
STEP = 4


class Split(NamedTuple):
    """Rows to learn, in order and standardised by the first batch of them, and rows to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    mean: float
    scale: float

    def scores(self, predictive: Predictive) -> dict[str, float]:
        """Compute RMSE, mean log density and coverage of 95% on the rows to test, in the units of the data."""
        mean = self.mean + self.scale * np.asarray(predictive.mean)[:, 0]
        std = self.scale * np.asarray(predictive.std)[:, 0]
        target = (self.y_test[:, None] - self.mean) / self.scale
        density = np.asarray(predictive.log_density(jnp.asarray(target))) - np.log(self.scale)
        inside = np.abs(self.y_test - mean) <= 1.96 * std
        return {
            "rmse": float(np.sqrt(np.mean(np.square(self.y_test - mean)))),
            "pll": float(density.mean()),
            "coverage": float(inside.mean()),
        }


def split(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> Split:
    """Hold out the rows marked in `test`, and standardise by the first batch of the others."""
    first = np.flatnonzero(~test)[:BATCH]
    middle, std = X[first].mean(axis=0), X[first].std(axis=0)
    inputs = (X - middle) / np.where(std > 0.0, std, 1.0)
    mean, scale = float(y[first].mean()), float(y[first].std()) or 1.0
    targets = (y - mean) / scale
    return Split(inputs[~test], targets[~test, None], inputs[test], y[test], mean, scale)


def read_shuffled(data: str, seed: int, directory: Path | None, rows: int | None) -> Split:
    """Read a table, and shuffle its rows."""
    X, y = load(data, directory)
    order = np.random.default_rng(seed).permutation(len(X))[:rows]
    test = np.arange(len(order)) >= round((1.0 - TEST_SHARE) * len(order))
    return split(X[order], y[order], test)


def read_tracks(data: str, seed: int, directory: Path | None, rows: int | None) -> Split:
    """Read a map along parallel tracks in alternating direction: every fourth line, and every fourth point on it."""
    X, y = load(data, directory)
    at = np.unique(X[:, 0], return_inverse=True)[1]
    points = np.unique(X[:, 1], return_inverse=True)[1]
    kept = np.flatnonzero((at % STEP == 0) & (points % STEP == 0))
    line = at[kept] // STEP
    order = kept[np.lexsort((np.where(line % 2 == 0, 1.0, -1.0) * X[kept, 1], line))][:rows]
    test = np.random.default_rng(seed).random(len(order)) < TEST_SHARE
    return split(X[order], y[order], test)


def make_model(method: str, inputs: int, **changes: Any) -> LocalGPs:
    """Make the preset of this name, the same in all runs except for the changes."""
    return replace(from_spec(PRESETS[method], inputs, 1, None), **changes)


def learn(one: LocalGPs, rows: Split, seed: int) -> tuple[Any, dict[str, float]]:
    """Learn all rows to learn; return the state, and the number of local models, the seconds and the speed."""
    began = perf_counter()
    state, _ = one.update(one.init(keys.key(seed)), rows.X, rows.y)
    seconds = perf_counter() - began
    return state, {"models": int(state.models.count), "seconds": seconds, "rows_per_second": len(rows.X) / seconds}


def score_combinations(rows: Split, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Score WGPR, learnt once, with each way to combine its models."""
    one = make_model("wgpr", rows.X.shape[1], combination="stream")
    state, cost = learn(one, rows, seed)
    for label, combination in (("", "nearest"), (", precision", "precision"), (", stream", "stream")):
        made = replace(one, combination=combination).predict(state, rows.X_test)
        yield f"WGPR{label}", rows.scores(made) | cost


def score_local_models(rows: Split, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Score WGPR with each way to combine its models, its two extremes, and the methods that it is compared with."""
    d, batches = rows.X.shape[1], len(rows.X) // BATCH
    yield from score_combinations(rows, seed)
    hyperparameters = fit_exact_hyperparameters(*sample(rows, HYPER_ROWS, seed))
    others = {
        "OVFE": make_model("ovfe", d),
        "OVFE, alpha 0.5": make_model("ovfe", d, optimiser=BatchOptimiser(PRESETS["ovfe"].steps, alpha=0.5)),
        "one model a batch": make_model("solar-gp", d, threshold=2.0, max_models=batches, combination="nearest"),
        "SOLAR-GP": make_model("solar-gp", d, max_models=batches),
        "LGPR": make_model("lgpr", d, max_models=batches, hyperparameters=hyperparameters),
    }
    for name, each in others.items():
        state, cost = learn(each, rows, seed)
        yield name, rows.scores(each.predict(state, rows.X_test)) | cost


def sample(rows: Split, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw `count` of the rows to learn."""
    chosen = np.random.default_rng(seed).permutation(len(rows.X))[:count]
    return rows.X[chosen], rows.y[chosen]


def score_baselines(rows: Split, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Score models that are not local: boosted trees, an exact process on some rows, the default, and the mean."""
    trees = HistGradientBoostingRegressor(random_state=seed).fit(rows.X, rows.y[:, 0])
    yield "HistGradientBoosting", _points(rows, trees.predict(rows.X_test))
    X, y = sample(rows, EXACT_ROWS, seed)
    hyper = fit_exact_hyperparameters(*sample(rows, HYPER_ROWS, seed))
    Z = jnp.asarray(X)
    exact = function_posterior(
        absorb(hyper, Z, Batch(Z, jnp.asarray(y), jnp.ones(len(X), bool)), empty_posterior(Z, 1))
    )
    mean = exact.mean(hyper, jnp.asarray(rows.X_test))
    var = exact.variance(hyper, jnp.asarray(rows.X_test)) + hyper.noise_var
    gaussian = Predictive(jnp.zeros((len(mean), 1)), mean[:, None, :], var[:, None, None])
    yield f"exact GP on {EXACT_ROWS:,} rows", rows.scores(gaussian)
    began = perf_counter()
    ensemble = StreamingGPRegressor(random_state=seed).fit(rows.X, rows.y[:, 0])
    seconds = perf_counter() - began
    mean, std = ensemble.predict(rows.X_test, return_std=True)
    density = ensemble.log_density(rows.X_test, (rows.y_test - rows.mean) / rows.scale) - np.log(rows.scale)
    inside = np.abs(rows.y_test - rows.mean - rows.scale * mean) <= 1.96 * rows.scale * std
    yield (
        "StreamingGPRegressor",
        _points(rows, mean)
        | {
            "pll": float(density.mean()),
            "coverage": float(inside.mean()),
            "seconds": seconds,
            "rows_per_second": len(rows.X) / seconds,
        },
    )
    yield "mean", _points(rows, np.full(len(rows.X_test), rows.y.mean()))


def _points(rows: Split, standardised: np.ndarray) -> dict[str, float]:
    error = rows.y_test - rows.mean - rows.scale * standardised
    return {"rmse": float(np.sqrt(np.mean(np.square(error))))}


def _run(rows: Split, entries: Iterator[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    return {"rows": len(rows.X) + len(rows.X_test), "inputs": rows.X.shape[1], "models": dict(entries)}


ORDERED = ("bathymetry_celt", "elevation_rockies")


def read(data: str, seed: int, directory: Path | None, rows: int | None) -> Split:
    """Read a data set in the order of its experiment."""
    return (read_tracks if data in ORDERED else read_shuffled)(data, seed, directory, rows)


@in_float64
def run_tables(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Run every model on a data set, in shuffled order or, of maps, along tracks."""
    some = read(data, seed, directory, rows)

    def entries() -> Iterator[tuple[str, dict[str, float]]]:
        yield from score_local_models(some, seed)
        yield from score_baselines(some, seed)

    return _run(some, entries())


@in_float64
def run_models(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Measure error and speed by the number of models: thresholds from one model to many."""
    some = read(data, seed, directory, rows)
    batches = len(some.X) // BATCH

    def entries() -> Iterator[tuple[str, dict[str, float]]]:
        for threshold in (np.inf, 20.0, 5.0, 2.0, 1.0, 0.5):
            one = make_model("wgpr", some.X.shape[1], threshold=threshold, max_models=batches)
            state, cost = learn(one, some, seed)
            yield f"WGPR, threshold {threshold:g}", some.scores(one.predict(state, some.X_test)) | cost
        for threshold in (0.01, 0.1, 0.5, 0.9, 2.0):
            one = make_model("solar-gp", some.X.shape[1], threshold=threshold, max_models=batches)
            state, cost = learn(one, some, seed)
            yield f"SOLAR-GP, threshold {threshold:g}", some.scores(one.predict(state, some.X_test)) | cost

    return _run(some, entries())


TOY_ROWS, TOY_NOISE = 3_000, 0.25
TOY_LENGTHSCALES, TOY_VARIANCES = (20.0, 6.0), (1.0, 9.0)


def generate_toy(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one Gaussian process on the first half of [0, 300] and another on the second, with noise."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 300.0, rows)
    halves = np.array_split(x, 2)

    def draw(x: np.ndarray, lengthscale: float, variance: float) -> np.ndarray:
        K = variance * np.exp(-0.5 * np.square((x[:, None] - x) / lengthscale))
        return np.linalg.cholesky(K + 1e-8 * variance * np.eye(len(x))) @ rng.normal(size=len(x))

    f = np.concatenate([draw(*each) for each in zip(halves, TOY_LENGTHSCALES, TOY_VARIANCES, strict=True)])
    return x[:, None], f + TOY_NOISE * rng.normal(size=rows)


@in_float64
def run_toy(data: str, seed: int, *, directory: Path | None, rows: int | None) -> dict[str, Any]:
    """Learn the line of two regimes in order, and score on its own rows at the end; `directory` is not used."""
    X, y = generate_toy(seed, TOY_ROWS if rows is None else min(rows, TOY_ROWS))
    whole = split(X, y, np.zeros(len(X), bool))
    some = whole._replace(X_test=whole.X, y_test=y)

    def entries() -> Iterator[tuple[str, dict[str, float]]]:
        yield from score_combinations(some, seed)
        for name, each in (("OVFE", make_model("ovfe", 1)), ("SOLAR-GP", make_model("solar-gp", 1))):
            state, cost = learn(each, some, seed)
            yield name, some.scores(each.predict(state, some.X_test)) | cost

    return _run(some, entries()) | {"rows": len(X)}
