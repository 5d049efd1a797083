"""The adapter for statsforecast beside statsforecast's own models, on the packages' own monthly series.

``python -m benchmarks.accuracy.forecasters`` needs statsforecast and sktime and writes ``results/forecasters.json``.
From every third row of the second half of a series its next twelve are forecast, by statsforecast's
``cross_validation``: its own models are fitted anew at every origin, as they are by default, and ours learn the new
rows alone (``refit=False``). The absolute error is over that of the season before in the first half (MASE).
"""

import json
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.machine import machine
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "forecasters.json"
SEASON, HORIZON, STEP = 12, 12, 3  # rows
LEVELS = (80, 95)


def series() -> dict[str, pd.DataFrame]:
    """Return series as statsforecast takes them, by their names."""
    from sktime.datasets import load_PBS_dataset
    from statsforecast.utils import AirPassengersDF

    scripts = load_PBS_dataset()
    dates = scripts.index.to_timestamp()
    return {
        "airline passengers (statsforecast)": AirPassengersDF,
        "prescriptions, PBS (sktime)": pd.DataFrame({"unique_id": 1.0, "ds": dates, "y": scripts.to_numpy()}),
    }


def models(y: np.ndarray) -> dict[str, tuple[Any, bool]]:
    """Return models by their names, and whether each is fitted anew at every origin."""
    from statsforecast.models import AutoARIMA, AutoETS, SeasonalNaive

    from streamgp.adapters.statsforecast import StatsForecastModel

    lags = (1, SEASON, SEASON + 1)
    names = f"lags {', '.join(map(str, lags))}"
    found: dict[str, tuple[Any, bool]] = {
        "streamgp default": (StatsForecastModel(), False),
        f"streamgp default, {names}": (StatsForecastModel(lags=lags), False),
        f"streamgp linear, {names}": (StatsForecastModel("linear", lags=lags), False),
    }
    if (y > 0.0).all():
        found[f"streamgp default, log, {names}"] = (StatsForecastModel(lags=lags, target_transform="log"), False)
    theirs = {"AutoARIMA": AutoARIMA, "AutoETS": AutoETS, "SeasonalNaive": SeasonalNaive}
    return found | {name: (kind(season_length=SEASON), True) for name, kind in theirs.items()}


def scores(frame: pd.DataFrame, model: Any, refit: bool) -> dict[str, Any]:
    """Return the error, the share of each band and the seconds of a model on a series."""
    from statsforecast import StatsForecast

    y = frame["y"].to_numpy()
    windows = (len(y) - len(y) // 2 - HORIZON) // STEP + 1
    first = len(y) - HORIZON - STEP * (windows - 1)
    scale = np.abs(y[SEASON:first] - y[: first - SEASON]).mean()
    engine = StatsForecast(models=[model], freq="MS")
    began = time.perf_counter()
    found = engine.cross_validation(
        df=frame, h=HORIZON, n_windows=windows, step_size=STEP, level=list(LEVELS), refit=refit
    )
    seconds = time.perf_counter() - began
    name = repr(model)
    covered = {
        level: found["y"].between(found[f"{name}-lo-{level}"], found[f"{name}-hi-{level}"]).mean() for level in LEVELS
    }
    return {
        "origins": windows,
        "mase": float((found["y"] - found[name]).abs().mean() / scale),
        "coverage": {str(level): float(share) for level, share in covered.items()},
        "seconds": seconds,
    }


def main() -> None:
    """Run, store and print."""
    warnings.simplefilter("ignore")  # of pandas, on behalf of statsforecast
    stored: dict[str, Any] = {"machine": machine(), "runs": {}}
    for label, frame in series().items():
        stored["runs"][label] = runs = {}
        for name, (model, refit) in models(frame["y"].to_numpy()).items():
            runs[name] = scores(frame, model, refit)
            print(label, name, runs[name], flush=True)
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
