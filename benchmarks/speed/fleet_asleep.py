"""Fleets of which most keys sleep on disk: memory, and seconds a tick, beside a fleet of the keys awake alone.

``python -m benchmarks.speed.fleet_asleep`` measures 10,000 keys, all awake, then 1,000,000 of which 10,000 are, each
in a process of its own, and writes ``results/fleet_asleep.json`` with the machine's description.
"""

import ctypes
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import in_fresh_process, memory_mb, spread
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "fleet_asleep.json"
TICKS = 10


def fleet(keys: int, awake: int, ticks: int) -> dict[str, Any]:
    """Measure a fleet whose keys come in groups of as many as can be awake, one after the other."""
    from streamgp import StreamingGPFleet

    with tempfile.TemporaryDirectory() as folder:
        model = StreamingGPFleet(
            max_active=awake if keys > awake else None, directory=folder if keys > awake else None
        )
        began = time.perf_counter()
        shuffle = np.random.default_rng(2).permutation  # rows of keys that stand side by side would need no copy
        for start in range(0, keys, awake):
            rows = Ticks(awake)
            names = pl.Series("unique_id", [f"key-{start + i:07d}" for i in range(awake)])
            # The first keys go through the warm-up, each of the others has two rows.
            for _ in range(8 if start == 0 else 2):
                model.partial_fit(rows.next().with_columns(names)[shuffle(awake)])
        born = time.perf_counter() - began
        rng, wall, woken = np.random.default_rng(1), [], []
        # The active ones, then ticks in which one row in ten is that of a key that sleeps.
        for share, seconds in ((0.0, wall), (0.1, woken)):
            for tick in range(ticks):
                rows = Ticks(awake).next().with_columns(ds=pl.lit(1e3 * (1 + share) + tick))
                key = np.arange(keys - awake, keys)
                if keys > awake:
                    at = rng.choice(awake, int(share * awake), replace=False)
                    key[at] = rng.choice(keys - awake, len(at), replace=False)
                names = pl.Series("unique_id", [f"key-{k:07d}" for k in key.tolist()])
                before = time.process_time()
                model.partial_fit(rows.with_columns(names)[shuffle(awake)])
                seconds.append(time.process_time() - before)
        memory = memory_mb()
        held = held_mb()
        began = time.perf_counter()
        model.save(Path(folder) / "saved")
        return {
            "keys": keys,
            "awake": awake,
            "seconds_until_all_had_come": born,
            "tick_processor_seconds": spread(wall),
            "tick_processor_seconds_with_a_tenth_woken": spread(woken),
            "save_seconds": time.perf_counter() - began,
            "peak_memory_mb": memory["peak"],
            "held_memory_mb": held,
        }


def held_mb() -> float:
    """Return resident memory in MiB once the C library has given back what it keeps for later."""
    # Only glibc has this function.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return memory_mb()["now"]


def main(
    keys: Annotated[int, typer.Option(help="Keys of the fleet of which most sleep.")] = 1_000_000,
    awake: Annotated[int, typer.Option(help="How many are awake.")] = 10_000,
) -> None:
    """Measure, keep and print."""
    sizes = [in_fresh_process(fleet, many, awake, TICKS) for many in (awake, keys)]
    peak, held = (sizes[1][name] / sizes[0][name] for name in ("peak_memory_mb", "held_memory_mb"))
    more = (sizes[1]["held_memory_mb"] - sizes[0]["held_memory_mb"]) * 2**20 / (keys - awake)
    found = {
        "machine": machine(),
        "sizes": sizes,
        "peak_ratio": peak,
        "held_ratio": held,
        "bytes_a_sleeping_key": more,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    typer.run(main)
