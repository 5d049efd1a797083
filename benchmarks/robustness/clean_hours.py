"""False alarms on hourly streams without a change, with lags that are chosen by themselves.

    python -m benchmarks.robustness.clean_hours --model fast --streams 125
    python -m benchmarks.robustness.clean_hours --model linear --streams 480 --rows 2000 --seed 7000

The streams *hours* of `benchmarks.robustness.steps` from other seeds, warmed up with 300 rows, and tested on the rows
after these.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common.machine import machine
from benchmarks.robustness import steps
from streamgp import StreamingGPRegressor, evaluate


def alarms_of(model: str, rows: int, seed: int) -> list[list[object]]:
    """Return the alarms of one stream, as seed, row and kind."""
    stream = steps.Stream("hours", seed, steps.WARMUP + rows)
    learner = StreamingGPRegressor(model, warmup=steps.WARMUP, lags="auto", calendar=None, random_state=seed)
    y, first, after = stream.usual + stream.noise, slice(steps.WARMUP), slice(steps.WARMUP, None)
    learner.partial_fit(y=y[first], **stream.part(first))
    found = evaluate(learner, y=y[after], **stream.part(after), alarms=True, progress=False, weights=False)
    return [[seed, alarm.row, alarm.kind] for alarm in found.alarms]


def main(
    model: Annotated[str, typer.Option()] = "fast",
    streams: Annotated[int, typer.Option()] = 100,
    seed: Annotated[int, typer.Option(help="That of the first one.")] = 5_000,
    rows: Annotated[int, typer.Option(help="Rows of each after the warm-up.")] = 300,
    out: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Run the streams and print what alarmed."""
    found = [alarm for i in range(streams) for alarm in alarms_of(model, rows, seed + i)]
    result = {"model": model, "streams": streams, "rows": streams * rows, "alarms": found}
    print(json.dumps(result, indent=1))
    if out is not None:
        out.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
