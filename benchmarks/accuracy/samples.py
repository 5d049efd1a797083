"""The gain of samples of the hyperparameters over an ensemble of optima.

``python -m benchmarks.accuracy.samples --data DIR`` runs DOEBE with Fourier and Hilbert bases of 100 features and 1,
5 and 10 experts for each optimum, on the same frequencies; it keeps the scores in ``results/samples.json`` (started
again, it goes on where it stopped) and prints the table of ``docs/research/models.md``.
"""

from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer

from benchmarks.common.paired import cell, compare
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "samples.json"
COUNTS = (1, 5, 10)


def gain(runs: dict[str, Any], count: int) -> str:
    """Return PLL above that of the optima alone, seed by seed."""
    pairs = [(runs[str(count)][seed], alone) for seed, alone in runs["1"].items()]
    gains = [more["pll_standardised"] - alone["pll_standardised"] for more, alone in pairs]
    return f"{mean(gains):+.3f}" + (f" ± {stdev(gains):.3f}" if len(gains) > 1 else "")


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = "elevators_ucids,schunk_arm,cadata",
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 3,
    rows: Annotated[int, typer.Option(help="Rows from the start of each set.")] = 5_000,
) -> None:
    """Run what is missing, then print the table."""
    shared = {"model": "doebe", "bases": ["fourier", "hilbert"], "features_per_basis": 100}
    models = {str(count): shared | {"n_samples": count} for count in COUNTS}
    runs = compare(RESULTS, names.split(","), seeds, models, rows=rows, warmup=1_000, data=data)
    print("| data | n_samples | nMSE | PLL | PLL gained |\n|---|---|---|---|---|")
    for name in names.split(","):
        for count in COUNTS:
            of = runs[name][str(count)]
            gained = gain(runs[name], count) if count > 1 else ""
            print(f"| {name} | {count} | {cell(of, 'nmse', 4)} | {cell(of, 'pll_standardised', 3)} | {gained} |")


if __name__ == "__main__":
    typer.run(main)
