"""Fleets on real keyed streams: mean log density and CRPS of every key beside naive forecasts and river's models.

``python -m benchmarks.accuracy.fleet --data DIR`` reads ``aus_weather.parquet`` and ``sp500_volume.parquet`` there
(columns key, time, y and x0, x1, ...) and writes ``results/fleet_accuracy.json``. Every model predicts a row before
it learns it. Baselines, river's too, get a Gaussian whose variance is the discounted mean square of their errors so
far. Scored are the rows after the fleet's warm-up of keys that have shown 50 rows.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from jaxtyping import Bool, Float
from scipy.special import ndtr

from benchmarks.common.machine import machine
from benchmarks.common.measure import installed
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPFleet

RESULTS = RESULTS_DIR / "fleet_accuracy.json"
SEASONS = {"aus_weather": 365, "sp500_volume": 5}  # rows: a year of days, a week of trading days
FIRST = 50  # rows of a key that are not scored
# The discount of the squared errors.
DISCOUNT = 0.98
# So many keys come when the others have been learnt.
NEW_KEYS = 10

Column = Float[np.ndarray, " n"]
Guess = Callable[[Column, Float[np.ndarray, "n d"]], Column]  # means of one key's rows, each from the rows before


def persistence(y: Column, X: Float[np.ndarray, "n d"]) -> Column:
    """Predict the last target."""
    return np.r_[0.0, y[:-1]]


def running_mean(y: Column, X: Float[np.ndarray, "n d"]) -> Column:
    """Predict the mean of all targets before."""
    return np.r_[0.0, np.cumsum(y[:-1]) / np.arange(1, len(y))]


def seasonal(season: int) -> Guess:
    """Predict the target a season before, and the last one where there is none."""

    def guess(y: Column, X: Float[np.ndarray, "n d"]) -> Column:
        before = np.r_[np.full(min(season, len(y)), np.nan), y[: max(len(y) - season, 0)]]
        return np.where(np.isnan(before), persistence(y, X), before)

    return guess


def river_linear(y: Column, X: Float[np.ndarray, "n d"]) -> Column:
    """Predict by river's Bayesian linear regression on the inputs and three lags, all scaled by river's scaler."""
    from river import linear_model, preprocessing

    # These rows are not scored.
    center, scale = y[:FIRST].mean(), y[:FIRST].std() or 1.0
    z = (y - center) / scale
    scaler, model = preprocessing.StandardScaler(), linear_model.BayesianLinearRegression()
    mean, past = np.empty(len(y)), [0.0, 0.0, 0.0]
    for i, (row, target) in enumerate(zip(X.tolist(), z.tolist(), strict=True)):
        x = dict(enumerate([*row, *past]))
        scaler.learn_one(x)
        x = scaler.transform_one(x) | {"one": 1.0}  # the scaler would take it for a column of no interest
        mean[i] = model.predict_one(x)
        model.learn_one(x, target)
        past = [target, *past[:2]]
    return center + scale * mean


def spread_of(errors: Column) -> Column:
    """Return the standard deviation that the errors before each row suggest."""
    var, total, rows = np.empty(len(errors)), 0.0, 0.0
    for i, error in enumerate(errors.tolist()):
        var[i] = total / rows if rows else 1.0
        total, rows = DISCOUNT * total + error**2, DISCOUNT * rows + 1.0
    return np.sqrt(np.maximum(var, 1e-12))


def gaussian_scores(y: Column, mean: Column, std: Column) -> tuple[Column, Column]:
    """Return log densities and CRPS."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return np.log(np.maximum(density, 1e-300) / std), std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def scores(rows: pl.DataFrame, name: str) -> dict[str, Any]:
    """Return what every model scores on every key."""
    model = StreamingGPFleet("key", "time")
    found = model.evaluate(rows)
    number = rows.select(pl.int_range(pl.len()).over("key")).to_series().to_numpy()
    scored = (np.arange(len(rows)) >= model.learner.engine.fitted_at) & (number >= FIRST)  # type: ignore[union-attr]
    by_model = {"fleet": (found.frame["log_density"].to_numpy(), found.frame["crps"].to_numpy())}
    guesses: dict[str, Guess] = {"persistence": persistence, "running mean": running_mean}
    guesses["seasonal naive"] = seasonal(SEASONS[name])
    if installed("river"):
        guesses["river BayesianLinearRegression"] = river_linear
    keys, y = rows["key"].to_numpy(), rows["y"].to_numpy()
    X = rows.drop("key", "time", "y").to_numpy()
    for label, guess in guesses.items():
        both = np.full((2, len(y)), np.nan)
        for key in np.unique(keys):
            at = np.flatnonzero(keys == key)
            mean = guess(y[at], X[at])
            both[:, at] = gaussian_scores(y[at], mean, spread_of(y[at] - mean))
        by_model[label] = (both[0], both[1])
    coverage = (found.frame["q05"] <= found.frame["y"]) & (found.frame["y"] <= found.frame["q95"])
    return {
        "keys": len(model.keys_),
        "scored_rows": int(scored.sum()),
        "fleet_coverage_90": float(coverage.to_numpy()[scored].mean()),
        "models": compared(keys, scored, by_model),
    }


def compared(
    keys: np.ndarray, scored: Bool[np.ndarray, " n"], by_model: dict[str, tuple[Column, Column]]
) -> dict[str, Any]:
    """Return means over the keys, and on how many of them the fleet is better."""
    each = {}
    for label, pair in by_model.items():
        means = [[float(np.mean(a[scored & (keys == k)])) for a in pair] for k in np.unique(keys[scored])]
        each[label] = np.array(means).T
    ours = each["fleet"]
    return {
        label: {
            "log_density": float(found[0].mean()),
            "crps": float(found[1].mean()),
            "keys_where_fleet_has_higher_log_density": int((ours[0] > found[0]).sum()),
            "keys_where_fleet_has_lower_crps": int((ours[1] < found[1]).sum()),
        }
        for label, found in each.items()
    }


def new_keys(rows: pl.DataFrame) -> dict[str, float]:
    """Return what the first rows of new keys cost in a fleet that knows the others, and where each starts alone."""
    late = rows["key"].unique(maintain_order=True)[-NEW_KEYS:].to_list()
    is_late = pl.col("key").is_in(late)
    model = StreamingGPFleet("key", "time").partial_fit(rows.filter(~is_late))
    first = rows.filter(is_late).filter(pl.int_range(pl.len()).over("key") < FIRST)
    together = model.evaluate(first).frame.sort("key", "time")
    alone = pl.concat(
        [
            StreamingGPFleet("key", "time", warmup=20).evaluate(first.filter(pl.col("key") == key)).frame
            for key in sorted(late)
        ]
    )
    result = {}
    for label, frame in (("fleet", together), ("alone", alone)):
        # The first row of a key is left out: no model knows its level.
        frame = frame.filter(pl.int_range(pl.len()).over("key") > 0)
        result[f"{label}_mse"] = float(((frame["y"] - frame["mean"]) ** 2).to_numpy().mean())
        result[f"{label}_log_density"] = float(frame["log_density"].to_numpy().mean())
        result[f"{label}_crps"] = float(frame["crps"].to_numpy().mean())
    return result


def main(data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")]) -> None:
    """Score, keep and print."""
    found: dict[str, Any] = {"machine": machine(), "data": {}}
    for name in SEASONS:
        rows = pl.read_parquet(data / f"{name}.parquet").sort("time", "key", maintain_order=True)
        rows = rows.with_columns(pl.col("key").cast(pl.Int64))
        found["data"][name] = scores(rows, name) | {f"first_{FIRST}_rows_of_new_keys": new_keys(rows)}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["data"], indent=1))


if __name__ == "__main__":
    typer.run(main)
