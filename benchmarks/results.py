"""The table of docs/results.md: `streamgp run` on real data, beside what a user would run instead.

``python benchmarks/results.py --data DIR`` runs the command once for every data set, preset and seed, as a process of
its own, and writes ``results/streamgp.json`` after every run (started again, it goes on where it stopped).
``python benchmarks/results.py --page`` renders docs/results.md from that file and ``results/baselines.json``.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import polars as pl
import typer
from datasets import load

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "streamgp.json"
BASELINES = HERE / "results" / "baselines.json"
PAGE = HERE.parent / "docs" / "results.md"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
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
LAGGED = {"schunk_arm": (0.075, 0.55), "beijing_pm25": (0.075, 0.18)}  # with the aims for them
SEEDS = (0, 1, 2, 3, 4)
MEMBER_SEEDS = 3
WARMUP = 1_000
# What the design asked of the default model: nMSE at most, mixture log density at least.
TARGETS = {
    "elevators_ucids": (0.155, -0.575),
    "cadata": (0.132, -0.36),
    "cpusmall": (0.026, 0.44),
    "kin40k": (0.21, -0.63),
    "schunk_arm": (0.11, 0.25),
    "beijing_pm25": (0.105, 0.0),
    "sml2010_stream": (0.0002, 3.2),
    "naval": (0.001, 2.3),
    "friedman1": (0.003, 2.3),
}
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
_PAPER = (*_PAPER, "--dynamics", "static,walk 0.001", "--q-absolute", "--warmup-posterior", "prior")
WITH_LAG = "default, lags 1"
MODELS = {"default": (), WITH_LAG: ("--lags", "1"), PAPER: _PAPER} | MEMBERS
KEPT = ("nmse", "rmse", "mae", "pll_standardised", "pll_moment_standardised", "crps", "coverage", "seconds")


def one_run(name: str, options: tuple[str, ...], seed: int, data: Path | None) -> dict[str, Any]:
    """One process of `streamgp run`; what the table needs of its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = load(name, data)
        table = pl.from_numpy(X, schema=[f"x{i}" for i in range(X.shape[1])]).with_columns(y=pl.Series(y))
        path = Path(folder) / f"{name}.parquet"
        table.write_parquet(path)
        command = ["run", str(path), "--target", "y", "--warmup", str(WARMUP), "--seed", str(seed), *options]
        done = subprocess.run(
            [sys.executable, "-m", "streamgp.app.cli", *command, "--json", "-"],
            stdout=subprocess.PIPE,
            # Where time is reported, compilation counts every time.
            env=os.environ | ({} if options else {"XDG_CACHE_HOME": str(Path(folder) / "cold")}),
            check=True,
            text=True,
        )
    metrics = json.loads(done.stdout)
    kept = {key: metrics[key] for key in (*KEPT, "rows_per_second")}
    return kept | {"experts": len(metrics["experts"]), "rows": metrics["rows"]}


def summary(runs: list[dict[str, Any]], *keys: str) -> str:
    """Median over seeds, with the range where it differs in what is printed."""
    values = []
    for run in runs:
        value: Any = run
        for key in keys:
            value = value[key]
        values.append(value)
    middle, low, high = (
        f"{v:.3f}" if abs(v) < 10 else f"{v:.0f}" for v in (median(values), min(values), max(values))
    )
    if abs(median(values)) < 0.01:
        middle, low, high = (f"{v:.2g}" for v in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def page(stored: dict[str, Any]) -> str:
    """docs/results.md."""
    runs, baselines = stored["runs"], json.loads(BASELINES.read_text())["summary"]
    lines = [
        "# Results",
        "",
        "Every row is predicted before its target is seen. Warm-up 1,000 rows; the rows after it are scored.",
        "nMSE is the mean squared error over the variance of the scored targets; PLL the mean log predictive",
        "density of the target in units of the warm-up's standard deviation: of the mixture, and (moment) of one",
        "Gaussian with the mixture's mean and variance. Medians over seeds from 0, with the range in brackets.",
        "Rows in the order of the file: the first 10,000 of longer sets.",
        "",
        "```",
        "python benchmarks/results.py --data DIR     # the runs: streamgp run FILE --target y --warmup 1000 --seed S",
        "OMP_NUM_THREADS=1 python benchmarks/baselines.py --data DIR",
        "python benchmarks/results.py --page         # this page",
        "```",
        "",
        f"Machine: {stored['machine']}. Seconds are those of the whole run, compilation included.",
        "",
        "## The default model",
        "",
        "| data | seeds | nMSE | aim | PLL | aim | moment PLL | CRPS | 50 / 90 / 95% bands hold "
        "| experts | seconds | of them warm-up | rows a second |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [(name, "default", TARGETS[name]) for name in SETS] + [(n, WITH_LAG, aim) for n, aim in LAGGED.items()]
    for name, model, aim in rows:
        of = runs.get(name, {}).get(model, [])
        if not of:
            continue
        bands = " / ".join(summary(of, "coverage", level) for level in ("50", "90", "95"))
        title = name if model == "default" else f"{name}, --lags 1"
        lines.append(
            f"| {title} | {len(of)} "
            f"| {summary(of, 'nmse')} | {aim[0]} | {summary(of, 'pll_standardised')} | {aim[1]} "
            f"| {summary(of, 'pll_moment_standardised')} | {summary(of, 'crps')} | {bands} "
            f"| {summary(of, 'experts')} | {summary(of, 'seconds', 'total')} | {summary(of, 'seconds', 'warmup')} "
            f"| {summary(of, 'rows_per_second')} |"
        )
    lines += [
        "",
        "CRPS is in units of the target. Rows a second: after the warm-up, compilation included.",
        "",
        "## Beside what a user would run instead",
        "",
        "nMSE on the same rows (median; lower is better). HistGradientBoosting is refitted on everything seen every",
        "500 rows; river's models learn row by row; all with their default settings. E-DOEBE as in Waxman and Djuric",
        "(2024), Fig. 4: Hilbert-space, Fourier and radial bases of 100 features, static and moving, from the prior.",
        "",
        "| data | streamgp | persistence | running mean | river Bayesian linear | river linear (SGD) | river ARF "
        "| HistGradientBoosting | E-DOEBE (PLL) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = runs.get(name, {}).get("default", [])
        if of:
            keys = (
                "persistence",
                "running_mean",
                "river_bayesian_linear",
                "river_linear",
                "river_arf",
                "boosting_refitted",
            )
            scores = baselines.get(name, {})
            rivals = [_rival(scores[key]["nmse"]["median"]) if key in scores else "not run" for key in keys]
            paper = runs[name].get(PAPER, [])
            rivals.append(f"{summary(paper, 'nmse')} ({_middle(paper, 'pll_standardised')})" if paper else "")
            lines.append(f"| {name} | {summary(of, 'nmse')} | {' | '.join(rivals)} |")
    lines += [
        "",
        "## E-DOEBE and its member families",
        "",
        "PLL (mixture) of E-DOEBE over Fourier and Hilbert-space bases, static and q = 1e-3, beside each family",
        "alone; the last column is E-DOEBE minus the best of the four.",
        "",
        "| data | E-DOEBE | Fourier, static | Fourier, q = 1e-3 | Hilbert, static | Hilbert, q = 1e-3 | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = [runs.get(name, {}).get(member, []) for member in MEMBERS]
        if all(of):
            middle = [median(run["pll_standardised"] for run in member) for member in of]
            cells = " | ".join(summary(member, "pll_standardised") for member in of)
            lines.append(f"| {name} | {cells} | {middle[0] - max(middle[1:]):+.3f} |")
    notes = HERE / "results" / "notes.md"
    if notes.exists():
        lines += ["", notes.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def readme_table(stored: dict[str, Any]) -> str:
    """The short table of the README: the default model beside the strongest of what a user would run instead."""
    baselines = json.loads(BASELINES.read_text())["summary"]
    lines = [
        "| data | nMSE | log density | 95% bands hold | nMSE: last value again | river, best of 3 "
        "| boosted trees, refitted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        of = stored["runs"].get(name, {}).get("default", [])
        if of and "river_arf" in baselines.get(name, {}):
            rivals = {key: scores["nmse"]["median"] for key, scores in baselines[name].items()}
            river = min(value for key, value in rivals.items() if key.startswith("river"))
            cells = (_rival(rivals["persistence"]), _rival(river), _rival(rivals["boosting_refitted"]))
            ours = (_middle(of, "nmse"), _middle(of, "pll_standardised"), _middle(of, "coverage", "95"))
            lines.append(f"| {name} | {' | '.join(ours)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _middle(runs: list[dict[str, Any]], *keys: str) -> str:
    return summary(runs, *keys).split(" (")[0]


def _rival(value: float) -> str:
    if value > 100:
        return "diverges"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    only: Annotated[str | None, typer.Option(help="Data sets, with commas.")] = None,
    models: Annotated[str | None, typer.Option(help="Rows of MODELS, with semicolons.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = len(SEEDS),
    page_only: Annotated[bool, typer.Option("--page", help="Only render docs/results.md.")] = False,
) -> None:
    """Run what is missing, then render the page."""
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}
    stored["machine"] = stored.get("machine") or f"{os.cpu_count()} cores, {platform.machine()}"
    names = [] if page_only else only.split(",") if only else list(SETS)
    for seed in range(seeds):
        for name in names:
            for model in models.split(";") if models else MODELS:
                of = stored["runs"].setdefault(name, {}).setdefault(model, [])
                few = model not in ("default", WITH_LAG) and seed >= MEMBER_SEEDS
                if seed < len(of) or few or (model == WITH_LAG and name not in LAGGED):
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
    PAGE.write_text(page(stored))
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(f"{before}{BEGIN}\n{readme_table(stored)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    typer.run(main)
