"""What ``--horizon 1..24`` costs a fleet: ticks that are predicted, scored and learnt, with forecasts and without.

``python -m benchmarks.speed.fleet_horizon`` writes ``results/fleet_horizon.json``. Of 25 ticks, the time from one
origin to the next, each key is forecast in one and scored in 24.
"""

import json
import time

import polars as pl

from benchmarks.common.keyed_ticks import Ticks
from benchmarks.common.machine import machine
from benchmarks.common.measure import in_fresh_process, memory_mb
from benchmarks.common.paths import RESULTS_DIR

RESULTS = RESULTS_DIR / "fleet_horizon.json"
SIZES, STEPS, TICKS, INPUTS = (1_000, 10_000), 24, 50, (True, False)


def ticks(keys: int, steps: int, inputs: bool) -> dict[str, float]:
    """Measure a tick of so many keys, of which so many steps are forecast, with two inputs or none."""
    from streamgp import StreamingGPFleet
    from streamgp.fleet.evaluation import tested
    from streamgp.fleet.steps_ahead import FleetStepsAhead

    rows, model = Ticks(keys), StreamingGPFleet(lags=(1, 2, 3, 24), season=None)
    ahead = FleetStepsAhead(steps, "y") if steps else None

    def tick() -> pl.DataFrame:
        frame = rows.next()
        return frame if inputs else frame.drop("a", "b")

    # Until each key is forecast; the season's lag needs 24 ticks.
    for _ in range(45):
        tested(model.learner, tick(), ahead)
    frames = [tick() for _ in range(TICKS)]
    began = time.process_time()
    for frame in frames:
        tested(model.learner, frame, ahead)
    seconds = (time.process_time() - began) / TICKS
    return {"processor_seconds_a_tick": seconds, "memory_mb": memory_mb()["now"]}


def main() -> None:
    """Measure, keep and print."""
    sizes = []
    for keys in SIZES:
        for inputs in INPUTS:
            plain, ahead = (in_fresh_process(ticks, keys, steps, inputs) for steps in (0, STEPS))
            more = {"bytes_a_key": (ahead["memory_mb"] - plain["memory_mb"]) * 2**20 / keys}
            more["times"] = ahead["processor_seconds_a_tick"] / plain["processor_seconds_a_tick"]
            sizes.append({"keys": keys, "inputs": inputs, "plain": plain, "ahead": ahead} | more)
            print(json.dumps(sizes[-1]), flush=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "steps": STEPS, "sizes": sizes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
