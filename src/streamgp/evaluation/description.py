"""A description of a run or an evaluation: its model, scores, speed and notes."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamgp.evaluation.scored_rows import Metrics
from streamgp.reports.wording import option, plural
from streamgp.stream.lags import lag_names
from streamgp.stream.learner import StreamLearner
from streamgp.table.codes import say_suspects

# From this share of working filters on, it is not mentioned.
ALL_WORK = 0.995


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
    stream = seconds["stream"]
    return {
        "task": learner.spec.task,
        "model": learner.spec.model,
        "targets": list(targets),
        "target": targets[0],
        "features": [*features, *lag_names(targets, learner.spec.lags)],
        "lags": list(learner.spec.lags),
        "horizon": learner.spec.horizon or None,
        "conformal": None,
        "steps_ahead": None,
        "late_labels": None,
        **scores,
        "by_target": _by_target(targets, scores),
        "seconds": dict(seconds),
        "rows_per_second": learnt / stream if learnt > 0 and stream > 0 else None,
        "imputed_values": learner.imputed_values,
        "outside_rows": learner.outside_rows,
        "flagged_rows": learner.flagged_rows,
        "restarted_filters": len(learner.restarted),
        "experts": expert_table(learner),
        "models": learner.local_models,
        "rules": [{"name": name, "weight": weight} for name, weight in learner.rules.items()],
    }


def _by_target(targets: Sequence[str], scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of every target of numbers or counts, by its name."""
    if "nmse" not in scores:
        return {}
    own = ("nmse", "rmse", "mae", "unflagged", "crps", "coverage", "naive", "judgement")
    each = scores.get("per_target") or {targets[0]: {name: scores[name] for name in own if name in scores}}
    return dict(zip(targets, each.values(), strict=True))


def expert_table(learner: StreamLearner) -> list[dict[str, Any]]:
    """Return the experts with their present weights, of local models those alive; empty in the warm-up."""
    rows = [
        {**vars(expert), "weight": float(weight)}
        for expert, weight in zip(learner.experts, learner.weights if learner.experts else [], strict=True)
    ]
    return rows[: len(learner.local_models)] if learner.local_models else rows


def _missing(learner: StreamLearner) -> str:
    """Say what rows without a target lacked, and what was learnt of them."""
    if learner.num_outputs == 1:
        return "a target, and learnt none"
    if learner.learns_apart:
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
    if learner.share_working < ALL_WORK:
        found.append(
            f"in the mean {learner.share_working:.0%} of the filters worked: the others had next to no weight"
        )
    if skipped_rows:
        found.append(skipped(skipped_rows, first_fault))
    if learner.imputed_values:
        found.append(f"filled {plural(learner.imputed_values, 'missing input')}")
    if metrics.unlabelled_rows:
        found.append(f"predicted {plural(metrics.unlabelled_rows, 'row')} without {_missing(learner)}")
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
