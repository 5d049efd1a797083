"""Fourier features with drawn and with trained frequencies; radial networks with fixed and with moved centres.

``python -m benchmarks.accuracy.optimised --data DIR`` runs E-DOEBE with one such family of 100 features each, and
with 400 drawn ones; it keeps the scores in ``results/optimised.json`` (started again, it goes on where it stopped)
and prints the table of ``docs/research/models.md``.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common.paired import cell, compare
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "optimised.json"
FAMILIES = ("fourier", "fourier-optimised", "rbf", "rbf-optimised")


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[
        str, typer.Option(help="Data sets, with commas.")
    ] = "kin40k,elevators_ucids,friedman1,schunk_arm",
    seeds: Annotated[int, typer.Option(help="Seeds, from 0.")] = 2,
) -> None:
    """Run what is missing, then print the table."""
    models = {family: {"model": "e-doebe", "bases": [family], "features_per_basis": 100} for family in FAMILIES}
    models["fourier, 400 features"] = models["fourier"] | {"features_per_basis": 400}
    runs = compare(RESULTS, names.split(","), seeds, models, rows=5_000, warmup=1_000, data=data)
    print("| data | basis | evidence above noise alone | nMSE | PLL |\n|---|---|---|---|---|")
    for name in names.split(","):
        for family, of in runs[name].items():
            scores = f"{cell(of, 'nmse', 4)} | {cell(of, 'pll_standardised', 3)}"
            print(f"| {name} | {family} | {cell(of, 'evidence_gain', 2)} | {scores} |")


if __name__ == "__main__":
    typer.run(main)
