"""The gain of renewal: on whole files, and where the inputs move to a region that the warm-up never saw.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.renewal --data DIR`` runs the default with and without renewal, each
in a process of its own; it writes ``results/renewal.json`` after every run, goes on where it stopped, and prints
both tables of docs/research/renewal.md.

- *Whole files*: nMSE over the last half, processor seconds, peak memory; tables in the order of their file.
- *Moved*: the rows of a table with smaller values of the input that goes best with the target come first, in random
  order, then those with larger ones. RMSE from 2,000 rows after the move on, beside a model that begins at the move.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.stats import rankdata

from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "renewal.json"
# The data sets, with their lags.
WHOLE: dict[str, Any] = {
    "kin40k": None,
    "cadata": None,
    "beijing_pm25": [1],
    "twitter_buzz": None,
    "household_power_hourly": "auto",
}
MOVED = ("elevators_ucids", "cadata", "cpusmall")
BEFORE, AFTER, BACK = 3_000, 4_000, 2_000  # rows before the move and after it, and of these not counted
MODELS: dict[str, dict[str, Any]] = {"default": {}, "never renewed": {"renew": False}}
FRESH = "fresh"


def one_run(kind: str, name: str, model: str, data: Path | None, seed: int) -> dict[str, float]:
    """Run one model in this process."""
    options = dict(MODELS.get(model, {}))
    if kind == "whole":
        X, y = load(name, data, whole=True)
        scored, scale = slice(len(y) // 2, None), np.var(y[len(y) // 2 :])
        options["lags"] = WHOLE[name]
    else:
        X, y = moved(name, data, seed)
        first = BEFORE if model == FRESH else 0
        X, y = X[first:], y[first:]
        scored, scale = slice(BEFORE + BACK - first, None), 1.0
    found = evaluate(StreamingGPRegressor(warmup=1_000, random_state=seed, **options), X, y, progress=False)
    error = float(np.mean(np.square(found.mean[scored] - y[scored])) / scale)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    value = {"nmse": error} if kind == "whole" else {"rmse": error**0.5}
    return value | {"rows": len(y), "seconds": time.process_time(), "peak_mib": memory}


def moved(name: str, data: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose input that goes best with the target is small, and then rows where it is large."""
    X, y = load(name, data, whole=True)
    related = np.nan_to_num([abs(np.corrcoef(rankdata(x), rankdata(y))[0, 1]) if np.ptp(x) else 0.0 for x in X.T])
    order, rng = np.argsort(X[:, related.argmax()], kind="stable"), np.random.default_rng(seed)
    half = len(order) // 2
    rows = np.concatenate([rng.permutation(order[:half])[:BEFORE], rng.permutation(order[half:])[:AFTER]])
    return X[rows], y[rows]


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds, from 0, of the moved streams; whole files are run once.")] = 1,
    only: Annotated[str | None, typer.Option(help="KIND,NAME,MODEL,SEED: run this here, print its scores.")] = None,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the tables.")] = False,
) -> None:
    """Run, store and print."""
    if only is not None:
        kind, name, model, seed = only.split(",")
        print(json.dumps(one_run(kind, name, model, data, int(seed))))
        return
    stored: dict[str, Any] = {"machine": machine(), "runs": {}}
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
    wanted = [("moved", name, model, seed) for seed in range(seeds) for name in MOVED for model in (*MODELS, FRESH)]
    wanted += [("whole", name, model, 0) for name in WHOLE for model in MODELS]
    for run in [] if table_only else wanted:
        label = ",".join(map(str, run))
        if label not in stored["runs"]:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.accuracy.renewal", "--only", label]
            command += [] if data is None else ["--data", str(data)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            stored["runs"][label] = json.loads(done.stdout)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
            print(label, stored["runs"][label], flush=True)
    print_tables(stored["runs"])


def print_tables(runs: dict[str, dict[str, float]]) -> None:
    """Print what whole files and moved streams gave; of several seeds the median."""

    def median(kind: str, name: str, model: str, what: str) -> float:
        found = [run[what] for label, run in runs.items() if label.startswith(f"{kind},{name},{model},")]
        return float(np.median(found)) if found else float("nan")

    print("| file | rows | nMSE of the last half: default | never renewed | CPU seconds | peak MiB |")
    print("|---" * 6 + "|")
    for name in WHOLE:
        error, seconds, memory = (
            [median("whole", name, model, what) for model in MODELS] for what in ("nmse", "seconds", "peak_mib")
        )
        times = f"{seconds[0]:.0f} / {seconds[1]:.0f} | {memory[0]:.0f} / {memory[1]:.0f}"
        rows = f"{median('whole', name, 'default', 'rows'):,.0f}"
        print(f"| {name} | {rows} | {error[0]:.4g} | {error[1]:.4g} | {times} |")
    print("\n| table, moved | RMSE over that of a fresh fit: default | never renewed |\n|---|---|---|")
    for name in MOVED:
        fresh = median("moved", name, FRESH, "rmse")
        ratios = " | ".join(f"{median('moved', name, model, 'rmse') / fresh:.2f}" for model in MODELS)
        print(f"| {name} | {ratios} |")


if __name__ == "__main__":
    typer.run(main)
