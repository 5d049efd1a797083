"""The alarms of a run's keys, each tested by all of its rows at the end."""

from typing import Any

import numpy as np
import polars as pl

from streamgp.fleet.alarms import RATE, changed_keys
from streamgp.fleet.evaluation import TestedRows


def alarms_of_run(predictions: pl.DataFrame, warmup: int, target: str) -> list[dict[str, Any]]:
    """Return the alarms that `fleet_alarms` would tell of the rows of ``predictions.parquet``, as plain values.

    Parameters
    ----------
    predictions
        With the columns key, y, mean, pit, log_density and maybe time; `mean` is NaN of rows that were left out.
    warmup
        So many of the rows, the first ones, only teach what is usual.
    target
        Its name.
    """
    if "pit" not in predictions.columns:
        return []
    good = np.flatnonzero(predictions["mean"].is_not_nan().to_numpy())
    y, mean, pit, log_density = (predictions[name].to_numpy()[good] for name in ("y", "mean", "pit", "log_density"))
    keys, fitted = predictions["key"].to_list(), np.arange(len(good)) >= warmup
    times, kind = None, None
    if "time" in predictions.columns:
        kind = predictions["time"].dtype
        times = predictions["time"].to_physical().cast(pl.Float64).to_numpy()
    found = changed_keys(TestedRows(keys, times, good, y, mean, pit, log_density, fitted), target, RATE)
    return [{"key": key, "time": _said(alarm.time, kind)} | _own(alarm) for key, alarm in found]


def _own(alarm: Any) -> dict[str, Any]:
    """Return the rest of what an alarm tells; its rows are counted among those of the key."""
    return {name: getattr(alarm, name) for name in ("kind", "row", "since", "evidence", "sentence")}


def _said(time: float | None, kind: Any) -> float | str | None:
    """Return a time as JSON has it: a number, or the text of a date."""
    if time is None or kind is None or not kind.is_temporal():
        return time
    return pl.Series([round(time)]).cast(kind)[0].isoformat()
