"""Fleets of 100 to 100,000 keys, one row of every key a tick: rows a second, memory, and how both grow.

``python -m benchmarks.speed.fleet [--ticks N]`` measures every size in a process of its own, river's dictionary of
models on the same rows beside it where river is installed, and writes ``results/fleet_speed.json`` with the machine's
description. Seconds on the clock depend on what else the machine does, those of the processor hardly: both are there.
"""

import json
import time
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import in_fresh_process, installed, memory_mb, spread
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "fleet_speed.json"
SIZES = (100, 1_000, 10_000, 100_000)
RIVER_KEYS, RIVER_TICKS = 1_000, 20


def fleet(keys: int, ticks: int) -> dict[str, Any]:
    """Measure a fleet: its first rows up to the end of the warm-up, then so many ticks."""
    start = time.perf_counter()
    from streamgp import StreamingGPFleet

    rows, model = Ticks(keys), StreamingGPFleet()
    seen = 0
    while not model.is_warm_:
        model.partial_fit(rows.next())
        seen += 1
    cold = time.perf_counter() - start
    wall, processor = [], []
    for _ in range(ticks):
        tick = rows.next()
        began, before = time.perf_counter(), time.process_time()
        model.partial_fit(tick)
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - before)
    peak = memory_mb()["peak"]
    began = time.perf_counter()
    model.predict(rows.next())
    return {
        "keys": keys,
        "ticks": ticks,
        "features": model.learner.engine.model.features.num_features,  # type: ignore[union-attr]
        "cold_start_seconds": cold,
        "warmup_ticks": seen,
        "tick_seconds": spread(wall),
        "tick_seconds_p99": float(np.quantile(wall, 0.99)),
        "tick_processor_seconds": spread(processor),
        "rows_per_second": keys * ticks / sum(wall),
        "rows_per_processor_second": keys * ticks / sum(processor),
        "predict_seconds": time.perf_counter() - began,
        "peak_memory_mb": peak,
    }


def river(keys: int, ticks: int) -> dict[str, Any]:
    """Measure a dictionary of river's models with the same three lags and two inputs."""
    from river import linear_model, preprocessing

    rows = Ticks(keys)
    models: dict[str, Any] = {}
    past: dict[str, list[float]] = {}
    spent = 0.0
    for _ in range(ticks):
        tick = rows.next().rows()
        before = time.process_time()
        for key, _, y, a, b in tick:
            if key not in models:
                models[key] = preprocessing.StandardScaler() | linear_model.BayesianLinearRegression()
                past[key] = [0.0, 0.0, 0.0]
            x = dict(enumerate([*past[key], a, b]))
            models[key].predict_one(x, with_dist=True)
            models[key].learn_one(x, y)
            past[key] = [y, *past[key][:2]]
        spent += time.process_time() - before
    return {"keys": keys, "ticks": ticks, "rows_per_processor_second": keys * ticks / spent}


def slope(sizes: list[dict[str, Any]], what: str) -> float:
    """Return the slope of the logarithm of a tick's median against that of the keys, from 1,000 keys on."""
    points = [(size["keys"], size[what]["median"]) for size in sizes if size["keys"] >= 1_000]
    return float(np.polyfit(*np.log(np.array(points)).T, 1)[0]) if len(points) > 1 else float("nan")


def main(
    ticks: Annotated[int, typer.Option(min=2, help="Ticks of every size that are timed.")] = 200,
    most: Annotated[int, typer.Option(help="The largest number of keys.")] = SIZES[-1],
) -> None:
    """Measure, keep and print."""
    sizes = [in_fresh_process(fleet, keys, ticks) for keys in SIZES if keys <= most]
    found: dict[str, Any] = {"machine": machine(), "sizes": sizes}
    found["growth"] = {what: slope(sizes, what) for what in ("tick_seconds", "tick_processor_seconds")}
    if installed("river"):
        beside = in_fresh_process(river, RIVER_KEYS, RIVER_TICKS)
        same = next(size for size in sizes if size["keys"] == min(10_000, most))
        beside["times_slower"] = same["rows_per_processor_second"] / beside["rows_per_processor_second"]
        found["river"] = beside
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)
