"""The notes that a run ends with: what the user should know of the data and of what was made of them."""

from collections.abc import Mapping
from typing import Any

from streamgp.app import tasks
from streamgp.app.wording import plural
from streamgp.data import Schema
from streamgp.estimators import expert_table
from streamgp.evaluation.prequential import Metrics
from streamgp.stream.learner import StreamLearner


def run_notes(
    schema: Schema,
    learner: StreamLearner,
    metrics: Metrics,
    skipped_rows: int,
    unseen_levels: Mapping[str, int],
    late: Mapping[str, Any] | None = None,
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
    """
    found = tasks.notes(schema, metrics)
    found += [f"column '{name}' was left out: {reason}" for name, reason in schema.dropped.items()]
    if schema.constant:
        names = ", ".join(f"'{name}'" for name in schema.constant)
        found.append(f"one single value in the first rows, so nothing to learn from at first: {names}")
    if learner.is_warmed_up and learner.spec.chooses_lags and learner.spec.lags:
        lags = ",".join(map(str, learner.spec.lags))
        found.append(
            f"past targets are inputs, since with them the warm-up was predicted better: --lags {lags}; --lags none "
            f"omits them"
        )
    if learner.is_warmed_up:
        found += [
            f"target column '{name}' had the single value {value:g} in all rows of the warm-up, so its scale was "
            f"unknown and nothing could be fitted; a longer --warmup may help"
            for name, value in zip(schema.targets, learner.constant_targets, strict=True)
            if value is not None
        ]
    renewed = [expert for expert in expert_table(learner) if expert["since"]]
    if renewed:
        found.append(
            f"experts fitted anew as the stream went on, last after row {max(e['since'] for e in renewed):,}, have "
            f"{sum(e['weight'] for e in renewed):.0%} of the weight"
        )
    found += [
        f"column '{name}': {plural(count, 'row')} with a level that the first rows had not, taken as no level"
        for name, count in unseen_levels.items()
        if count
    ]
    found += [] if late is None else _of_late_labels(late)
    if skipped_rows:
        found.append(f"skipped {plural(skipped_rows, 'bad row')}")
    if learner.imputed_values:
        found.append(f"filled {plural(learner.imputed_values, 'missing input')}")
    if metrics.unlabelled_rows:
        found.append(f"predicted {plural(metrics.unlabelled_rows, 'row')} without a target, and learnt none")
    if learner.flagged_rows:
        found.append(
            f"{plural(learner.flagged_rows, 'row')} flagged as outliers: predicted and "
            f"scored like the others, but hardly learnt"
        )
    if learner.restarted:
        found.append(
            f"{plural(len(learner.restarted), 'filter')} had numbers that were not finite and started again "
            f"from the prior"
        )
    if learner.outside_rows:
        found.append(
            f"{plural(learner.outside_rows, 'row')} outside the range that some basis was built for in "
            f"the warm-up; there its features stay as at the edge"
        )
    return found


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
        found.append(
            f"{plural(late['too_late'], 'label')} came more than {late['limit']:,} rows late, or after the fit that "
            f"ended the warm-up, and taught nothing"
        )
    return found
