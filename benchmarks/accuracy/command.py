"""`streamgp run` on real data: the default model, E-DOEBE and its members.

``python -m benchmarks.accuracy.command --data DIR`` runs the command once for every data set, preset and seed, as a
process of its own, and writes ``results/streamgp.json`` after every run (started again, it goes on where it stopped).
``python -m benchmarks.pages.results`` renders docs/research/results.md.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from benchmarks.common.datasets import load
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "streamgp.json"
SETS = (
    "elevators_ucids",
    "cadata",
    "cpusmall",
    "kin40k",
    "schunk_arm",
    "beijing_pm25",
    "sml2010_stream",
    "naval",
    "friedman1",
)
SEEDS = (0, 1, 2, 3, 4)
MEMBER_SEEDS = 3
WARMUP = 1_000
_PAIR = ("--dynamics", "static,walk 0.001", "--bases")
# E-DOEBE of two families beside its members: each family alone, static or moving.
MEMBERS = {
    "e-doebe (fourier + hilbert)": ("--model", "e-doebe", *_PAIR, "fourier,hilbert"),
    "oebe (fourier)": ("--model", "oebe", "--bases", "fourier"),
    "doebe (fourier)": ("--model", "doebe", "--bases", "fourier"),
    "oebe (hilbert)": ("--model", "oebe", "--bases", "hilbert"),
    "doebe (hilbert)": ("--model", "doebe", "--bases", "hilbert"),
}
PAPER = "e-doebe of the paper"
# Waxman and Djuric (2024), Fig. 4: three families, static and moving, from the prior.
_PAPER = ("--model", "e-doebe", "--bases", "hilbert,fourier,rbf", "--features-per-basis", "100", "--share", "0")
_PAPER = (*_PAPER, "--dynamics", "static,walk 0.001", "--paper")
MODELS = {"default": (), PAPER: _PAPER} | MEMBERS
KEPT = ("lags", "nmse", "rmse", "mae", "pll_standardised", "pll_moment_standardised", "crps", "coverage", "seconds")


def one_run(name: str, options: tuple[str, ...], seed: int, data: Path | None) -> dict[str, Any]:
    """Run `streamgp run` in a process and return what the table needs of its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = load(name, data)
        table = pl.from_numpy(X, schema=[f"x{i}" for i in range(X.shape[1])]).with_columns(y=pl.Series(y))
        path = Path(folder) / f"{name}.parquet"
        table.write_parquet(path)
        lags = ("--lags", "none") if options else ()  # the default chooses them
        command = ["run", str(path), "--target", "y", "--warmup", str(WARMUP), "--seed", str(seed), *lags, *options]
        done = subprocess.run(
            [sys.executable, "-m", "streamgp.app.cli", *command, "--json", "-"],
            stdout=subprocess.PIPE,
            # Where time is reported, compilation counts every time.
            env=os.environ | ({} if options else {"STREAMGP_CACHE": "off"}),
            check=True,
            text=True,
        )
    metrics = json.loads(done.stdout)
    kept = {key: metrics[key] for key in (*KEPT, "rows_per_second")}
    return kept | {"experts": len(metrics["experts"]), "rows": metrics["rows"]}


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    only: Annotated[str | None, typer.Option(help="Data sets, with commas.")] = None,
    models: Annotated[str | None, typer.Option(help="Rows of MODELS, with semicolons.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = len(SEEDS),
) -> None:
    """Run what is missing."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
    stored["machine"] = stored.get("machine") or f"{os.cpu_count()} cores, {platform.machine()}"
    names = only.split(",") if only else list(SETS)
    for seed in range(seeds):
        for name in names:
            for model in models.split(";") if models else MODELS:
                of = stored["runs"].setdefault(name, {}).setdefault(model, [])
                if seed < len(of) or (model != "default" and seed >= MEMBER_SEEDS):
                    continue
                of.append(one_run(name, MODELS[model], seed, data) | {"seed": seed})
                print(
                    name,
                    model,
                    seed,
                    of[-1]["nmse"],
                    of[-1]["pll_standardised"],
                    of[-1]["seconds"]["total"],
                    flush=True,
                )
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
