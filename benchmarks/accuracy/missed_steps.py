"""Streams of which some rows never came, by models that count the steps of the clock, and by ones that count rows.

``python -m benchmarks.accuracy.missed_steps --data DIR`` writes ``results/missed_steps.json`` after every run, goes
on where it stopped, and `benchmarks.pages.missed_steps` puts the table into docs/research/models.md. It needs
the files of packages that `benchmarks.accuracy.many_origins` names.

`fast` learns 3,000 rows by their own past and the calendar, of which 1, 3 or 10% are left out at random (three
seeds), once as it is and once without a timetable. The scores are over the rows that came, after the first 1,000.
"""

import json
import statistics
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.accuracy.many_origins import STREAMS
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.stream.timetable import Timetable

RESULTS = RESULTS_DIR / "missed_steps.json"
ROWS, WARMUP = 3_000, 1_000
NAMES = (
    "demand of England",
    "bicycles",
    "sml2010, y",
    "household power",
    "temperature at JFK",
    "a house in Illinois",
)
SHARES = {0.0: (0,), 0.01: (0, 1, 2), 0.03: (0, 1, 2), 0.1: (0, 1, 2)}  # left out, and the seeds


def run(name: str, share: float, seed: int, data: Path, *, counts_steps: bool) -> dict[str, Any]:
    """Return scores of a stream without some of its rows."""
    stream = STREAMS[name](data)
    n = min(ROWS, len(stream.y))
    came = np.random.default_rng(seed).random(n) >= share
    y, times = stream.y[:n][came], stream.times[:n][came].astype("datetime64[s]")
    model, nothing = StreamingGPRegressor("fast", lags="auto", warmup=WARMUP), np.empty((len(y), 0))
    if counts_steps:
        metrics = evaluate(model, nothing, y, times=times).metrics
    else:
        with patch.object(Timetable, "of", lambda _: None):
            metrics = evaluate(model, nothing, y, times=times).metrics
    return {key: metrics[key] for key in ("rmse", "crps")}


def main(data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")]) -> None:
    """Run, keep and print."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
    for name in NAMES:
        for share, seeds in SHARES.items():
            for counted in ("steps", "rows"):
                key = f"{name}; {share}; {counted}"
                if key not in stored["runs"]:
                    found = [run(name, share, seed, data, counts_steps=counted == "steps") for seed in seeds]
                    stored["runs"][key] = found
                    stored |= {"machine": machine()}
                    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
                    print(key, statistics.median(each["crps"] for each in found), flush=True)


if __name__ == "__main__":
    typer.run(main)
