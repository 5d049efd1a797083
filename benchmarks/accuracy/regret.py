"""Regret on the synthetic streams of Lu, Karanikolas and Giannakis (2022, App. A), beside what theory says.

``python -m benchmarks.accuracy.regret`` runs what is missing from ``results/regret.json``;
``python -m benchmarks.pages.regret`` draws the picture of ``docs/research/regret.md`` and prints its tables.
"""

import json
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.paths import RESULTS_DIR
from streamgp.research.regret.checks import static_growth, switching_growth

RESULTS = RESULTS_DIR / "regret.json"
STATIC_LENGTHS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SWITCHING_LENGTHS = (50, 100, 200, 500, 1_000, 2_000)
FREQUENCIES = (50, 400)


def main(seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 10) -> None:
    """Run what is missing."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for n in FREQUENCIES:
        # With many features a stream of moderate length, the only one that can be compared with kernels, must do.
        lengths = [T for T in STATIC_LENGTHS if n == FREQUENCIES[0] or T <= 2_000]
        for seed in range(seeds if n == FREQUENCIES[0] else min(seeds, 3)):
            run = {"static": (static_growth, lengths), "switching": (switching_growth, SWITCHING_LENGTHS)}
            for name, (grow, at) in run.items():
                found = stored.setdefault(name, {}).setdefault(str(n), {})
                if str(seed) not in found:
                    found[str(seed)] = [point._asdict() for point in grow(seed, at, n)]
                    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
                    print(name, n, seed, flush=True)
    stored["slopes"] = {n: slopes(list(runs.values())) for n, runs in stored["static"].items()}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


def slopes(runs: list[list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Fit nats for each factor e of rows by least squares over points from 200 rows on; median and range of seeds."""
    found = {}
    for name in ("to_basis", "to_kernel", "bound"):
        each = []
        for run in runs:
            points = [(p["rows"], p[name]) for p in run if p["rows"] >= 200 and p[name] is not None]
            T, regret = map(np.array, zip(*points, strict=True))
            each.append(float(np.polyfit(np.log(T), regret, 1)[0]))
        found[name] = {"median": float(np.median(each)), "min": min(each), "max": max(each)}
    return found


if __name__ == "__main__":
    typer.run(main)
