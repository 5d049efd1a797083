"""The alarms of a report: a sentence on each, and the change of the experts' weights."""

from typing import Any

import numpy as np
import polars as pl

from streamgp.numerics.formats import share

SHOWN = 30
AROUND = 3  # bins of the weights before a change, and after its alarm, that are compared
# A smaller change of a weight is not mentioned.
MOVED = 0.1


def changes(bins: pl.DataFrame, metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the first alarms of a run, with what the weights of the kinds of dynamics did.

    Parameters
    ----------
    bins
        Mean weights along the scored rows, as for the charts of the weights.
    metrics
        As read from ``metrics.json``.
    """
    alarms = metrics["alarms"] or []
    shown = [alarm | {"weights": _moved(bins, metrics["experts"], alarm)} for alarm in alarms[:SHOWN]]
    return {
        "changes": shown,
        "changes_left_out": len(alarms) - len(shown),
        "changes_timed": any(alarm["time"] is not None for alarm in shown),
    }


def _moved(bins: pl.DataFrame, experts: list[dict[str, Any]], alarm: dict[str, Any]) -> str:
    """Return which dynamics gained most between the rows before a change and those after its alarm, if much."""
    kinds = list(dict.fromkeys(expert["dynamics"] for expert in experts))
    if len(kinds) < 2 or not len(bins):
        return ""
    rows = bins["row"].to_numpy()
    before, after = np.flatnonzero(rows < alarm["since"])[-AROUND:], np.flatnonzero(rows > alarm["row"])[:AROUND]
    if not len(before) or not len(after):
        return ""
    gains = []
    for kind in kinds:
        names = [expert["name"] for expert in experts if expert["dynamics"] == kind]
        total = bins.select(pl.sum_horizontal(names)).to_series().to_numpy()
        then, now = float(total[before].mean()), float(total[after].mean())
        gains.append((now - then, kind, then, now))
    gain, kind, then, now = max(gains)
    if gain < MOVED:
        return ""
    return f"The weight of dynamics {kind} went from {share(then)} to {share(now)}."
