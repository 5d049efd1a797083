"""Accuracy for time: the preset e-doebe with more and fewer Fourier features.

``python -m benchmarks.accuracy.features --data DIR`` runs `evaluate` for every data set and number of features,
writes ``results/features.json``; ``python -m benchmarks.pages.features`` plots it. The default number was chosen from
it.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Fourier

RESULTS = RESULTS_DIR / "features.json"
SETS = ("elevators_ucids", "cadata", "kin40k", "schunk_arm")
FEATURES = (50, 100, 200, 400, 800)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    sets: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
) -> None:
    """Run what is missing."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sets.split(","):
        X, y = load(name, data)
        for features in FEATURES:
            key = str(features)
            if key in stored.setdefault(name, {}):
                continue
            Fourier.default_features = features
            model = StreamingGPRegressor("e-doebe", warmup=1_000, random_state=seed)
            began = time.perf_counter()
            evaluate(model, X[:1_000], y[:1_000], progress=False)
            middle = time.perf_counter()
            metrics = evaluate(model, X[1_000:], y[1_000:], progress=False).metrics
            seconds = {"warmup": middle - began, "stream": time.perf_counter() - middle}
            kept = {"nmse": metrics["nmse"], "pll": metrics["pll_standardised"], "seconds": seconds}
            stored[name][key] = kept | {"rows": len(y), "experts": len(model.experts_)}
            print(name, features, stored[name][key], flush=True)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
