"""Sudden changes that a model follows at once: alarms within ten rows, and the rate of false alarms.

``python -m benchmarks.robustness.steps`` writes ``results/steps.json`` after every stream, goes on where it
stopped, and prints the table of docs/research/alarms.md. A stream is warmed up and learnt up to its change once, then
each change is tried from there. A standard deviation is the predicted one of a row: the median over the 100 rows
before the change. Named: an alarm of the right kind at most ten rows after the change, of scale and slope 29. False:
any alarm before it.

- *features*: three normal inputs, a curve of one and a line of another, and independent noise.
- *hours*: hourly values with a daily cycle and autoregressive noise (0.9 from one hour to the next), of which no
  input tells, nor the calendar: a step of 3 standard deviations is then much like what comes by itself.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "steps.json"
WARMUP, AT, AFTER = 300, 600, 30
WITHIN = {"level": 10, "three": 10}  # rows; others have all that come after
MODELS, LAGS, DATA = ("fast", "default"), ("none", "auto"), ("features", "hours")
STEPS = (3, 10, 100)
CHANGES = (*(f"level {size}" for size in STEPS), "scale 4", "slope -1", "three glitches")
KINDS = {"level": {"level"}, "scale": {"scale"}, "slope": {"slope", "scale", "level"}, "three": set()}


class Stream:
    """A stream up to its change, and how it goes on."""

    def __init__(self, data: str, seed: int, n: int = AT + AFTER) -> None:
        rng = np.random.default_rng([seed, DATA.index(data)])
        self.times = None
        if data == "features":
            self.X = rng.normal(size=(n, 3))
            self.usual, self.noise = np.sin(2.0 * self.X[:, 0]) + self.X[:, 1], 0.3 * rng.normal(size=n)
        else:
            hours = np.arange(n)
            self.X, self.noise = rng.normal(size=(n, 1)), 0.5 * rng.normal(size=n)
            for i in range(1, n):
                self.noise[i] += 0.9 * self.noise[i - 1]
            self.usual = 12.0 + 6.0 * np.sin(2.0 * np.pi * hours / 24.0)
            self.times = np.datetime64("2024-01-01T00") + hours.astype("timedelta64[h]")

    def part(self, rows: slice) -> dict[str, Any]:
        """Return inputs and times of some rows, as `evaluate` takes them."""
        return {"X": self.X[rows], "times": None if self.times is None else self.times[rows]}

    def changed(self, change: str, deviation: float) -> np.ndarray:
        """Return the targets from the change on."""
        what, size = change.split()
        usual, noise = self.usual[AT:].copy(), self.noise[AT:].copy()
        if what == "level":
            usual += float(size) * deviation
        elif what == "scale":
            noise *= float(size)
        elif what == "slope":
            middle = self.usual[:AT].mean()
            usual = middle + float(size) * (usual - middle)
        else:
            noise[:3] += 100.0 * deviation
        return usual + noise


def tried(model: str, lags: str, data: str, seed: int) -> dict[str, Any]:
    """Return the alarms before the change and after each, as rows after it and kinds."""
    stream, began = Stream(data, seed), time.process_time()
    options: dict[str, Any] = {"lags": None if lags == "none" else "auto", "calendar": None}
    learner = StreamingGPRegressor(model, warmup=WARMUP, random_state=seed, **options)
    quiet: dict[str, Any] = {"alarms": True, "progress": False, "weights": False}
    before = evaluate(learner, y=(stream.usual + stream.noise)[:AT], **stream.part(slice(AT)), **quiet)
    deviation = float(np.median(before.std[-100:]))
    found: dict[str, Any] = {"before": [[alarm.row - AT, alarm.kind] for alarm in before.alarms], "changes": {}}
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "model")
        for change in CHANGES:
            again = StreamingGPRegressor.load(Path(folder) / "model")
            after = evaluate(again, y=stream.changed(change, deviation), **stream.part(slice(AT, None)), **quiet)
            found["changes"][change] = [[a.row - AT, a.kind, a.size, a.followed] for a in after.alarms]
    found["seconds"] = round(time.process_time() - began, 1)
    return found


def named(change: str, alarms: list[list[Any]]) -> bool:
    """Return whether an alarm names a change in time; of glitches, whether there is one of a sudden change."""
    what = change.split()[0]
    kinds, within = KINDS[what], WITHIN.get(what, AFTER)
    return any(row <= within and (kind in kinds if kinds else kind != "scale") for row, kind, *_ in alarms)


def table(cells: dict[str, dict[str, Any]]) -> str:
    """Return the share of streams in which each change was named, and false alarms."""
    head = ["model", "lags", "rows", "streams", *CHANGES, "false alarms", "rows without a change"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell, streams in cells.items():
        many = list(streams.values())
        shares = [f"{np.mean([named(change, each['changes'][change]) for each in many]):.0%}" for change in CHANGES]
        false = sum(len(each["before"]) for each in many)
        row = [*cell.split(", "), str(len(many)), *shares, str(false), f"{len(many) * (AT - WARMUP):,}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def main(
    streams: Annotated[int, typer.Option(help="Streams of each cell.")] = 100,
    models: Annotated[str, typer.Option(help="Models, by commas.")] = ",".join(MODELS),
    results: Annotated[Path, typer.Option(help="Where they are kept.")] = RESULTS,
) -> None:
    """Run what is missing, store it and print the table."""
    stored = json.loads(results.read_text()) if results.exists() else {"cells": {}}
    cells = stored["cells"]
    for seed in range(streams):
        for model in models.split(","):
            for data in DATA:
                for lags in LAGS:
                    cell = cells.setdefault(f"{model}, {lags}, {data}", {})
                    if str(seed) in cell:
                        continue
                    cell[str(seed)] = tried(model, lags, data, seed)
                    results.write_text(json.dumps({"machine": machine(), "cells": cells}) + "\n")
                    print(seed, model, data, lags, cell[str(seed)], flush=True)
    print(table(cells))


if __name__ == "__main__":
    typer.run(main)
