"""The section of a run's page on forecasts of several rows: error and coverage by step, and some forecasts."""

from typing import Any

import numpy as np
import polars as pl

from streamgp.numerics import formats
from streamgp.reports import step_verdict, verdicts
from streamgp.reports.kinds_chart import Panel

COLUMNS = ("step", "ahead_q05", "ahead_q50", "ahead_q95")
FANS = 6
_LATEST = 60  # the latest forecasts, some of which are shown
_MOST_ROWS = 50_000


def steps(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    """Draw the scores of each step beside the baselines, and forecasts from origins spread over a season.

    Of several targets the charts show the first, of many keys errors in units of each key's usual change.
    """
    targets = step_verdict.by_target(metrics)
    first, entries = next(iter(targets.items()), (None, []))
    if not entries or not any(each["rows"] for each in entries):
        return {"step_entries": []}
    names = [name for name in entries[0]["naive"] if all(name in each["naive"] for each in entries)]
    about = metrics["steps_ahead"]
    by_key = about.get("by_key", False)
    error = "scaled_rmse" if by_key else "rmse"
    curves = {"model": _column(entries, lambda each: each[error])}
    curves |= {name: _column(entries, lambda each, name=name: each["naive"][name][error]) for name in sorted(names)}
    coverage = {
        level: _column(entries, lambda each, level=level: each["coverage"][level]) for level in ("50", "80", "95")
    }
    return {
        "step_entries": entries,
        "step_verdicts": step_verdict.sentences(metrics),
        "step_by_key": by_key,
        "step_unit": formats.plural(min(about["seasons"], default=1), "row"),
        "step_target": first if len(targets) > 1 else None,
        "step_legend": [
            (*figures.step_style(list(curves), name), verdicts.heading(metrics, name)) for name in sorted(names)
        ],
        "step_errors": figures.step_errors(curves),
        "step_coverage": figures.step_coverage(coverage),
        "fans": (_fans_of_keys if by_key else _fans)(figures, predictions, metrics),
    }


def _column(entries: list[dict[str, Any]], value: Any) -> np.ndarray:
    return np.array([value(each) for each in entries], float)


def _fans(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> list[Panel]:
    """Draw some of the latest forecasts, from origins spread over the shortest season."""
    about = metrics["steps_ahead"]
    if not set(COLUMNS) <= set(predictions.collect_schema().names()):
        return []
    count = about["steps"]
    rows = predictions.tail(min((_LATEST + 1) * about["origins_every"], _MOST_ROWS)).collect()
    step = rows["step"].to_numpy()
    first = [i for i in np.flatnonzero(step == 1).tolist() if i + count <= len(step) and step[i + count - 1] == count]
    season = min(about["seasons"], default=0)
    if season and first:
        first.sort(key=lambda i: (rows["position"][i] % season, i))
        first = sorted({first[round(k)] for k in np.linspace(0, len(first) - 1, FANS)})
    found = []
    for number, i in enumerate(first[-FANS:]):
        title = f"from row {rows['row'][i]:,}"
        if "time" in rows.columns:
            title = f"from {formats.clock(float(rows['time'][i]))}"
        before = rows[max(i - max(count // 2, 4), 0) : i]
        found.append(Panel(title, figures.fan(f"fan{number}", title, before, rows[i : i + count])))
    return found


def _fans_of_keys(figures: Any, predictions: pl.LazyFrame, metrics: dict[str, Any]) -> list[Panel]:
    """Draw the last whole forecast of some of the keys that had the last rows."""
    if not {"key", *COLUMNS} <= set(predictions.collect_schema().names()):
        return []
    count = metrics["steps_ahead"]["steps"]
    latest = predictions.select("key").tail(_MOST_ROWS).collect()["key"].unique(maintain_order=True)
    found = []
    for number, key in enumerate(latest.drop_nulls()[:FANS]):
        rows = predictions.filter(pl.col("key") == key).collect()
        step = rows["step"].to_numpy()
        last = np.flatnonzero(step == count)
        if len(last):
            i = int(last[-1]) - count + 1
            before = rows[max(i - max(count // 2, 4), 0) : i]
            found.append(Panel(str(key), figures.fan(f"fan{number}", f"of {key}", before, rows[i : i + count])))
    return found
