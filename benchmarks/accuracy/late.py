"""The cost of labels that come late, and the gain of learning them in the place of their rows.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.late --data DIR`` runs each case in a process of its own; it writes
``results/late.json`` after every run, goes on where it stopped, and prints the table of docs/research/late.md.

- *In time*: every label comes before the next row.
- *Shuffled*: every label comes after a delay of 0 to 199 rows, at random.
- *Exponential*: after a delay of mean 500 rows, and a tenth never.
- *Weights in time*: the same, without weights of their own for rows that are predicted late.
- *As they arrive*: the same, by a learner that takes each label, when it comes, for that of the next row.
- *Steady*: after 24 rows; by itself, and with weights in time.

Scored is the prediction made when a row came: log density a row, of targets in units of the warm-up's deviation.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.evaluation import RegressionMetrics
from streamgp.models.registry import make_spec
from streamgp.numerics.precision import float64
from streamgp.session import Session
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp.table import Chunk

RESULTS = RESULTS_DIR / "late.json"
SETS = ("beijing_pm25", "schunk_arm", "household_power_hourly")
MODELS = ("oebe", "e-doebe", "default")
CASES = (
    "in time",
    "shuffled",
    "exponential",
    "weights in time",
    "as they arrive",
    "steady",
    "steady, weights in time",
)
STEADY = 24
CHOSEN_ON = ("air_quality", "sml2010_stream", "appliances_energy")  # the weights of late rows; SETS came afterwards
# The end states are compared on so many rows after the stream.
WARMUP, AFTER = 500, 300
SCORED_FROM = 1_500  # all have fitted their model by then


class WeightsInTime(LateLabels):
    """Late labels whose predictions keep the weights in time."""

    weights = property(lambda self: (), lambda self, value: None)  # pyright: ignore[reportAssignmentType]


def arrivals_of(case: str, rows: int, seed: int) -> np.ndarray:
    """Return after how many rows each label is known."""
    rng = np.random.default_rng([seed, 28])
    if case.startswith("steady"):
        delay = np.full(rows, float(STEADY))
    elif case in ("exponential", "weights in time", "as they arrive"):
        delay = np.where(rng.uniform(size=rows) < 0.1, np.nan, rng.exponential(500.0, rows))
    else:
        delay = rng.integers(0, 200, rows).astype(float) if case == "shuffled" else np.zeros(rows)
    return np.arange(rows) + 1.0 + delay


def one_run(name: str, model: str, case: str, seed: int, rows: int, data: Path | None) -> dict[str, Any]:
    """Run one case in this process."""
    X, y = load(name, data, rows + AFTER)
    X, y, more, targets = X[:rows], y[:rows, None], X[rows:], y[rows:, None]
    learner = StreamLearner(StreamSettings(make_spec(model), num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    when, began = arrivals_of(case, rows, seed), time.perf_counter()
    arrivals = Arrivals((WeightsInTime if case.endswith("weights in time") else LateLabels)(learner), "arrives")
    if case == "in time":
        infos = list(learner.learn(X, y))
        with float64():
            rows_of = np.split(y, np.cumsum([len(info.outside) for info in infos])[:-1])
            each = [info.predictive.log_density(part) for info, part in zip(infos, rows_of, strict=True)]
        density = np.concatenate([np.asarray(part) for part in each])
    elif case == "as they arrive":
        density = as_they_arrive(learner, X, y, when)
    else:
        session = Session(learner, RegressionMetrics(["y"], 0), arrivals=arrivals)
        parts = session.feed(Chunk(X, y, None, np.arange(rows), when))
        density = np.concatenate([part.scores.log_density for part in parts])
    seconds = time.perf_counter() - began
    if case not in ("in time", "as they arrive"):
        arrivals.deliver_all()
    with float64():
        after = np.asarray(learner.predict(more).log_density(targets))
    scale = np.log(np.std(y[:WARMUP]))
    found = {"late": density[SCORED_FROM:].mean() + scale, "all": density[WARMUP:].mean() + scale}
    found |= {"after": after.mean() + scale, "ms_a_row": 1e3 * seconds / rows}
    return found | {
        "densities_after": after.tolist(),
        **{name: count for name, count in arrivals.result().items() if name != "delay"},
    }


def as_they_arrive(learner: StreamLearner, X: np.ndarray, y: np.ndarray, when: np.ndarray) -> np.ndarray:
    """Return log densities of rows when they come, where each label is learnt as that of the next row."""
    order = [row for row in np.argsort(when, kind="stable") if np.isfinite(when[row])]
    density, at, row = np.empty(len(X)), 0, 0
    while row < len(X):
        came = at
        while came < len(order) and when[order[came]] <= row:
            came += 1
        if came > at:
            for _ in learner.learn(X[order[at:came]], y[order[at:came]]):
                pass
            at = came
        ends = int(min(np.ceil(when[order[at]]), len(X))) if at < len(order) else len(X)
        rows = slice(row, max(ends, row + 1))
        with float64():
            density[rows] = np.asarray(learner.predict(X[rows]).log_density(y[rows]))
        row = rows.stop
    return density


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
    rows: Annotated[int, typer.Option(help="Rows of a stream.")] = 2_500,
    models: Annotated[str, typer.Option(help="Presets, with commas.")] = ",".join(MODELS),
    cases: Annotated[str, typer.Option(help="Cases, with semicolons.")] = ";".join(CASES),
    sets: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    only: Annotated[str | None, typer.Option(help="SET;MODEL;CASE;SEED;ROWS: run this here, print it.")] = None,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the table.")] = False,
) -> None:
    """Run, store and print."""
    if only is not None:
        name, model, case, seed, length = only.split(";")
        print(json.dumps(one_run(name, model, case, int(seed), int(length), data)))
        return
    stored: dict[str, Any] = {"machine": machine(), "runs": {}}
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
    chosen = models.split(",")
    wanted = [
        (n, m, c, s, rows) for s in range(seeds) for m in chosen for n in sets.split(",") for c in cases.split(";")
    ]
    for run in [] if table_only else wanted:
        label = ";".join(map(str, run))
        if label not in stored["runs"]:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.accuracy.late", "--only", label]
            command += [] if data is None else ["--data", str(data)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            stored["runs"][label] = settled(json.loads(done.stdout), label)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
            print(label, stored["runs"][label], flush=True)
    print_table(stored["runs"])


_IN_TIME: dict[str, list[float]] = {}  # log densities after the end, of the runs in time


def settled(found: dict[str, Any], label: str) -> dict[str, Any]:
    """Return a run with its largest difference from the run in time, of log densities after the end."""
    name, model, case, *rest = label.split(";")
    key, after = ";".join([name, model, *rest]), found.pop("densities_after")
    if case == "in time":
        _IN_TIME[key] = after
    if case == "shuffled" and key in _IN_TIME:
        found["differs_after"] = float(np.max(np.abs(np.subtract(after, _IN_TIME[key]))))
    return found


def print_table(runs: dict[str, dict[str, Any]]) -> None:
    """Print the medians over seeds."""
    columns = [(case, "late") for case in CASES]
    columns += [("shuffled", "differs_after"), ("exponential", "ms_a_row")]
    print("| data | model |", " | ".join(CASES), "| shuffled, after its end | ms a row |")
    print("|---" * (2 + len(columns)) + "|")
    for model in MODELS:
        for name in SETS + CHOSEN_ON:
            cells = []
            for case, what in columns:
                found = [run[what] for label, run in runs.items() if label.startswith(f"{name};{model};{case};")]
                cells.append(f"{np.median(found):.{'0e' if what == 'differs_after' else '3f'}}" if found else "")
            if any(cells):
                print(f"| {name} | {model} |", " | ".join(cells), "|")


if __name__ == "__main__":
    typer.run(main)
