"""Calibration of the default on clean streams: interval coverage, what the standard deviation means, accuracy.

``python -m benchmarks.accuracy.calibration --data DIR`` runs the default on the sixteen sets of
docs/research/default.md, writes ``results/calibration.json`` after every run and goes on where it stopped. Beside
each set stand nMSE and log density of the default as it was chosen (``results/default.json``), which had no guard
against glitches and did not recalibrate itself. ``--table`` prints the tables of docs/research/robustness.md.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer

from benchmarks.common.datasets import TABLES, load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

RESULTS, BEFORE = RESULTS_DIR / "calibration.json", RESULTS_DIR / "default.json"
WARMUP, ROWS, FIRST = 1_000, 10_000, 50
LEVELS = (50, 90, 95)


def run(X: np.ndarray, y: np.ndarray, seed: int) -> dict:
    """Return scores of the rows after the warm-up, and the bands of those in it."""
    learner = StreamLearner(StreamSettings(make_spec("default"), num_inputs=X.shape[1], warmup=WARMUP, seed=seed))
    parts, at, seconds = [], 0, []
    for rows in (slice(0, WARMUP), slice(WARMUP, None)):
        began = time.perf_counter()
        infos = list(learner.learn(X[rows], y[rows, None]))
        seconds.append(time.perf_counter() - began)
        for info in infos:
            p, n = info.predictive, len(info.predictive.loc)
            target = y[at : at + n, None]
            with jax.enable_x64(True):
                parts.append((p.mean[:, 0], p.std[:, 0], p.cdf(target)[:, 0], p.log_density(target)))
            at += n
    mean, std, pit, log_density = (np.concatenate(each) for each in zip(*parts, strict=True))
    error, late = mean - y, slice(WARMUP, None)
    z2 = np.square(error[late] / std[late])
    return {
        "nmse": float(np.mean(error[late] ** 2) / y[late].var()),
        "pll": float(log_density[late].mean() + np.log(y[:WARMUP].std())),
        "coverage": _held(pit[late]),
        "coverage_warmup": _held(pit[FIRST:WARMUP]),
        "error_over_std": float(z2.mean()),
        "error_over_std_without_0.5%": float(np.sort(z2)[: int(0.995 * len(z2))].mean()),
        "flagged": learner.state.flagged_rows,
        "seconds": {"warmup": seconds[0], "stream": seconds[1]},
    }


def _held(pit: np.ndarray) -> dict[str, float]:
    return {str(level): float(np.mean(np.abs(pit - 0.5) < level / 200)) for level in LEVELS}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(TABLES),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 5,
    out: Annotated[Path, typer.Option(help="Where the results are kept.")] = RESULTS,
    table_only: Annotated[bool, typer.Option("--table", help="Only print the tables.")] = False,
) -> None:
    """Run, store and print the tables."""
    stored = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    for seed in range(0 if table_only else seeds):
        for name in names.split(","):
            runs = stored["runs"].setdefault(name, {})
            if str(seed) in runs:
                continue
            runs[str(seed)] = run(*load(name, data, ROWS), seed)
            print(name, seed, runs[str(seed)], flush=True)
            out.write_text(json.dumps(stored, indent=1) + "\n")
    print_table(stored["runs"])


def print_table(runs: dict) -> None:
    """Print medians over the seeds."""
    before = json.loads(BEFORE.read_text())["runs"]
    print(
        "| data | seeds | nMSE (before) | PLL (before) | coverage of 50 / 90 / 95% intervals | in the warm-up "
        "| (error/std)^2 |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, seeds in runs.items():
        each = list(seeds.values())
        old = [before[name][seed]["default"] for seed in seeds]

        def median(*path: str, among: list[dict] = each) -> float:
            found = among
            for key in path:
                found = [one[key] for one in found]
            return float(np.median(found))

        bands, warm = (
            " / ".join(f"{100 * median(kind, str(level)):.1f}" for level in LEVELS)
            for kind in ("coverage", "coverage_warmup")
        )
        print(
            f"| {name} | {len(each)} | {median('nmse'):.3g} ({median('nmse', among=old):.3g}) "
            f"| {median('pll'):.3f} ({median('pll', among=old):.3f}) | {bands} | {warm} "
            f"| {median('error_over_std'):.2f} |"
        )


if __name__ == "__main__":
    typer.run(main)
