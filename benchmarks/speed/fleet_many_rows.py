"""Calls in which some keys of a fleet have many rows each, and what a filter over blocks of rows could save there.

``python -m benchmarks.speed.fleet_many_rows`` writes ``results/fleet_many_rows.json``. Each round of a call learns
one row of every key. The share of the time that the experts take bounds what a block filter could save: scales, and
what counts as an outlier, go from row to row whatever the filter.
"""

import json
import time
from typing import Any

import polars as pl

from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import in_fresh_process, spread
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "fleet_many_rows.json"
SIZES, ROWS, CALLS = (1, 50, 1_000), 200, 5
WARMUP_KEYS, WARMUP_TICKS = 50, 60


def many_rows(keys: int) -> dict[str, Any]:
    """Measure calls with `ROWS` rows of each of so many keys."""
    from streamgp import StreamingGPFleet
    from streamgp.fleet.experts import FleetExperts

    inside = 0.0

    def timed(method: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal inside
            began = time.process_time()
            try:
                return method(*args)
            finally:
                inside += time.process_time() - began

        return call

    rows, model = Ticks(max(keys, WARMUP_KEYS)), StreamingGPFleet()
    for _ in range(WARMUP_TICKS):
        model.partial_fit(rows.next())
    frames = [pl.concat([rows.next()[:keys] for _ in range(ROWS)]) for _ in range(2 * CALLS)]
    seconds, shares = [], []
    for frame in frames[:CALLS]:
        before = time.process_time()
        model.partial_fit(frame)
        seconds.append(time.process_time() - before)
    FleetExperts.predict, FleetExperts.learn = timed(FleetExperts.predict), timed(FleetExperts.learn)
    for frame in frames[CALLS:]:
        inside, before = 0.0, time.process_time()
        model.partial_fit(frame)
        shares.append(inside / (time.process_time() - before))
    each = spread(seconds, 1e6 / (keys * ROWS))
    return {"keys": keys, "processor_microseconds_a_row": each, "share_of_filters": spread(shares)}


def main() -> None:
    """Measure, keep and print."""
    found = {"machine": machine(), "rows_a_key": ROWS, "sizes": [in_fresh_process(many_rows, keys) for keys in SIZES]}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["sizes"], indent=1))


if __name__ == "__main__":
    main()
