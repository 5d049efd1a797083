"""What a whole run costs: the command on three files, in processes of their own, with nothing compiled beforehand.

``python -m benchmarks.speed.whole_run`` writes ``results/whole_run.json``: seconds of the processor over all threads,
seconds by the clock, and the largest memory, imports included; medians over the runs. Modules are there as bytecode,
as in an installation. ``--before FOLDER`` runs the version whose source is in there by turns with this one. Baselines
predict and learn the same rows: LightGBM, refitted to all rows every 500, and river's adaptive forest and linear
model. They are written out here, since `benchmarks.common.baselines` imports more than a process whose imports are
timed needs.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.measure import spread
from benchmarks.common.paths import RESULTS_DIR, ROOT

# Rows and inputs: as the demo's file, a long one, and a short one with many inputs.
FILES = {"8,028 x 9": (8_028, 9), "2,000 x 60": (2_000, 60), "100,000 x 20": (100_000, 20)}
LONG = "100,000 x 20"  # run once, by this version alone
PRESETS = ("linear", "fast", "default")
BASELINES = ("lightgbm", "river forest", "river linear")
WARMUP, REFIT = 1_000, 500


def stream(rows: int, inputs: int) -> np.ndarray:
    """Return a stream whose function drifts, with its target in the last column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, inputs))
    drift = np.arange(rows) / rows
    y = np.sin(X[:, 0] * (1.0 + drift)) + (1.0 - drift) * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=rows)
    return np.column_stack([X, y])


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run a process, and return what it took."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)}: {said[-2_000:]}")
    clock = time.perf_counter() - began
    return {"processor": used.ru_utime + used.ru_stime, "clock": clock, "MB": used.ru_maxrss / 1024.0}


def baseline(name: str, path: Path) -> None:
    """Predict and learn the rows of a file by another library's model, here."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    if name == "lightgbm":
        _refitted(X, y)
        return
    from river import forest, linear_model, preprocessing

    model: Any = forest.ARFRegressor(seed=0) if name == "river forest" else linear_model.BayesianLinearRegression()
    model = preprocessing.StandardScaler() | model
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        row = dict(enumerate(x))
        model.predict_one(row)
        model.learn_one(row, target)


def _refitted(X: np.ndarray, y: np.ndarray) -> None:
    """Refit boosted trees to all rows every `REFIT`."""
    from lightgbm import LGBMRegressor

    for at in range(WARMUP, len(y), REFIT):
        model = LGBMRegressor(n_jobs=1, verbose=-1, random_state=0).fit(X[:at], y[:at])
        model.predict(X[at : at + REFIT])


def main(
    runs: Annotated[int, typer.Option(min=1, help="Processes of each kind.")] = 5,
    before: Annotated[Path | None, typer.Option(help="The folder src of an earlier version, run by turns.")] = None,
    file: Annotated[list[str] | None, typer.Option(help="Some of the files, by name; all by default.")] = None,
    baselines: Annotated[bool, typer.Option(help="Run other libraries, too.")] = True,
    only: Annotated[tuple[str, Path] | None, typer.Option(help="Run this baseline on a file here.")] = None,
) -> None:
    """Measure, keep and print."""
    if only is not None:
        baseline(*only)
        return
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    versions = {"": ROOT / "src"} | ({} if before is None else {", before": before})
    with TemporaryDirectory() as folder:
        for name in file or FILES:
            path = Path(folder) / "rows.csv"
            table = stream(*FILES[name])
            header = ",".join([*(f"x{i}" for i in range(table.shape[1] - 1)), "y"])
            np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.9g")
            is_long = name == LONG
            for run in range(1 if is_long else runs):
                commands: dict[str, tuple[list[str], Path]] = {}
                for preset in PRESETS:
                    for version, source in list(versions.items())[: 1 if is_long else None]:
                        words = ["-m", "streamgp.app.cli", "run", str(path), "--target", "y", "--model", preset]
                        out = ["--out", f"{folder}/{name}-{run}-{preset}{version}"]
                        commands[preset + version] = ([sys.executable, "-W", "ignore", *words, *out], source)
                for other in BASELINES if baselines and not is_long else ():
                    words = ["-m", "benchmarks.speed.whole_run", "--only", other, str(path)]
                    commands[other] = ([sys.executable, "-W", "ignore", *words], ROOT / "src")
                for kind, (command, source) in commands.items():
                    environment = os.environ | {"PYTHONPATH": f"{source}:{ROOT}", "STREAMGP_CACHE": "off"}
                    environment.pop("PYTHONDONTWRITEBYTECODE", None)
                    for measure, value in measured(command, environment).items():
                        found.setdefault(name, {}).setdefault(kind, {}).setdefault(measure, []).append(value)
                    if kind not in BASELINES:
                        assert (Path(folder) / f"{name}-{run}-{kind}" / "predictions.parquet").exists(), kind
    spreads = {
        name: {
            kind: {measure: spread(each) for measure, each in measures.items()} for kind, measures in kinds.items()
        }
        for name, kinds in found.items()
    }
    from benchmarks.common.machine import machine

    (RESULTS_DIR / "whole_run.json").write_text(
        json.dumps({"machine": machine(), "runs": runs, "files": spreads}, indent=1) + "\n"
    )
    for name, kinds in spreads.items():
        for kind, measures in kinds.items():
            print(f"{name}, {kind}: " + ", ".join(f"{m} {each['median']:.1f}" for m, each in measures.items()))


if __name__ == "__main__":
    typer.run(main)
