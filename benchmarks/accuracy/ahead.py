"""Forecasts of the next 24 rows beside statsforecast's automatic models and a seasonal naive one: `forecast` at work.

``python -m benchmarks.accuracy.ahead --data DIR`` needs the package statsforecast (extra ``benchmarks``) and
writes ``results/ahead.json`` after every run, and goes on where it stopped. Each set is run on five stretches of
it, evenly spaced, which overlap where it is short; of the simulated one with five seeds. After the first 1,000 rows
of a stretch every model forecasts 24 rows, learns them, forecasts the next 24, and so on; none is given the
inputs of rows to come, and statsforecast's get none at all. Each draws 300 paths of all 24 steps, by which all are
scored: coverage of the central 80 and 95%, CRPS of every step, energy score of the path. AutoARIMA and AutoETS are
chosen and fitted anew at every origin, to the last `WINDOW` rows, AutoARIMA with its ``approximation``: a fit
without takes up to a minute; once more with the calendar as regressors in place of a season (harmonic regression).
The naive model repeats the last season; its paths are that and the errors that it has made so far. What is called a
calendar is where a row stands in the season, as sines and cosines, which is known of rows to come. Models with a
horizon of 1, 6 and 24 rows are scored on those steps, on the first stretch.
"""

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float

from benchmarks.common.autoets import REFIT
from benchmarks.common.datasets import load
from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR
from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.metrics import crps_ensemble, energy_score

RESULTS = RESULTS_DIR / "ahead.json"
WARMUP, STEPS, PATHS = 1_000, REFIT, 300
WINDOW = 480  # rows that statsforecast's models are fitted to: twenty seasons
# Rows in a season; of sml2010_stream that is a day of quarters of an hour, longer than AutoETS takes (24) and than
# AutoARIMA can in any time: both run without one there.
SEASONS = {"household_power_hourly": 24, "beijing_pm25": 24, "sml2010_stream": 96, "seasonal": 24}
LONGEST = 24
DIRECT = (1, 6, 24)  # steps for which there is a model with that horizon
SEEDS = 5  # stretches of a set, or simulations
MODELS = (
    "streamgp",
    "streamgp, lags alone",
    "streamgp, calendar",
    "seasonal naive",
    "AutoETS",
    "AutoARIMA",
    "AutoARIMA, calendar",
    "streamgp, direct",
    "streamgp, direct, calendar",
)

Paths = Float[np.ndarray, "p h"]
Origin = Callable[[int], Paths]  # the paths from a row on, of which nothing is known, nor of those after it


def stream(
    name: str, data: Path | None, rows: int, seed: int
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Return inputs and targets; of ``seasonal`` a season of 24 rows whose shape drifts, and autoregressive noise."""
    if name != "seasonal":
        X, y = load(name, data)
        start = seed * (len(y) - rows) // (SEEDS - 1)
        return X[start : start + rows], y[start : start + rows]
    rng = np.random.default_rng(seed)
    phase = 2.0 * np.pi * np.arange(rows) / 24.0
    size = 1.0 + 0.2 * np.cumsum(rng.normal(size=(2, rows)), axis=1) / 24.0
    y, noise = size[0] * np.sin(phase) + 0.5 * size[1] * np.cos(2.0 * phase), 0.0
    for i in range(rows):
        noise = 0.7 * noise + 0.2 * rng.normal()
        y[i] += noise
    return rng.normal(size=(rows, 1)), y


def calendar(rows: int, season: int) -> Float[np.ndarray, "n 4"]:
    """Return where rows stand in a season: sines and cosines of one cycle and of two."""
    phase = 2.0 * np.pi * np.arange(rows) / season
    return np.column_stack([wave(k * phase) for k in (1, 2) for wave in (np.sin, np.cos)])


def ours(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], season: int, seed: int, *, known: bool = False
) -> Origin:
    """Return the default model with a season among its lags; its inputs are `known` ahead, or drawn."""
    model = StreamingGPRegressor("default", lags=(1, 2, 3, season), warmup=WARMUP, random_state=seed)
    learnt, unknown = 0, np.full((STEPS, X.shape[1]), np.nan)

    def paths(at: int) -> Paths:
        nonlocal learnt
        model.partial_fit(X[learnt:at], y[learnt:at])
        learnt = at
        to_come = X[at : at + STEPS] if known else unknown
        return np.asarray(model.sample_paths(STEPS, PATHS, X_future=to_come)).reshape(PATHS, STEPS)

    return paths


def automatic(name: str, y: Float[np.ndarray, " n"], season: int) -> Origin:
    """Return a model of statsforecast, chosen and fitted anew at every origin, with its season or a calendar."""
    from statsforecast.models import AutoARIMA, AutoETS

    dated = calendar(len(y), season) if name == "AutoARIMA, calendar" else None
    length = season if season <= LONGEST and dated is None else 1

    def paths(at: int) -> Paths:
        model = (
            AutoETS(season_length=length)
            if name == "AutoETS"
            else AutoARIMA(season_length=length, approximation=True)
        )
        past, to_come = (None, None) if dated is None else (dated[at - WINDOW : at], dated[at : at + STEPS])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model.fit(y[at - WINDOW : at], X=past)
            return np.asarray(model.simulate(STEPS, PATHS, X=past, X_future=to_come, seed=at))

    return paths


def seasonal_naive(y: Float[np.ndarray, " n"], season: int) -> Origin:
    """Return the last season, with the errors of as many of its own forecasts as there are paths."""

    def forecast(at: int) -> np.ndarray:
        return y[at - season : at][np.arange(STEPS) % season]

    def paths(at: int) -> Paths:
        before = np.arange(at - STEPS, max(season, at - STEPS - PATHS), -1)
        return forecast(at) + np.stack([y[i : i + STEPS] - forecast(i) for i in before])

    return paths


def scored(paths: Origin, y: Float[np.ndarray, " n"]) -> dict[str, Any]:
    """Return the scores over all origins, and the processor seconds that the paths took."""
    origins = range(WARMUP, len(y) - STEPS + 1, STEPS)
    scale, spent = y[:WARMUP].std(), 0.0
    crps, energy, inside = [], [], {80: [], 95: []}
    for at in origins:
        before = time.process_time()
        drawn = paths(at)
        spent += time.process_time() - before
        came = y[at : at + STEPS]
        crps.append(crps_ensemble(drawn.T, came) / scale)
        energy.append(float(energy_score(drawn / scale, came / scale)))
        for level, found in inside.items():
            low, high = np.quantile(drawn, [0.5 - level / 200.0, 0.5 + level / 200.0], axis=0)
            found.append((low <= came) & (came <= high))
    return {
        "origins": len(origins),
        "crps": float(np.mean(crps)),
        "crps_by_step": np.mean(crps, axis=0).tolist(),
        "energy_score": float(np.mean(energy)),
        "coverage": {str(level): float(np.mean(found)) for level, found in inside.items()},
        "coverage_by_step": {str(level): np.mean(found, axis=0).tolist() for level, found in inside.items()},
        "processor_seconds": spent,
    }


def direct(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], season: int, seed: int) -> dict[str, Any]:
    """Return the CRPS of models of one distance each, of the rows that lie so far from the origins."""
    origins = np.arange(WARMUP, len(y) - STEPS + 1, STEPS)
    by_step: list[float | None] = [None] * STEPS
    spent = time.process_time()
    for step in DIRECT:
        options = {"lags": (1, 2, 3, season), "horizon": step, "warmup": WARMUP - step, "random_state": seed}
        model = StreamingGPRegressor("default", **options)
        crps = evaluate(model, X, y, progress=False).crps[origins + step - 1]
        by_step[step - 1] = float(np.nanmean(crps) / y[:WARMUP].std())
    return {"origins": len(origins), "crps_by_step": by_step, "processor_seconds": time.process_time() - spent}


def run(name: str, label: str, seed: int, origins: int, data: Path | None) -> dict[str, Any]:
    """Return the scores of one model on one stretch."""
    X, y = stream(name, data, WARMUP + origins * STEPS, seed)
    season = SEASONS[name]
    dated, alone = calendar(len(y), season), np.zeros((len(y), 1))
    match label:
        case "streamgp, direct":
            return direct(X, y, season, seed)
        case "streamgp, direct, calendar":
            return direct(dated, y, season, seed)
        case "streamgp":
            paths = ours(X, y, season, seed)
        case "streamgp, lags alone":
            paths = ours(alone, y, season, seed)
        case "streamgp, calendar":
            paths = ours(dated, y, season, seed, known=True)
        case "seasonal naive":
            paths = seasonal_naive(y, season)
        case _:
            paths = automatic(label, y, season)
    return scored(paths, y)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of the Parquet files.")] = None,
    origins: Annotated[int, typer.Option(min=1, help="Forecasts of 24 rows in a stretch.")] = 20,
    sets: Annotated[str, typer.Option(help="Some of the sets, with commas.")] = ",".join(SEASONS),
) -> None:
    """Score, keep and print."""
    found: dict[str, Any] = {"machine": machine(), "window": WINDOW, "paths": PATHS, "origins": origins, "runs": {}}
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
        found["runs"] = stored["runs"] if stored.get("origins") == origins else {}
    for seed in range(SEEDS):
        for name in sets.split(","):
            for label in MODELS if seed == 0 else MODELS[:-2]:
                key = f"{name}; {label}; {seed}"
                if key not in found["runs"]:
                    scores = found["runs"][key] = run(name, label, seed, origins, data)
                    print(key, {k: v for k, v in scores.items() if "by_step" not in k}, flush=True)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
