"""The effect of lagged targets on streams that depend on their own past, beside persistence.

``python -m benchmarks.accuracy.lags --data DIR`` prints the table of ``docs/research/models.md``.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common.datasets import load
from streamgp import StreamingGPRegressor, evaluate


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    names: Annotated[str, typer.Option(help="Data sets, with commas.")] = "schunk_arm,beijing_pm25",
    lags: Annotated[str, typer.Option(help="Lags with commas; semicolons between the runs.")] = ";1;1,2",
    rows: Annotated[
        int, typer.Option(help="Rows from the start of each set; the first 1,000 are the warm-up.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    preset: Annotated[str, typer.Option("--model", help="Preset.")] = "default",
) -> None:
    """Run each set with each choice of lags."""
    print("| data | lags | nMSE | PLL | 95% band holds | nMSE of persistence |\n|---|---|---|---|---|---|")
    for name in names.split(","):
        X, y = load(name, data, rows)
        for choice in lags.split(";"):
            model = StreamingGPRegressor(
                preset, lags=[int(lag) for lag in choice.split(",") if lag], random_state=seed
            )
            scores = evaluate(model, X, y).metrics
            print(
                f"| {name} | {choice or 'none'} | {scores['nmse']:.4f} | {scores['pll_standardised']:.3f} "
                f"| {scores['coverage']['95']:.3f} | {scores['naive']['persistence']['nmse']:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
