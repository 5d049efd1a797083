"""The notes that a run ends with: what the user should know of the data and of what was made of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from streamgp.evaluation import ClassificationMetrics
from streamgp.evaluation.description import describe_calendar, describe_unusual
from streamgp.evaluation.scored_rows import Metrics
from streamgp.numerics.formats import plural
from streamgp.stream.learner import StreamLearner
from streamgp.table import Schema
from streamgp.table.dates import IS_CLOCK, IS_UNSURE
from streamgp.table.numbers import Gaps, say_unreadable
from streamgp.table.schema import IS_DATE


def run_notes(
    schema: Schema,
    learner: StreamLearner,
    metrics: Metrics,
    skipped_rows: int,
    unseen_levels: Mapping[str, int],
    late: Mapping[str, Any] | None = None,
    first_fault: str | None = None,
    gaps: Mapping[str, Gaps] = MappingProxyType({}),
) -> list[str]:
    """Return the notes, each a sentence without its full stop.

    Parameters
    ----------
    schema, learner, metrics
        Of the run, at its end.
    skipped_rows
        How many rows were skipped as bad.
    unseen_levels
        For each column of text, how many rows had a level that the first rows had not.
    late
        How late labels came, and how many did not, where they do not come in time.
    first_fault
        What is wrong with the first of the rows that were skipped.
    gaps
        The cells of each column that were taken as missing.
    """
    found = _of_task(schema, metrics)
    found += [left_out(name, reason, schema) for name, reason in schema.dropped.items()]
    if schema.constant:
        names = ", ".join(f"'{name}'" for name in schema.constant)
        found.append(f"one single value in the first rows, so nothing to learn from at first: {names}")
    found += [
        f"column '{name}': {plural(count, 'row')} with a level that the first rows had not, taken as no level"
        for name, count in unseen_levels.items()
        if count
    ]
    found += say_unreadable(gaps)
    dates = [feature.name for feature in schema.features if feature.kind == "date"]
    clock = f"; --time '{dates[0]}' lets forgetting follow it" if dates and schema.time is None else ""
    found += [note + clock for note in describe_calendar(learner, dates)]
    found += [] if late is None else _of_late_labels(late)
    return found + describe_unusual(
        learner, metrics, schema.targets, skipped_rows, first_fault=first_fault, features=schema.feature_names
    )


def left_out(name: str, reason: str, schema: Schema) -> str:
    """Say that a column was left out, why, and how to use it where there is a way."""
    advice = ""
    if reason == IS_DATE and not any(feature.kind == "date" for feature in schema.features):
        advice = "; --calendar day,week,year makes inputs of its cycles"
    elif reason in (IS_CLOCK, IS_UNSURE):
        advice = "; write date and time in one column, as 2024-01-31T12:00:00, to use it"
    return f"column '{name}' was left out: {reason}{advice}"


def _of_late_labels(late: Mapping[str, Any]) -> list[str]:
    delay = late["delay"]
    found = [
        f"every label came {plural(delay, 'row')} late, and so every row was predicted without the last ones"
        if isinstance(delay, int)
        else f"labels came when column '{delay}' says so; the naive baselines know every one of them in time"
    ]
    if late["never"]:
        found.append(f"the labels of {plural(late['never'], 'row')} never came")
    if late["too_late"]:
        after = f"came more than {late['limit']:,} rows late, or after the fit that ended the warm-up"
        found.append(f"{plural(late['too_late'], 'label')} {after}, and taught nothing")
    return found


def _of_task(schema: Schema, metrics: Metrics) -> list[str]:
    """Return what the user should know of the task."""
    found = list(schema.notes)
    if isinstance(metrics, ClassificationMetrics) and schema.labels is not None:
        new = metrics.classes[schema.labels.first :]
        if new:
            names = ", ".join(f"'{name}'" for name in new)
            found.append(
                f"target column '{schema.targets[0]}': labels that the first rows had not, learnt from their first "
                f"row on: {names}"
            )
    return found
