"""The notes that a run ends with: what the user should know of the data and of what was made of them."""

from collections.abc import Mapping

from streamgp.app import tasks
from streamgp.data import Schema
from streamgp.evaluation.description import describe_unusual
from streamgp.evaluation.prequential import Metrics
from streamgp.reports.wording import plural
from streamgp.stream.learner import StreamLearner


def run_notes(
    schema: Schema, learner: StreamLearner, metrics: Metrics, skipped_rows: int, unseen_levels: Mapping[str, int]
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
    """
    found = tasks.notes(schema, metrics)
    found += [f"column '{name}' was left out: {reason}" for name, reason in schema.dropped.items()]
    if schema.constant:
        names = ", ".join(f"'{name}'" for name in schema.constant)
        found.append(f"one single value in the first rows, so nothing to learn from at first: {names}")
    found += [
        f"column '{name}': {plural(count, 'row')} with a level that the first rows had not, taken as no level"
        for name, count in unseen_levels.items()
        if count
    ]
    return found + describe_unusual(learner, metrics, schema.targets, skipped_rows)
