"""Fleets forecast a day ahead, beside one LightGBM for all keys that is fitted anew every day to all rows so far.

``python -m benchmarks.accuracy.fleet_day_ahead --data DIR`` reads ``air_quality.parquet`` and ``aus_weather.parquet``
there and writes ``results/fleet_day_ahead.json``. Made are fleets of 40 meters: hourly, for 90 days, with a daily
shape that mixes three, a weekend of its own, and an answer to heat and to cold. Eight sensors of air quality, hourly,
answer to temperature and humidity. From the first third on, at each midnight the next 24 hours are forecast, with the
weather as it will be; of the 49 stations' daily temperatures at 3 pm the next row, with what is known at 9 am.
LightGBM has the same inputs, the calendar, the key, the targets one and seven days before, and the last day's mean.
Errors are in standard deviations of each key's targets in the rows before.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import typer
from jaxtyping import Float

from benchmarks.common.machine import machine
from benchmarks.common.measure import spread
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPFleet

RESULTS = RESULTS_DIR / "fleet_day_ahead.json"
SEEDS, KEYS, DAYS, HOURS = (0, 1), 40, 90, 24
SENSORS = ("y", "x0", "x3", "x4", "x5", "x6", "x7", "x8")
AIR_DAYS, STATION_DAYS, REFITTED = 150, 1_000, 100  # of the stations the last so many days are forecast
LAGS = {HOURS: [1, 2, 3, 24, 168], 1: "auto"}

Table = Float[np.ndarray, "t k"]


class Fleet(NamedTuple):
    """Targets of keys (T, K), NaN where missing, inputs (T, K, D), and how many rows a key has a day."""

    y: Table
    X: Float[np.ndarray, "t k d"]
    a_day: int
    first: int


def meters(seed: int) -> Fleet:
    """Return made meters."""
    rng, t = np.random.default_rng(seed), np.arange(HOURS * DAYS)
    hour, day = t % HOURS, t // HOURS
    season = 10.0 - 12.0 * np.cos(2.0 * np.pi * (day + 60) / 365.0) + 5.0 * np.cos(2.0 * np.pi * (hour - 15) / HOURS)
    shapes = np.stack(
        [
            np.exp(-0.5 * ((hour - 8) / 2.0) ** 2) + 1.3 * np.exp(-0.5 * ((hour - 19) / 2.5) ** 2),
            1.0 / (1.0 + np.exp(8.0 - hour)) - 1.0 / (1.0 + np.exp(18.0 - hour)),
            0.6 + 0.4 * np.cos(2.0 * np.pi * (hour - 2) / HOURS),
        ]
    )
    weather = season + _last(0.98, 0.6 * rng.normal(size=(len(t), 1)))[:, 0]
    common = _last(0.9, 0.15 * rng.normal(size=(len(t), 1)))[:, 0]
    mix, size = rng.dirichlet(np.ones(3), KEYS), np.exp(0.7 * rng.normal(size=KEYS))
    X = weather[:, None] + 2.0 * rng.normal(size=KEYS) + 0.5 * np.repeat(rng.normal(size=(DAYS, KEYS)), HOURS, axis=0)
    weekend = np.where((day % 7 >= 5)[:, None], rng.uniform(0.4, 1.1, KEYS), 1.0)
    active = 0.5 + 0.5 * (shapes[0] > 0.3)[:, None]
    load = shapes.T @ mix.T * weekend + rng.uniform(0.0, 0.08, KEYS) * np.maximum(15.0 - X, 0.0) * active
    load += rng.uniform(0.0, 0.05, KEYS) * np.maximum(X - 22.0, 0.0) * active
    load += _last(0.7, 0.14 * rng.normal(size=load.shape)) + 0.5 * common[:, None] * mix[:, 0]
    return Fleet(size * load, X[..., None], HOURS, DAYS // 3)


def _last(carried: float, noise: Table) -> Table:
    """Return noise that lasts."""
    found = noise.copy()
    for i in range(1, len(found)):
        found[i] += carried * found[i - 1]
    return found


def air(path: Path) -> Fleet:
    """Return sensors of air quality, from the first midnight on."""
    table = pl.read_parquet(path)[6 : 6 + HOURS * AIR_DAYS]
    weather = table.select(pl.col("x9", "x10").fill_nan(None).forward_fill()).to_numpy().astype(float)
    y = table.select(pl.col(SENSORS).cast(pl.Float64).fill_null(np.nan)).to_numpy()
    return Fleet(y, np.repeat(weather[:, None], len(SENSORS), axis=1), HOURS, AIR_DAYS // 3)


def stations(path: Path) -> Fleet:
    """Return daily temperatures of stations, and what is known at 9 am."""
    table = pl.read_parquet(path).sort("time", "key")
    times = table["time"].unique().sort()[-STATION_DAYS:]
    names = [name for name in table.columns if name.startswith("x")]
    keys = table["key"].unique().sort()
    grid = times.to_frame().join(keys.to_frame(), how="cross").join(table, on=["time", "key"], how="left")
    shape = (len(times), len(keys))
    X = grid.select(pl.col(names).cast(pl.Float64).fill_null(np.nan)).to_numpy().reshape(*shape, -1)
    y = grid["y"].cast(pl.Float64).fill_null(np.nan).to_numpy().reshape(shape)
    return Fleet(y, X, 1, STATION_DAYS - REFITTED)


def by_fleet(of: Fleet) -> tuple[Table, Table]:
    """Return what a fleet forecasts from the first day on, and whether the target lies in the 95% band."""
    rows, keys, inputs = of.X.shape
    names, step = [f"k{k:02d}" for k in range(keys)], timedelta(hours=HOURS // of.a_day)
    times = [datetime(2023, 3, 1) + i * step for i in range(rows)]

    def part(start: int, stop: int) -> pl.DataFrame:
        frame = {"unique_id": names * (stop - start), "ds": [time for time in times[start:stop] for _ in names]}
        X = {f"x{d}": of.X[start:stop, :, d].ravel() for d in range(inputs)}
        return pl.DataFrame(frame | {"y": of.y[start:stop].ravel()} | X)

    model = StreamingGPFleet(lags=LAGS[of.a_day]).partial_fit(part(0, of.first * of.a_day))
    means, inside = [], []
    for start in range(of.first * of.a_day, rows, of.a_day):
        frame = part(start, start + of.a_day)
        if of.a_day == 1:  # an input may be missing
            ahead = model.evaluate(frame).frame
            low, high = (ahead["mean"] + sign * 1.96 * ahead["std"] for sign in (-1.0, 1.0))
            wide = [each.to_numpy().reshape(1, keys) for each in (ahead["mean"], low, high)]
        else:
            ahead = model.forecast(of.a_day, frame.drop("y"), level=95, keys=names)
            wide = [ahead[name].to_numpy().reshape(keys, -1).T for name in ("mean", "mean-lo-95", "mean-hi-95")]
            model.partial_fit(frame)
        truth = of.y[start : start + of.a_day]
        means.append(wide[0])
        inside.append(np.where(np.isnan(truth), np.nan, (wide[1] <= truth) & (truth <= wide[2])))
    return np.concatenate(means), np.concatenate(inside)


def by_lightgbm(of: Fleet) -> Table:
    """Return what LightGBM, fitted anew every day, forecasts from the first day on."""
    from lightgbm import LGBMRegressor

    (rows, keys), day = of.y.shape, of.a_day
    center, scale = np.nanmean(of.y[: of.first * day], axis=0), np.nanstd(of.y[: of.first * day], axis=0)
    z, t = (of.y - center) / scale, np.arange(rows)

    def before(steps: int) -> Table:
        return np.concatenate([np.full((steps, keys), np.nan), z[:-steps]])

    filled = np.nan_to_num(z).reshape(-1, day, keys).mean(axis=1)
    yesterday = np.repeat(np.concatenate([np.full((1, keys), np.nan), filled[:-1]]), day, axis=0)
    clock = [np.repeat(each[:, None], keys, axis=1) for each in (t % day, t // day % 7)]
    number = np.repeat(np.arange(keys)[None], rows, axis=0)
    columns = [number, *clock, before(day), before(7 * day), yesterday, *np.moveaxis(of.X, -1, 0)]
    inputs = np.stack(columns, axis=-1).astype(float)
    found = []
    for start in range(of.first * day, rows, day):
        seen = ~np.isnan(z[7 * day : start])
        model = LGBMRegressor(n_estimators=300, learning_rate=0.05, num_leaves=31, verbose=-1, n_jobs=1)
        model.fit(inputs[7 * day : start][seen], z[7 * day : start][seen], categorical_feature=[0])
        ahead = inputs[start : start + day].reshape(-1, inputs.shape[-1])
        found.append(np.asarray(model.predict(ahead)).reshape(day, keys) * scale + center)
    return np.concatenate(found)


def compared(of: Fleet) -> dict[str, float]:
    """Return the errors of both in standard deviations, and how many targets lie in the fleet's bands."""
    start = of.first * of.a_day
    scale = np.nanstd(of.y[:start], axis=0)
    mean, inside = by_fleet(of)
    errors = {"fleet": mean, "lightgbm": by_lightgbm(of)}
    roots = {name: np.sqrt(np.nanmean(np.square((each - of.y[start:]) / scale))) for name, each in errors.items()}
    return {f"{name}_rmse": float(root) for name, root in roots.items()} | {"held_95": float(np.nanmean(inside))}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    out: Annotated[Path, typer.Option(help="Where to write.")] = RESULTS,
) -> None:
    """Measure, keep and print."""
    fleets: dict[str, list[Any]] = {
        "meters, made": [(meters, seed) for seed in SEEDS],
        "air_quality": [(air, data / "air_quality.parquet")],
        "aus_weather": [(stations, data / "aus_weather.parquet")],
    }
    found: dict[str, Any] = {}
    for name, made in fleets.items():
        runs = [compared(make(of)) for make, of in made]
        found[name] = {score: spread([run[score] for run in runs]) for score in runs[0]}
        print(name, json.dumps(found[name]), flush=True)
    out.write_text(json.dumps({"machine": machine(), "data": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
