"""Bands of the sum of a fleet's keys, beside those of keys taken by themselves: on made fleets and on real ones.

``python -m benchmarks.accuracy.fleet_totals --data DIR`` reads ``aus_weather.parquet`` and ``sp500_volume.parquet``
there (columns key, time and y) and writes ``results/fleet_totals.json``. Of them the last 1,000 times count, and the
keys that have 97% of these; a row that is absent is one without a target, and sums are scored where no target is
missing. From every fifth time on after the first third seven steps are forecast.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from jaxtyping import Float

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPFleet

RESULTS = RESULTS_DIR / "fleet_totals.json"
LEVELS, STEPS, EVERY = (50, 80, 95), 7, 5
ENDS = {50: 0.6745, 80: 1.2816, 95: 1.9600}  # of a standard normal distribution
TIMES, PRESENT = 1_000, 0.97
COMMON, SEEDS, KEYS, MADE_TIMES = (0.0, 0.5, 0.9), 8, 20, 620


def made(common: float, seed: int) -> Float[np.ndarray, "t k"]:
    """Return targets of keys of different sizes, that last, with noise of this correlation."""
    rng = np.random.default_rng(seed)
    level, size = rng.normal(10.0, 5.0, KEYS), np.exp(0.5 * rng.normal(size=KEYS))
    last, carried, rows = np.zeros(KEYS), rng.uniform(0.5, 0.9, KEYS), []
    for _ in range(MADE_TIMES):
        noise = np.sqrt(common) * rng.normal() + np.sqrt(1.0 - common) * rng.normal(size=KEYS)
        last = carried * last + noise
        rows.append(level + size * last)
    return np.array(rows)


def real(path: Path) -> Float[np.ndarray, "t k"]:
    """Return the targets of a file's keys, NaN where a row is absent."""
    table = pl.read_parquet(path)
    times = table["time"].unique().sort()[-TIMES:]
    table = table.filter(pl.col("time").is_in(times.implode()))
    often = table.group_by("key").len().filter(pl.col("len") >= PRESENT * len(times))["key"].sort()
    wide = table.filter(pl.col("key").is_in(often.implode())).pivot(on="key", index="time", values="y").sort("time")
    return wide.drop("time").cast(pl.Float64).fill_null(np.nan).to_numpy()


def held(targets: Float[np.ndarray, "t k"]) -> dict[str, Any]:
    """Return the share of sums in their bands, by level, at the first and the last step and over all of them."""
    keys = targets.shape[1]

    def rows(start: int, stop: int) -> pl.DataFrame:
        names, times = [f"k{k}" for k in range(keys)], np.repeat(np.arange(float(start), float(stop)), keys)
        return pl.DataFrame({"unique_id": names * (stop - start), "ds": times, "y": targets[start:stop].ravel()})

    first = len(targets) // 3
    fleet = StreamingGPFleet().partial_fit(rows(0, first))
    together, alone = {level: [] for level in LEVELS}, {level: [] for level in LEVELS}
    for now in range(first, len(targets) - STEPS, EVERY):
        total, truth = fleet.forecast_total(STEPS, level=LEVELS), targets[now : now + STEPS].sum(axis=1)
        std = np.sqrt(np.square(fleet.forecast(STEPS)["std"].to_numpy().reshape(-1, STEPS)).sum(axis=0))
        for level in LEVELS:
            low, high = (total[f"mean-{side}-{level}"].to_numpy() for side in ("lo", "hi"))
            error = np.abs(truth - total["mean"].to_numpy())
            for found, inside in ((together, (low < truth) & (truth < high)), (alone, error < ENDS[level] * std)):
                found[level].append(np.where(np.isnan(truth), np.nan, inside))
        fleet.partial_fit(rows(now, now + EVERY))
    at = {"one step": slice(0, 1), "seven steps": slice(STEPS - 1, STEPS), "all steps": slice(None)}
    shares = {
        name: {
            step: [float(np.nanmean(np.array(of[level])[:, where])) for level in LEVELS] for step, where in at.items()
        }
        for name, of in (("together", together), ("alone", alone))
    }
    return shares | {"keys": keys, "origins": len(together[LEVELS[0]])}


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    out: Annotated[Path, typer.Option(help="Where to write.")] = RESULTS,
) -> None:
    """Measure, keep and print."""
    found: dict[str, list[dict[str, Any]]] = {
        f"made, correlation {common:g}": [held(made(common, seed)) for seed in range(SEEDS)] for common in COMMON
    }
    found |= {name: [held(real(data / f"{name}.parquet"))] for name in ("aus_weather", "sp500_volume")}
    for name, runs in found.items():
        print(name, runs[0], flush=True)
    out.write_text(json.dumps({"machine": machine(), "levels": LEVELS, "data": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
