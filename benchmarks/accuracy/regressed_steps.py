"""Forecasts of the next 48 rows with and without the regression of each step.

``python -m benchmarks.accuracy.regressed_steps --data DIR`` writes ``results/regressed_steps.json`` and prints the
table of docs/research/ahead.md. Each stream is a column of a data set with its times; the target of its own past and
the calendar, `fast`, a warm-up of 1,000 rows, then a forecast of all steps every 48 rows or a few more. The first
four were looked at while the rule was made, the others were first run when it was.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import polars as pl
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.stream import paths

RESULTS = RESULTS_DIR / "regressed_steps.json"
WARMUP, STEPS = 1_000, 48
# The file, its column, and which rows.
STREAMS = {
    "household power": ("household_power_hourly", "y", 0, 5_000),
    "Beijing, x5": ("beijing_pm25", "x5", 24, 5_000),
    "Beijing, x7": ("beijing_pm25", "x7", 24, 5_000),
    "sml2010, x0": ("sml2010_stream", "x0", 0, 5_000),
    "air quality": ("air_quality", "y", 0, 6_000),
    "appliances, x1": ("appliances_energy", "x1", 0, 6_000),
    "Beijing later, x6": ("beijing_pm25", "x6", 20_000, 5_000),
    "household later, x2": ("household_power_hourly", "x2", 15_000, 5_000),
    "sml2010, y": ("sml2010_stream", "y", 0, 5_000),
    "appliances, y": ("appliances_energy", "y", 0, 6_000),
}
CHOOSING = 4  # of these, at the beginning


def scored(name: str, data: Path, *, alone: bool) -> dict[str, Any]:
    """Return means over the steps, of the model alone or with the regressions."""
    file, column, first, rows = STREAMS[name]
    frame = pl.read_parquet(data / f"{file}.parquet").slice(first, rows)
    y = frame[column].cast(pl.Float64).to_numpy()
    times = frame["timestamp"].to_numpy().astype("datetime64[s]")
    model, began = StreamingGPRegressor("fast", lags="auto", warmup=WARMUP), time.process_time()
    rule = (lambda drawn, _: drawn) if alone else paths.averaged
    with patch.object(paths, "averaged", rule):
        found = evaluate(model, np.empty((len(y), 0)), y, times, steps_ahead=STEPS, progress=False, weights=False)
    steps = found.metrics["steps_ahead"]["by_step"]
    best = [min(each["nmse"] for each in step["naive"].values()) for step in steps]
    result = {key: float(np.mean([step[key] for step in steps])) for key in ("nmse", "crps")}
    result |= {f"cover_{p}": float(np.mean([step["coverage"][p] for step in steps])) for p in ("80", "95")}
    behind = int(sum(step["nmse"] > other for step, other in zip(steps, best, strict=True)))
    own = {"forecasts": int(steps[0]["rows"]), "seconds": round(time.process_time() - began, 1)}
    return result | {"naive_nmse": float(np.mean(best)), "steps_behind": behind} | own


def table(runs: dict[str, dict[str, Any]]) -> str:
    """Return the table of the page."""
    head = "| stream | forecasts | nMSE | best naive one | CRPS, alone = 1 | 80 / 95% hold | steps behind it |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for name, run in runs.items():
        one, two = run["alone"], run["regressed"]
        hold = " → ".join(f"{100 * each['cover_80']:.0f} / {100 * each['cover_95']:.0f}" for each in (one, two))
        lines.append(
            f"| {name} | {two['forecasts']} | {one['nmse']:.3f} → {two['nmse']:.3f} | {two['naive_nmse']:.3f} "
            f"| {two['crps'] / one['crps']:.2f} | {hold} | {one['steps_behind']} → {two['steps_behind']} |"
        )
    return "\n".join(lines)


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    streams: Annotated[str, typer.Option(help="Some of the streams, with semicolons.")] = ";".join(STREAMS),
) -> None:
    """Run the streams, store what is found and print the table."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
    for name in streams.split(";"):
        if name not in stored["runs"]:
            stored["runs"][name] = {
                "alone": scored(name, data, alone=True),
                "regressed": scored(name, data, alone=False),
            }
            stored |= {"machine": machine(), "steps": STEPS, "chosen_on": list(STREAMS)[:CHOOSING]}
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
            print(name, stored["runs"][name], flush=True)
    print(table(stored["runs"]))


if __name__ == "__main__":
    typer.run(main)
