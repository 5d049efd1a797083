"""Fleets beside statsforecast's AutoETS on keyed streams, on the same rows: accuracy by key, and rows a second.

``python -m benchmarks.accuracy.fleet_autoets --data DIR`` needs the package statsforecast (extra ``benchmarks``)
and writes ``results/fleet_autoets.json``. AutoETS is chosen and fitted anew every 24 rows of a key, to its last 200,
and goes on with the new rows in between; it has no inputs, and takes the rows of a key as equally spaced. Its
forecasts are Gaussians, of which log density and CRPS are exact. Scored are the rows after the fleet's warm-up of the
first `--rows` of every key, from the 50th on, and of so many `--keys` alone, since AutoETS takes its time; the fleet
learns all keys. The other models are those of ``benchmarks.accuracy.fleet``.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.accuracy import fleet as naive
from benchmarks.common import autoets
from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import installed
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPFleet

RESULTS = RESULTS_DIR / "fleet_autoets.json"
SEASONS = {"aus_weather": 1, "sp500_volume": 5}  # rows; a year of days is more than AutoETS takes (24)
WINDOW = 200  # rows
SIZES = (1_000, 10_000)  # keys
# With so many ticks every key has one fit.
TICKS = 24
SAMPLED = 10  # keys of which AutoETS is timed


def scores(rows: pl.DataFrame, name: str, keys_scored: int) -> dict[str, Any]:
    """Return what every model scores on so many keys, taken at equal distances."""
    from statsforecast.models import AutoETS

    model = StreamingGPFleet("key", "time")
    before = time.process_time()
    found = model.evaluate(rows).frame
    ours = time.process_time() - before
    number = rows.select(pl.int_range(pl.len()).over("key")).to_series().to_numpy()
    scored = (np.arange(len(rows)) >= model.learner.engine.fitted_at) & (number >= naive.FIRST)  # type: ignore[union-attr]
    by_model = {"fleet": (found["log_density"].to_numpy(), found["crps"].to_numpy())}
    guesses = {"persistence": naive.persistence, "seasonal naive": naive.seasonal(naive.SEASONS[name])}
    guesses |= {"river BayesianLinearRegression": naive.river_linear} if installed("river") else {}
    keys, y, X = rows["key"].to_numpy(), rows["y"].to_numpy(), rows.drop("key", "time", "y").to_numpy()
    can = np.unique(keys[scored])
    some = can[np.linspace(0, len(can) - 1, min(keys_scored, len(can))).astype(int)]
    scored &= np.isin(keys, some)
    places = [np.flatnonzero(keys == key) for key in some]
    for label, guess in guesses.items():
        both = np.full((2, len(y)), np.nan)
        for at in places:
            mean = guess(y[at], X[at])
            both[:, at] = naive.gaussian_scores(y[at], mean, naive.spread_of(y[at] - mean))
        by_model[label] = (both[0], both[1])
    both, before = np.full((2, len(y)), np.nan), time.process_time()
    for at in places:
        mean, std = autoets.one_ahead(AutoETS(season_length=SEASONS[name]), y[at], naive.FIRST, WINDOW)
        both[:, at] = naive.gaussian_scores(y[at], mean, std)
    theirs = time.process_time() - before
    by_model["AutoETS"] = (both[0], both[1])
    return {
        "keys": len(some),
        "scored_rows": int(scored.sum()),
        "models": naive.compared(keys, scored, by_model),
        "processor_seconds": {"fleet": ours, "AutoETS": theirs},
    }


def speed(keys: int) -> dict[str, Any]:
    """Return rows a processor second of a fleet, scores included, and of AutoETS on some of its keys."""
    from statsforecast.models import AutoETS

    stream, model = Ticks(keys), StreamingGPFleet()
    history = []
    while not model.is_warm_ or len(history) < naive.FIRST:
        history.append(stream.next())
        model.partial_fit(history[-1])
    spent = 0.0
    for _ in range(TICKS):
        tick = stream.next()
        history.append(tick)
        before = time.process_time()
        model.evaluate(tick)
        spent += time.process_time() - before
    targets = np.stack([tick["y"].to_numpy() for tick in history])
    sample = np.random.default_rng(0).choice(keys, SAMPLED, replace=False)
    before = time.process_time()
    for key in sample.tolist():
        autoets.one_ahead(AutoETS(season_length=1), targets[:, key], len(history) - TICKS, WINDOW)
    theirs = SAMPLED * TICKS / (time.process_time() - before)
    ours = keys * TICKS / spent
    return {
        "keys": keys,
        "fleet_rows_per_processor_second": ours,
        "autoets_rows_per_processor_second": theirs,
        "ratio": ours / theirs,
    }


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    rows: Annotated[int, typer.Option(help="Rows of every key, its first.")] = 400,
    keys: Annotated[int, typer.Option(help="Keys that are scored.")] = 50,
    sets: Annotated[str, typer.Option(help="Some of the sets, with commas.")] = ",".join(SEASONS),
) -> None:
    """Score, measure, keep and print; what was found of other sets stays."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    found: dict[str, Any] = stored | {"machine": machine(), "rows": rows, "window": WINDOW}
    for name in sets.split(","):
        table = pl.read_parquet(data / f"{name}.parquet").sort("time", "key", maintain_order=True)
        table = table.with_columns(pl.col("key").cast(pl.Int64))
        found["data"][name] = scores(table.filter(pl.int_range(pl.len()).over("key") < rows), name, keys)
        print(json.dumps(found["data"][name], indent=1), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    found["speed"] = [speed(size) for size in SIZES]
    print(json.dumps(found["speed"], indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
