"""A description of a run or an evaluation: its model, scores, speed and notes."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamgp.evaluation.scored_rows import Metrics
from streamgp.numerics.formats import plural
from streamgp.stream.lags import lag_names
from streamgp.stream.learner import StreamLearner
from streamgp.table.calendar import CYCLES
from streamgp.table.codes import say_suspects

# From this share of working filters on, it is not mentioned.
ALL_WORK = 0.995


KINDS = ("coverage_by", "width_by", "coverage_by_rows")  # scores by kinds of rows


def describe(
    learner: StreamLearner,
    scores: Mapping[str, Any],
    *,
    targets: Sequence[str],
    features: Sequence[str],
    seconds: Mapping[str, float],
    learnt: int,
) -> dict[str, Any]:
    """Return the entries of ``metrics.json`` that a run of the command and an evaluation in Python share.

    Parameters
    ----------
    learner, scores
        At the end of the stream.
    targets, features
        The names of targets, and of inputs without lags.
    seconds
        Spent on reading, on the warm-up, on the stream after it, and in all.
    learnt
        How many rows came after the warm-up in those seconds.
    """
    stream, timetable = seconds["stream"], learner.state.timetable
    return {
        "task": learner.spec.task,
        "model": learner.spec.model,
        "targets": list(targets),
        "target": targets[0],
        "features": [*features, *lag_names(targets, learner.spec.lags)],
        "lags": list(learner.spec.lags),
        "seasons": [{"rows": rows, "cycle": name or None} for rows, name in (learner.seasons or {}).items()],
        "horizon": learner.spec.horizon or None,
        "conformal": None,
        "steps_ahead": None,
        "late_labels": None,
        **scores,
        "by_target": _by_target(targets, scores),
        "seconds": dict(seconds),
        "rows_per_second": learnt / stream if learnt > 0 and stream > 0 else None,
        "imputed_values": learner.state.imputed_values,
        "missed_steps": None if timetable is None else timetable.missed,
        "outside_rows": learner.state.outside_rows,
        "flagged_rows": learner.state.flagged_rows,
        "restarted_filters": len(learner.state.restarted),
        "experts": expert_table(learner),
        "models": learner.state.local_models,
        "rules": [{"name": name, "weight": weight} for name, weight in learner.rules.items()],
    }


def named_kinds(scores: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return scores whose bands by kinds of rows name the columns of X, each target's own too.

    An input with the name of another kind of row, such as an hour, is called the input of that name.
    """
    named = dict(scores)
    for entry in KINDS:
        if entry in scores:
            others = [name for name in scores[entry] if not name.isdigit()]
            named[entry] = {_kind_name(name, columns, others): each for name, each in scores[entry].items()}
    if "per_target" in scores:
        named["per_target"] = {name: named_kinds(own, columns) for name, own in scores["per_target"].items()}
    return named


def _kind_name(name: str, columns: Sequence[str], others: Sequence[str]) -> str:
    if not name.isdigit() or int(name) >= len(columns):
        return name
    column = columns[int(name)]
    return f"input {column}" if column in others else column


def _by_target(targets: Sequence[str], scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of every target of numbers or counts, by its name."""
    if "nmse" not in scores:
        return {}
    own = ("nmse", "rmse", "mae", "unflagged", "crps", "coverage", "width", "interval_score", *KINDS)
    own += ("naive", "judgement", "mase", "mape")
    each = scores.get("per_target") or {targets[0]: {name: scores[name] for name in own if name in scores}}
    return dict(zip(targets, each.values(), strict=True))


def expert_table(learner: StreamLearner) -> list[dict[str, Any]]:
    """Return the experts with their present weights, of local models those alive; empty in the warm-up."""
    rows = [
        {**vars(expert), "weight": float(weight)}
        for expert, weight in zip(learner.experts, learner.weights if learner.experts else [], strict=True)
    ]
    return rows[: len(learner.state.local_models)] if learner.state.local_models else rows


def _missing(learner: StreamLearner) -> str:
    """Say what rows without a target lacked, and what was learnt of them."""
    if learner.num_outputs == 1:
        return "a target, and learnt none"
    if len(learner.state.models) > 1:
        return "some of the targets, and learnt those that came, each by a model of its own"
    return "some of the targets, and learnt none: of rows after the warm-up all are needed"


def skipped(rows: int, fault: str | None) -> str:
    """Say how many rows were skipped, and what is wrong with one of them, where that is known."""
    where = "" if fault is None else f"{':' if rows == 1 else ', such as'} {fault}"
    return f"skipped {plural(rows, 'bad row')}{where}"


def seeming_codes(learner: StreamLearner, features: Sequence[str], targets: Sequence[str], python: bool) -> list[str]:
    """Say which columns seem to have had a code for missing values in the warm-up, and how to name it."""
    named = [*features, *(f"input {column}" for column in range(len(features), learner.num_inputs)), *targets]
    rows = f"the {learner.warmup:,} rows of the warm-up"
    return say_suspects(learner.state.suspects, named, rows, "missing_values={}" if python else "--missing-values {}")


def option(name: str, value: str, python: bool) -> str:
    """Return an option of numbers or of a word as the command has it, or as Python does."""
    if not python:
        return f"--{name} {value}"
    return f"{name}=({value})" if "," in value else f"{name}={value if value[0].isdigit() else repr(value)}"


def describe_calendar(learner: StreamLearner, dates: Sequence[str], python: bool = False) -> list[str]:
    """Return a note on what was made of the columns of dates, where it was for the warm-up to say."""
    if not learner.settings.categories.is_open or not dates or not learner.is_warmed_up:
        return []
    cycles = [entry for entry in learner.categories.entries if entry in CYCLES]
    none, more = option("calendar", "none", python), ""
    if longer := learner.state.inputs.categories.too_long:
        given = option("calendar", ",".join((*cycles, *longer)), python)
        more = f"; the warm-up is shorter than a {longer[0]}, of which {given} makes an input nevertheless"
    if not cycles:
        return [
            f"column '{dates[0]}': no cycle of the calendar would have predicted the warm-up better, so none is an "
            f"input{more}"
        ]
    return [
        f"column '{dates[0]}': its place in the {' and the '.join(cycles)} is an input, since with it the warm-up "
        f"was predicted better: {option('calendar', ','.join(cycles), python)}; {none} omits it{more}"
    ]


def describe_unusual(
    learner: StreamLearner,
    metrics: Metrics,
    targets: Sequence[str],
    skipped_rows: int,
    python: bool = False,
    first_fault: str | None = None,
    features: Sequence[str] = (),
) -> list[str]:
    """Return notes on what was unusual in the stream, each a sentence without its full stop.

    With `python`, options are called as Python calls them, not as the command does. `first_fault` says what is wrong
    with the first row skipped, where that is known, and `features` what the inputs are called.
    """
    found = seeming_codes(learner, features, targets, python)
    if learner.is_warmed_up and learner.spec.chooses_lags and learner.spec.lags:
        lags = ",".join(map(str, learner.spec.lags))
        found.append(
            f"past targets are inputs, since with them the warm-up was predicted better: "
            f"{option('lags', lags, python)}; {option('lags', 'none', python)} omits them"
        )
    if learner.is_warmed_up:
        found += [
            f"target column '{name}' had the single value {value:g} in all rows of the warm-up, so its scale was "
            f"unknown and nothing could be fitted; a longer warm-up may help"
            for name, value in zip(targets, learner.constant_targets, strict=True)
            if value is not None
        ]
    renewed = [expert for expert in expert_table(learner) if expert["since"]]
    if renewed:
        found.append(
            f"experts fitted anew as the stream went on, last after row {max(e['since'] for e in renewed):,}, have "
            f"{sum(e['weight'] for e in renewed):.0%} of the weight"
        )
    if learner.state.share_working < ALL_WORK:
        found.append(
            f"in the mean {learner.state.share_working:.0%} of the filters worked: the others had next to no weight"
        )
    if skipped_rows:
        found.append(skipped(skipped_rows, first_fault))
    if learner.state.imputed_values:
        found.append(f"filled {plural(learner.state.imputed_values, 'missing input')}")
    if (timetable := learner.state.timetable) is not None and timetable.missed:
        steps = plural(timetable.missed, "step")
        found.append(
            f"{steps} of the clock had no row: lags and seasons count {'it' if timetable.missed == 1 else 'them'}"
        )
    if metrics.unlabelled_rows:
        found.append(f"predicted {plural(metrics.unlabelled_rows, 'row')} without {_missing(learner)}")
    if learner.state.flagged_rows:
        found.append(
            f"{plural(learner.state.flagged_rows, 'row')} flagged as outliers: predicted and "
            f"scored like the others, but hardly learnt"
        )
    if learner.state.restarted:
        found.append(
            f"{plural(len(learner.state.restarted), 'filter')} had numbers that were not finite and started again "
            f"from the prior"
        )
    if learner.state.outside_rows:
        found.append(
            f"{plural(learner.state.outside_rows, 'row')} outside the range that some basis was built for in "
            f"the warm-up; there its features stay as at the edge"
        )
    return found
