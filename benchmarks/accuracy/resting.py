"""The cost in accuracy and the saved work of resting filters, on real streams with the default model.

``python -m benchmarks.accuracy.resting --data DIR --out benchmarks/results/resting.json``

One more stream changes back and forth between two functions every 2,000 rows. The share of the work is that of the
filters' multiplications, 4 F^2 + 192 F a row for F features, over all rows after the warm-up.
"""

import json
import time
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import typer

from benchmarks.common.datasets import NAMES, load
from benchmarks.common.machine import machine
from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.gaussian import resting

REGIMES = "regimes"


def regimes(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two functions by turns."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 4))
    one = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    other = 0.7 * X[:, 2] - np.sin(2.0 * X[:, 1])
    return X, np.where(np.arange(rows) // 2_000 % 2, other, one) + 0.1 * rng.normal(size=rows)


def run(X: np.ndarray, y: np.ndarray, rest: bool, seed: int) -> dict[str, Any]:
    """Return scores of a run, and the share of its filters, and of their work, that was done."""
    work = np.zeros(2)
    decided = resting.Resting.decided

    def counted(state: resting.Resting, features: np.ndarray, at: int) -> resting.Resting:
        cost = (4.0 * features**2 + 192.0 * features) * float(state.rows)
        work[:] += cost[~np.asarray(state.asleep)].sum(), cost.sum()
        return decided(state, features, at)

    model = StreamingGPRegressor(rest=rest, random_state=seed)
    began = time.process_time()
    with patch.object(resting.Resting, "decided", counted):
        metrics = evaluate(model, X, y, progress=False).metrics
    share = float(work[0] / work[1]) if work[1] else 1.0
    return {"nmse": metrics["nmse"], "pll": metrics["pll"], "work": share, "cpu_seconds": time.process_time() - began}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join((*NAMES, REGIMES)),
    rows: Annotated[int, typer.Option(help="Rows of each at most.")] = 16_000,
    seed: Annotated[int, typer.Option(help="Seed of the fits.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A JSON file; what is there of other sets stays.")] = None,
) -> None:
    """Run the default twice on every set, and compare."""
    stored = json.loads(out.read_text()) if out and out.exists() else {"sets": {}}
    stored["machine"] = machine()
    for name in names.split(","):
        X, y = regimes(rows) if name == REGIMES else load(name, data, rows)
        on, off = (run(X, y, rest, seed) for rest in (True, False))
        stored["sets"][name] = {"rows": len(X), "resting": on, "all": off}
        print(
            f"{name}: nMSE {on['nmse']:.5g} ({on['nmse'] / off['nmse'] - 1.0:+.2%}), log density {on['pll']:.4f} "
            f"({on['pll'] - off['pll']:+.4f}), work {on['work']:.0%}",
            flush=True,
        )
        if out:
            out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
