"""The default model's forecasts several rows ahead, beside persistence of the same horizon.

``python -m benchmarks.accuracy.horizon --data DIR`` prints the table of ``docs/research/models.md``.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common.datasets import load
from streamgp import StreamingGPRegressor, evaluate


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    runs: Annotated[
        str, typer.Option(help="Data sets with their horizons: NAME:H,H,... with semicolons between the sets.")
    ] = "beijing_pm25:1,6,24;schunk_arm:1,10",
    lags: Annotated[str, typer.Option(help="Lags with commas.")] = "1,2",
    rows: Annotated[
        int, typer.Option(help="Rows from the start of each set; the first 1,000 are the warm-up.")
    ] = 6000,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    preset: Annotated[str, typer.Option("--model", help="Preset.")] = "default",
) -> None:
    """Run each set at each horizon."""
    titles = ("data", "rows ahead", "nMSE", "PLL", "90% band holds", "nMSE of persistence", "of the running mean")
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for run in runs.split(";"):
        name, _, horizons = run.partition(":")
        X, y = load(name, data, rows)
        for horizon in map(int, horizons.split(",")):
            model = StreamingGPRegressor(
                preset, lags=list(map(int, lags.split(","))), horizon=horizon, random_state=seed
            )
            scores = evaluate(model, X, y).metrics
            naive = scores["naive"]
            print(
                f"| {name} | {horizon} | {scores['nmse']:.4f} | {scores['pll_standardised']:.3f} "
                f"| {scores['coverage']['90']:.3f} | {naive['persistence']['nmse']:.4f} "
                f"| {naive['running_mean']['nmse']:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
