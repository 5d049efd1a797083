"""Corrupted streams: what glitches, stuck values and sign flips in the targets cost the rows that are clean.

``python benchmarks/corrupted.py --data DIR`` runs the default model with and without ``robust`` over streams whose
targets after the warm-up are spoilt, and persistence on the same rows. It writes ``results/corrupted.json`` after
every run and goes on where it stopped. A model is fitted once for each set and seed: the warm-up is clean, so that
all corruptions of a set begin with the same one.
"""

import copy
import json
import os
import platform
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from datasets import load

from streamgp.learner import StreamLearner
from streamgp.presets import make_spec

RESULTS = Path(__file__).parent / "results" / "corrupted.json"
WARMUP, ROWS = 1_000, 5_000
SETS = ("sine", "elevators_ucids", "cpusmall", "cadata", "kin40k", "schunk_arm", "beijing_pm25")
# Kind and share of the rows after the warm-up.
CORRUPTIONS = (
    ("clean", 0.0),
    ("10 sd", 0.01),
    ("100 sd", 0.002),
    ("100 sd", 0.01),
    ("100 sd", 0.05),
    ("stuck", 0.05),
    ("sign flip", 0.05),
)


def stream(name: str, data: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A data set, or the generated sine."""
    if name != "sine":
        return load(name, data, ROWS)
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (ROWS, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=ROWS)


def corrupt(y: np.ndarray, kind: str, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets with that share of the rows after the warm-up spoilt, and which rows are clean."""
    rng = np.random.default_rng([seed, 1])
    mean, sd = y[:WARMUP].mean(), y[:WARMUP].std()
    spoilt = (rng.random(len(y)) < share) & (np.arange(len(y)) >= WARMUP)
    sign = rng.choice([-1.0, 1.0], len(y))
    values = {
        "clean": y,
        "10 sd": y + 10 * sd * sign,
        "100 sd": y + 100 * sd * sign,
        "stuck": np.full(len(y), mean - 3 * sd),
        "sign flip": 2 * mean - y,
    }
    return np.where(spoilt, values[kind], y), ~spoilt


def scores(learner: StreamLearner, X: np.ndarray, y: np.ndarray, given: np.ndarray, clean: np.ndarray) -> dict:
    """Scores of the clean rows after the warm-up, from a learner that has just been warmed up."""
    means, stds, pits, at = [], [], [], WARMUP
    for info in learner.learn(X[WARMUP:], given[WARMUP:, None]):
        p, n = info.predictive, len(info.predictive.loc)
        with jax.enable_x64(True):
            pits.append(np.asarray(p.cdf(y[at : at + n, None]))[:, 0])
        means.append(p.mean[:, 0])
        stds.append(p.std[:, 0])
        at += n
    rows = clean[WARMUP:]
    truth, (mean, std, pit) = y[WARMUP:], (np.concatenate(a)[rows] for a in (means, stds, pits))
    error = mean - truth[rows]
    persistence = np.roll(given, 1)[WARMUP:][rows] - truth[rows]
    return {
        "nmse": float(np.mean(error**2) / truth.var()),
        "nmse_persistence": float(np.mean(persistence**2) / truth.var()),
        "error_over_std": float(np.mean(error**2) / np.mean(std**2)),
        "coverage": {str(level): float(np.mean(np.abs(pit - 0.5) < level / 200)) for level in (50, 90, 95)},
        "flagged": learner.flagged_rows,
        "spoilt": int((~clean).sum()),
    }


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the table.")] = False,
) -> None:
    """Run, store and print a table."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": "", "runs": {}}
    stored["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    for seed in range(0 if table_only else seeds):
        for name in names.split(","):
            X, y = stream(name, data, seed)
            for robust in (True, False):
                runs = stored["runs"].setdefault(name, {}).setdefault("robust" if robust else "plain", {})
                left = [c for c in CORRUPTIONS if f"{c[0]} {c[1]:g} seed {seed}" not in runs]
                if not left:
                    continue
                fitted = StreamLearner(
                    make_spec("default", robust=robust), num_inputs=X.shape[1], warmup=WARMUP, seed=seed
                )
                list(fitted.learn(X[:WARMUP], y[:WARMUP, None]))
                for kind, share in left:
                    found = scores(copy.deepcopy(fitted), X, y, *corrupt(y, kind, share, seed))
                    runs[f"{kind} {share:g} seed {seed}"] = found
                    print(f"{name}, {'robust' if robust else 'plain'}, {kind} {share:g}: {found}", flush=True)
                    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    print_table(stored)


def print_table(stored: dict) -> None:
    """Print the nMSE of the clean rows, medians over seeds."""
    columns = [f"{kind} {share:g}" for kind, share in CORRUPTIONS]
    print("| data | | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 2) + "|")
    for name, models in stored["runs"].items():
        for model, runs in models.items():
            cells = []
            for column in columns:
                found = [run["nmse"] for key, run in runs.items() if key.startswith(f"{column} seed")]
                cells.append(f"{np.median(found):.3g}" if found else "")
            print(f"| {name} | {model} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    typer.run(main)
