"""Fleets on Ray: parity, overhead over one process, start, memory and the return of a killed worker, at 10,000 keys.

``python -m benchmarks.speed.fleet_ray [--keys N] [--ticks N]`` needs Ray (``pip install 'streamgp[ray]'``). Ticks of
one process and of one and two workers take turns on the same rows, and ``results/fleet_ray.json`` keeps their
medians with the machine's description. Processor seconds are those of all processes, Ray's own among them.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import in_fresh_process, memory_mb, spread
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "fleet_ray.json"
WORKERS = (1, 2)
UNTIMED = 2  # ticks before the first that is timed
COMPARED = ("mean", "std", "q05", "q50", "q95")


def family() -> list[int]:
    """Return this process and all that came from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def processor_seconds() -> float:
    """Return what this process and its family have taken."""
    ticks = 0
    for pid in family():
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pids: list[int]) -> float:
    """Return memory in MiB, in which pages that processes share count once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def timed(job: Callable[[], Any]) -> float:
    """Return the seconds that a job takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def started(model: Any, rows: Ticks) -> float:
    """Return the seconds until a fleet has ended its warm-up."""
    began = time.perf_counter()
    while not model.is_warm_:
        model.partial_fit(rows.next())
    return time.perf_counter() - began


def init() -> float:
    """Return the seconds that Ray takes to start."""
    import ray

    return timed(lambda: ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR"))


def in_turn(keys: int, ticks: int) -> dict[str, Any]:
    """Compare one process with workers, tick by tick; then their predictions, of as many new keys as well."""
    from streamgp import StreamingGPFleet

    init()
    models = {"local": StreamingGPFleet()}
    models |= {f"ray, {n}": StreamingGPFleet(engine="ray", workers=n) for n in WORKERS}
    rows = {name: Ticks(keys) for name in models}
    warmup = {name: started(model, rows[name]) for name, model in models.items()}
    wall: dict[str, list[float]] = {name: [] for name in models}
    processor: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(-UNTIMED, ticks):
        for name, model in models.items():
            tick, before = rows[name].next(), processor_seconds()
            seconds = timed(lambda model=model, tick=tick: model.partial_fit(tick))
            if turn >= 0:
                wall[name].append(seconds)
                processor[name].append(processor_seconds() - before)
    found = {name: model.predict(Ticks(2 * keys).next()) for name, model in models.items()}
    expected = found["local"]
    result = {}
    for name in models:
        off = [np.abs(found[name][c].to_numpy() / expected[c].to_numpy() - 1.0).max() for c in COMPARED]
        result[name] = {
            "warmup_seconds": warmup[name],
            "tick_seconds": spread(wall[name]),
            "processor_seconds_a_tick": sum(processor[name]) / ticks,
            "times_local": spread([a / b for a, b in zip(wall[name], wall["local"], strict=True)]),
            "times_local_processor": sum(processor[name]) / sum(processor["local"]),
            "largest_relative_difference": float(max(off)),
        }
    return result


def alone(keys: int, ticks: int, workers: int) -> dict[str, Any]:
    """Measure one fleet in processes of its own: start, memory, and a worker that is killed after these ticks."""
    began = time.perf_counter()
    from streamgp import StreamingGPFleet

    rows, found = Ticks(keys), {}
    if not workers:
        model = StreamingGPFleet()
    else:
        found["ray_start_seconds"] = init()
        model = StreamingGPFleet(engine="ray", workers=workers)
    started(model, rows)
    found["first_row_to_end_of_warmup_seconds"] = time.perf_counter() - began
    for _ in range(ticks):
        model.partial_fit(rows.next())
    found["memory_mb"] = memory_of(family())
    found["driver_memory_mb"] = memory_mb()["now"]
    if workers:
        import ray

        usual = timed(lambda: model.partial_fit(rows.next()))
        held: Any = model.learner.engine.keys  # type: ignore[union-attr]
        ray.kill(held._workers[0]._actor)
        found["return_of_a_killed_worker_seconds"] = timed(lambda: model.partial_fit(rows.next())) - usual
    return found


def main(
    keys: Annotated[int, typer.Option(help="Keys, one row of each a tick.")] = 10_000,
    ticks: Annotated[int, typer.Option(min=2, help="Ticks that are timed.")] = 48,
) -> None:
    """Measure, keep and print."""
    import ray

    found: dict[str, Any] = {"machine": machine(), "ray": ray.__version__, "keys": keys, "ticks": ticks}
    found["engines"] = in_fresh_process(in_turn, keys, ticks)
    for name, workers in (("local", 0), *((f"ray, {n}", n) for n in WORKERS)):
        found["engines"][name] |= in_fresh_process(alone, keys, min(ticks, 20), workers)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)
