"""The words of a run's report."""

import math
from collections.abc import Mapping
from typing import Any

from streamgp.numerics.formats import clock, number, plural, share

# The shown name of a column whose name is empty, as in --time ''.
NAMELESS = "''"


def headline(metrics: dict[str, Any]) -> str:
    """Return the result in one or two sentences that need no statistics."""
    if not metrics["scored_rows"]:
        rows = plural(metrics["rows"], "row")
        return f"Nothing to score yet: {rows} read, and the warm-up takes {metrics['warmup']:,}."
    ahead = metrics.get("horizon")
    how = f"forecast {plural(ahead, 'row')} ahead" if ahead else "predicted before its target was seen"
    rows = f"On {plural(metrics['scored_rows'], 'row')}, each {how}, the model "
    if metrics.get("task") == "classification":
        classes = len(metrics["classes"])
        if classes == 1:
            return f"{rows}had nothing to predict: all labels were the same."
        return f"{rows}predicted the right one of {classes} classes {share(1 - metrics['error_rate'])} of the time."
    if metrics.get("task") == "ordinal":
        grades, correct = len(metrics["grades"]), share(1 - metrics["error_rate"])
        right = f"predicted the right one of {grades} grades {correct} of the time"
        return f"{rows}{right}; it was off by {number(metrics['mae'], 3)} grades on average."
    if metrics["nmse"] is None:
        first = f"was off by {number(metrics['rmse'])} (RMSE) on a target that never changed"
    elif metrics["nmse"] >= 1:
        first = "explained none of the variance (always guessing the average does no worse)"
    else:
        first = f"explained {_explained(metrics['nmse'])} of the variance"
    covered = metrics["coverage"]["95"]
    bands = "" if covered is None else f"; its 95% bands contained {share(covered)} of the targets"
    others = list(metrics.get("by_target") or {})[1:]
    further = [f"{_explained_of(metrics['by_target'][name])} of {name}'s" for name in others]
    also = f". It explained {', '.join(further)}" if further else ""
    return rows + first + bands + also + _without_flagged(metrics) + "."


def _without_flagged(metrics: dict[str, Any]) -> str:
    """Return what the first score is without the rows that were set aside; empty where it hardly differs."""
    others = _unflagged(metrics)
    if others is None:
        return ""
    aside = plural(metrics["scored_rows"] - others["rows"], "row")
    return f". Without the {aside} that it flagged as outliers it explained {_explained_of(others)}"


def _unflagged(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return the scores of the rows that were not set aside, where the others decide those of all rows."""
    others = metrics.get("unflagged")
    if not others or others["nmse"] is None or metrics["nmse"] is None or metrics["nmse"] < 1.1 * others["nmse"]:
        return None
    return others


# The tolerated deviation of the interval coverage from its level.
_TOLERANCE = {"50": 0.05, "90": 0.03, "95": 0.02}
# One of three shares deviates by more standard deviations by chance in one run of twenty.
_CHANCE = 2.4
MIN_ROWS = 100  # fewer scored rows are too few to assess calibration


def miscalibrated_bands(coverage: Mapping[str, float | None], rows: int) -> list[dict[str, Any]]:
    """Return the bands whose coverage clearly differs from its nominal value; none, where all are calibrated.

    Chance alone moves the shares of few rows; of many, a few points are too little to matter.
    """
    found = []
    for level, tolerance in _TOLERANCE.items():
        nominal, observed = int(level) / 100, coverage[level]
        if observed is None:
            continue
        slack = max(tolerance, _CHANCE * math.sqrt(nominal * (1.0 - nominal) / rows))
        if abs(observed - nominal) > slack:
            found.append({"level": level, "coverage": observed, "narrow": observed < nominal})
    return found


_FIFTHS = ("lowest", "second", "middle", "fourth", "highest")
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
KNOWN_KINDS = {"predicted_noise": "the predicted noise", "predicted_std": "the predicted standard deviation"}
CLOCK_PARTS = ("hour", "weekday")
_KIND_TOLERANCE, _KIND_CHANCE = 0.04, 3.5  # points, and standard deviations, since many kinds are looked at


def kind_slack(rows: int) -> float:
    """Return how far the coverage of so many rows of a kind may be from 90% before it is told."""
    return max(_KIND_TOLERANCE, _KIND_CHANCE * math.sqrt(0.09 / max(rows, 1)))


def kind_part(name: str, i: int) -> str:
    """Return in words where rows of a kind are: in a fifth, in an hour, on a day."""
    if name == "hour":
        return f"from {i}:00 to {i + 1}:00 UTC"
    if name == "weekday":
        return f"on {_WEEKDAYS[i]}"
    return f"in the {_FIFTHS[i]} fifth of {KNOWN_KINDS.get(name, name)}"


def worst_kind(metrics: Mapping[str, Any]) -> str:
    """Return a sentence on the kind of row whose 90% bands are furthest from that; empty where all are close."""
    worst, found = 0.0, ""
    for name, shares in (metrics.get("coverage_by") or {}).items():
        for i, (held, rows) in enumerate(zip(shares, metrics["coverage_by_rows"][name], strict=True)):
            off = 0.0 if held is None else abs(held - 0.9)
            if off > max(worst, kind_slack(rows)):
                worst, found = off, f"Of rows {kind_part(name, i)}, the 90% bands contained {share(held)}."
    return found


def describe_bands(bands: list[dict[str, Any]]) -> str:
    """Return a phrase on miscalibrated bands: their coverage, and whether they are too narrow or too wide."""
    each = [
        f"the {band['level']}% band contained {'only ' if band['narrow'] else ''}{share(band['coverage'])} of the "
        f"targets and is too {'narrow' if band['narrow'] else 'wide'}"
        for band in bands
    ]
    return ", ".join(each[:-1]) + " and " + each[-1] if len(each) > 1 else "".join(each)


_ALARMS_LISTED = 10


def alarm_lines(alarms: list[dict[str, Any]] | None, of_keys: bool = False) -> list[str]:
    """Return what has changed, a line each: the latest of many, the first of those of a fleet's keys."""
    if alarms is None:
        return []
    if not alarms:
        return [f"no alarm: {'no key has changed' if of_keys else 'the stream did not change'}"]
    listed = alarms[:_ALARMS_LISTED] if of_keys else alarms[-_ALARMS_LISTED:]
    keys = f" of {plural(len({alarm['key'] for alarm in alarms}), 'key')}" if of_keys else ""
    some = f", the {'first' if of_keys else 'latest'} {len(listed)}" if len(listed) < len(alarms) else ""
    places = (alarm["key"] if of_keys else _row_of(alarm) for alarm in listed)
    lines = [f"  {place}, {alarm['kind']}: {alarm['sentence']}" for place, alarm in zip(places, listed, strict=True)]
    return [f"{plural(len(alarms), 'alarm')}{keys}{some}:", *lines]


def _row_of(alarm: dict[str, Any]) -> str:
    """Return the row of an alarm, with its time where it has one."""
    row = f"row {alarm['row']:,}"
    return row if alarm["time"] is None else f"{row} ({clock(alarm['time'])})"


def last_value(metrics: dict[str, Any], noun: str = "value") -> str:
    """Return what persistence repeats: the last value, label or grade that is known when a row is predicted."""
    ahead = known_after(metrics)
    return f"the last {noun}" if ahead == 1 else f"the {noun} of {ahead:,} rows before"


def known_after(metrics: dict[str, Any]) -> int:
    """Return after how many rows a target is known when another one is predicted; 1: the last one is."""
    # The delay is a number, or the name of a column.
    delay = (metrics.get("late_labels") or {}).get("delay", 0)
    return max(metrics.get("horizon") or 1, 1 + delay if isinstance(delay, int) else 1)


def _explained_of(scores: dict[str, Any]) -> str:
    """Return the share of the variance of a further target that was explained."""
    nmse = scores["nmse"]
    return "nothing" if nmse is None or nmse >= 1 else _explained(nmse)


def _explained(nmse: float) -> str:
    """Return the share of variance explained, with as many decimals as keep it below 100%."""
    share = 100 * (1 - nmse)
    if share < 1:
        return "less than 1%"
    decimals = 0 if share < 99 else next((d for d in range(1, 7) if round(share, d) < 100), 0)
    return f"{share:.{decimals}f}%"
