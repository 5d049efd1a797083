"""A comparison of warm-up lengths: the default model, scored on the same later rows.

``python -m benchmarks.accuracy.warmup --data DIR`` writes ``results/warmup.json`` after every run and goes on where
it stopped; ``python -m benchmarks.pages.default`` renders the table.
"""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common.datasets import CHOOSING, load
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "warmup.json"
LENGTHS = (100, 200, 500, 1_000, 2_000)
LAST = 5_000  # rows of each set; those after the longest warm-up are scored


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(CHOOSING),
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 1,
) -> None:
    """Run each set with each length."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(seeds):
        for name in names.split(","):
            X, y = load(name, data, LAST)
            scored = slice(LENGTHS[-1], None)
            for length in LENGTHS:
                of = stored.setdefault(name, {}).setdefault(str(length), {})
                if str(seed) in of:
                    continue
                result = evaluate(StreamingGPRegressor(warmup=length, random_state=seed), X, y, progress=False)
                error = y[scored] - result.mean[scored]
                of[str(seed)] = {
                    "nmse": float(np.mean(error**2) / np.var(y[scored])),
                    "pll": float(np.mean(result.log_density[scored]) + np.log(np.std(y[scored]))),
                }
                print(name, seed, length, of[str(seed)], flush=True)
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
