"""Accuracy for time: the preset e-doebe with more and fewer Fourier features.

``python benchmarks/features.py --data DIR`` runs `evaluate` for every data set and number of features, writes
``results/features.json`` and plots it to docs/images/features.png. The default number was chosen from it.
"""

import json
import time
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import typer
from datasets import load
from matplotlib.ticker import NullFormatter, ScalarFormatter

from streamgp import StreamingGPRegressor, evaluate
from streamgp.bases import Fourier

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "features.json"
PICTURE = HERE.parent / "docs" / "images" / "features.png"
SETS = ("elevators_ucids", "cadata", "kin40k", "schunk_arm")
FEATURES = (50, 100, 200, 400, 800)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    sets: Annotated[str, typer.Option(help="Data sets, with commas.")] = ",".join(SETS),
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
) -> None:
    """Run what is missing, then plot."""
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
    plot(stored)


def plot(stored: dict) -> None:
    """PLL against microseconds a row, one line for each data set, points marked by the number of features."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=False)
    for name, runs in stored.items():
        order = sorted(runs, key=int)
        micro = [1e6 * runs[f]["seconds"]["stream"] / (runs[f]["rows"] - 1_000) for f in order]
        gain = [runs[f]["pll"] - runs["100"]["pll"] for f in order]
        for axis, x in zip(axes, ([int(f) for f in order], micro), strict=True):
            axis.plot(x, gain, "o-", label=name, markersize=4)
    axes[0].set_xlabel("Fourier features per basis")
    axes[1].set_xlabel("microseconds a row, all experts, compilation included")
    for axis in axes:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_ylabel("log density per row, relative to 100 features")
        axis.grid(alpha=0.3)
    axes[0].set_xticks(FEATURES)
    axes[1].set_xticks((150, 200, 300, 400, 600))
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    typer.run(main)
