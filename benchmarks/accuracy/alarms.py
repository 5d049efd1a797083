"""Alarms measured: false alarms, delays beside river's detectors, discoveries among many streams.

``OMP_NUM_THREADS=1 python -m benchmarks.accuracy.alarms [--data DIR]`` writes ``results/alarms.json`` after every
part and goes on where it stopped; ``python -m benchmarks.pages.alarms`` renders docs/research/alarms.md.

- *False alarms*: a million rows from the model itself, at several rates: normal targets under their own distribution,
  and a Bayesian linear model that learns rows drawn from such a model.
- *Delays*: errors of a fixed prediction. The detectors of river get the same standardised errors (each runs twice, on
  the errors and on their absolute values; DDM on whether they are beyond a 90% band) with thresholds at which they
  give as many false alarms on the same rows as ours at a rate of 10 in 1,000 rows. Ours at its default rate as well.
- *Discoveries*: e-BH over 1,000 streams of 500 rows, of which 50 change in the middle.
- *Real data*, with ``--data``: `streamgp run --alarms` on hourly household power with a bias and a stuck sensor.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from river import drift
from scipy.special import ndtr
from scipy.stats import norm

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation import Alarms, RegressionScores, e_bh

RESULTS = RESULTS_DIR / "alarms.json"
ROWS = 1_000_000
# Rates of false alarms in 1,000 rows.
RATES = (1e-3, 1e-4, 1.0, 0.1)
SIGNAL = 3.0  # standard deviation of what is predicted, in those of the errors
# Detectors are compared at this rate, and on so many rows.
EQUAL_RATE, NULL_ROWS = 10.0, 100_000
BEFORE, AFTER, REPETITIONS = 1_000, 3_000, 20
SLOW = {"KSWIN": 800}  # begins at this row, in half of the repetitions
STREAMS, CHANGED, LENGTH = 1_000, 50, 500


def scores(y: np.ndarray, mean: np.ndarray) -> RegressionScores:
    """Return the scores of normal predictions with standard deviation 1."""
    y, mean = y[:, None], mean[:, None]
    nan = np.full_like(y, np.nan)
    density = norm.logpdf(y - mean)[:, 0]
    return RegressionScores(y, mean, nan, nan, nan, nan, ndtr(y - mean), nan, density, density, density, density)


# False alarms


def false_alarms_of_numbers(rate: float) -> dict[str, Any]:
    """Test a million rows whose targets are drawn from what is predicted."""
    rng, began = np.random.default_rng(0), time.perf_counter()
    alarms = Alarms(["y"], rate=rate)
    mean = SIGNAL * rng.normal(size=ROWS)
    alarms.add(scores(mean + rng.normal(size=ROWS), mean), np.arange(ROWS))
    return _counted(alarms.count, ROWS, rate, time.perf_counter() - began)


def false_alarms_of_a_model(seeds: int = 10) -> dict[str, Any]:
    """Evaluate a linear model on rows drawn from linear models, and count alarms at the default rate."""
    count, rows, began = 0, 0, time.perf_counter()
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS // seeds + 1_000, 5))
        y = X @ rng.normal(size=5) + 0.5 * rng.normal(size=len(X))
        model = StreamingGPRegressor("linear", warmup=1_000, noise="constant", random_state=seed)
        found = evaluate(model, X, y, alarms=True, progress=False)
        count, rows = count + len(found.alarms or []), rows + len(X) - 1_000
    return _counted(count, rows, RATES[0], time.perf_counter() - began)


def _counted(count: int, rows: int, rate: float, seconds: float) -> dict[str, Any]:
    return {"rate": rate, "rows": rows, "false": count, "allowed": rate * rows / 1_000, "seconds": seconds}


# Delays


def changes(rng: np.random.Generator) -> dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return for each kind of change the targets after it, from what is predicted and the usual errors."""
    return {
        "mean + 1 sd": lambda mean, error: mean + error + 1.0,
        "mean + 3 sd": lambda mean, error: mean + error + 3.0,
        "noise x 1.5": lambda mean, error: mean + 1.5 * error,
        "noise x 3": lambda mean, error: mean + 3.0 * error,
        "stuck": lambda mean, error: np.full(len(mean), mean[0] + error[0]),
        "drift, 2 sd in 1,000 rows": lambda mean, error: mean + error + np.minimum(np.arange(len(mean)) / 500.0, 2.0),
    }


class Twice:
    """A detector of changes of the mean, on errors and on their absolute values."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.both = make(), make()

    def update(self, error: float) -> bool:
        """Learn an error; return whether one of the two found a change, after which both begin again."""
        for detector, value in zip(self.both, (error, abs(error)), strict=True):
            detector.update(value)
        if found := any(detector.drift_detected for detector in self.both):
            self.both = self.make(), self.make()
        return found


class Once:
    """A detector of changes of a share, on errors beyond a band of 90%."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.one = make()

    def update(self, error: float) -> bool:
        """Learn an error; return whether there was a change, after which the detector begins again."""
        self.one.update(abs(error) > 1.645)
        if found := self.one.drift_detected:
            self.one = self.make()
        return found


# Each with thresholds from the most to the least sensitive, and the rows of a million that it is tuned on.
RIVALS: dict[str, tuple[Callable[[float], Any], list[float], int]] = {
    "ADWIN": (
        lambda p: Twice(lambda: drift.ADWIN(delta=p)),
        [10.0**-k for k in np.arange(0.5, 12.0, 0.5)],
        NULL_ROWS,
    ),
    "Page-Hinkley": (
        lambda p: Twice(lambda: drift.PageHinkley(delta=0.1, threshold=p)),
        [float(p) for p in np.arange(4.0, 60.0, 2.0)],
        NULL_ROWS,
    ),
    "KSWIN": (
        lambda p: Twice(lambda: drift.KSWIN(alpha=p, seed=0)),
        [10.0**-k for k in np.arange(2.0, 9.0, 0.5)],
        NULL_ROWS // 10,
    ),
    "DDM": (
        lambda p: Once(lambda: drift.binary.DDM(drift_threshold=p)),
        [float(p) for p in np.arange(1.5, 8.0, 0.25)],
        NULL_ROWS,
    ),
}


def tuned(name: str, errors: np.ndarray, allowed: float) -> tuple[float, float | None]:
    """Return the most sensitive threshold with at most so many false alarms for each row, and how many it gave."""
    make, thresholds, rows = RIVALS[name]
    low, high = 0, len(thresholds) - 1
    found: dict[int, float] = {}
    while low < high:
        middle = (low + high) // 2
        detector = make(thresholds[middle])
        found[middle] = sum(detector.update(error) for error in errors[:rows].tolist()) / rows
        low, high = (low, middle) if found[middle] <= allowed else (middle + 1, high)
    return thresholds[low], found.get(low)


def delays() -> dict[str, Any]:
    """Tune all on the same rows without a change, then measure how long each takes to find one."""
    rng = np.random.default_rng(1)
    mean, error = SIGNAL * rng.normal(size=NULL_ROWS), rng.normal(size=NULL_ROWS)
    alarms = Alarms(["y"], rate=EQUAL_RATE)
    alarms.add(scores(mean + error, mean), np.arange(NULL_ROWS))
    allowed = alarms.count / NULL_ROWS
    thresholds = {name: tuned(name, error, allowed) for name in RIVALS}
    print("tuned", allowed, thresholds, flush=True)
    found: dict[str, dict[str, Any]] = {}
    early: dict[str, list[float]] = {}
    for change, after in changes(rng).items():
        each: dict[str, list[float]] = {}
        for repetition in range(REPETITIONS):
            rng = np.random.default_rng([2, repetition])
            mean, error = SIGNAL * rng.normal(size=BEFORE + AFTER), rng.normal(size=BEFORE + AFTER)
            y = np.concatenate([(mean + error)[:BEFORE], after(mean[BEFORE:], error[BEFORE:])])
            for label, rate in (("default", RATES[0]), ("equal", EQUAL_RATE)):
                rows = [a.row for a in Alarms(["y"], rate=rate).add(scores(y, mean), np.arange(len(y)))]
                each.setdefault(label, []).append(_delay(rows))
                early.setdefault(label, []).append(sum(row < BEFORE for row in rows) / BEFORE)
            for name, (make, _, _) in RIVALS.items():
                first = SLOW.get(name, 0)
                if first and repetition >= REPETITIONS // 2:
                    continue
                rows = [first + row for row in _first(make(thresholds[name][0]), (y - mean)[first:].tolist(), first)]
                each.setdefault(name, []).append(_delay(rows))
                early.setdefault(name, []).append(sum(row < BEFORE for row in rows) / (BEFORE - first))
        found[change] = {
            name: {
                "median": float(np.median(d)) if np.isfinite(np.median(d)) else None,
                "missed": float(np.mean(np.isinf(d))),
            }
            for name, d in each.items()
        }
        print(change, found[change], flush=True)
    return {
        "false_alarms_a_row": {"equal": allowed} | {name: got for name, (_, got) in thresholds.items()},
        "thresholds": {name: threshold for name, (threshold, _) in thresholds.items()},
        "false_alarms_a_row_before_a_change": {name: float(np.mean(n)) for name, n in early.items()},
        "delays": found,
    }


def _first(detector: Any, errors: list[float], first: int) -> list[int]:
    """Return where alarms are, up to the first after the change, among errors from row `first` on."""
    rows = []
    for i, error in enumerate(errors):
        if detector.update(error):
            rows.append(i)
            if first + i >= BEFORE:
                break
    return rows


def _delay(rows: list[int]) -> float:
    late = [row - BEFORE + 1 for row in rows if row >= BEFORE]
    return float(late[0]) if late else float("inf")


# Discoveries


def discoveries(repetitions: int = 5) -> list[dict[str, Any]]:
    """Apply e-BH to the e-values of many streams, a few of which change."""
    shares: dict[float, list[tuple[float, float]]] = {0.05: [], 0.1: [], 0.2: []}
    for repetition in range(repetitions):
        e_values = []
        for stream in range(STREAMS):
            rng = np.random.default_rng([3, repetition, stream])
            mean = SIGNAL * rng.normal(size=LENGTH)
            late = (np.arange(LENGTH) >= LENGTH // 2) & (stream < CHANGED)
            alarms = Alarms(["y"])
            alarms.add(scores(mean + rng.normal(size=LENGTH) + late, mean), np.arange(LENGTH))
            e_values.append(alarms.e_value)
        for rate, found in shares.items():
            rejected = e_bh(np.array(e_values), rate)
            false = float(rejected[CHANGED:].sum() / max(rejected.sum(), 1))
            found.append((false, float(rejected[:CHANGED].mean())))
    return [
        {"rate": rate, "false": float(np.mean([f for f, _ in found])), "found": float(np.mean([p for _, p in found]))}
        for rate, found in shares.items()
    ]


# Real data


def injected(data: Path) -> dict[str, Any]:
    """Run the command on hourly power, as it is and with a bias of 3 sd of the hourly changes and a stuck sensor."""
    frame = pl.read_parquet(data / "household_power_hourly.parquet").select("timestamp", "y").head(6_000)
    y = frame["y"].to_numpy().copy()
    biased = y.copy()
    biased[4_000:] += 3.0 * float(np.std(np.diff(y)))
    biased[5_000:5_100] = biased[5_000]
    found = {}
    for name, values in (("as it is", y), ("injected", biased)):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "power.csv"
            frame.with_columns(y=pl.Series(values)).write_csv(table)
            command = [sys.executable, "-m", "streamgp.app.cli", "run", str(table)]
            command += ["--target", "y", "--time", "timestamp", "--lags", "1,24", "--alarms", "--json", f"{folder}/m"]
            subprocess.run(command, check=True, capture_output=True)
            alarms = json.loads((Path(folder) / "m").read_text())["alarms"]
        found[name] = [{key: alarm[key] for key in ("kind", "row", "since", "sentence")} for alarm in alarms]
    return found


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
) -> None:
    """Measure what is not stored yet."""
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine()}
    parts: dict[str, Callable[[], Any]] = {
        "delays": delays,
        "discoveries": discoveries,
        "false": lambda: [false_alarms_of_numbers(rate) for rate in RATES],
        "false_model": false_alarms_of_a_model,
    }
    if data is not None:
        parts["injected"] = lambda: injected(data)
    for name, part in parts.items():
        if name not in stored:
            stored[name] = part()
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
            print(name, json.dumps(stored[name]), flush=True)


if __name__ == "__main__":
    typer.run(main)
