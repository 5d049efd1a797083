"""The result of `evaluate`: the predictions and scores of all rows."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamgp.estimators.shown import Given, Shown
from streamgp.evaluation.alarms import Alarm
from streamgp.evaluation.columns import columns_of
from streamgp.evaluation.ordinal import OrdinalScores
from streamgp.evaluation.scored_rows import ScoredRows
from streamgp.stream.learner import StreamLearner
from streamgp.table.labels import ClassNames


@dataclass
class Evaluation(Shown):
    """The result of `evaluate`; arrays have one entry per row that was given, in the order of the stream.

    Rows that ``missing="skip"`` left out are NaN in all of them. Rows whose target is missing have their prediction,
    while `pit`, `crps` and `log_density` are NaN, and no metric counts them.

    Attributes
    ----------
    mean, std, q05, q50, q95, pit, crps
        Of each row's one-step-ahead prediction (with a horizon h, of the forecast made h rows before), shape (n,),
        or (n, E) with several targets.
    log_density
        Log density of the row's target(s) under the mixture, shape (n,).
    weights
        The weights that mixed the prediction, shape (n, K); NaN where it was made in the warm-up, by other experts.
        By far the largest array: with 270 experts 2 kB a row, 432 MB for 200,000 rows. ``evaluate(weights=False)``
        keeps none, and to ask for them is an AttributeError then.
    rules
        How much each weight rule counted, by name, each of shape (n,) with NaN as above; empty where a single
        rule weighs the experts.
    conformal
        Lower and upper ends of the conformal bands, shape (n, 2) or (n, E, 2); None unless asked for.
    metrics
        Scores over the rows after the warm-up: nmse, rmse, mae, pll and pll_moment (mean log density of the
        mixture, and of one Gaussian with its moments; ``_standardised``: of the standardised target), crps,
        coverage, naive; judgement, how the model stands beside these; unflagged (rows, nmse, rmse, mae and naive of
        those that were not flagged as outliers; None where none was); conformal (coverage, width and unbounded_rows
        of its bands and, under ``own``, coverage and width of the model's of the same level).
    alarms
        The changes that were found, in their order; None unless asked for.
    """

    mean: np.ndarray = field(repr=False)
    std: np.ndarray = field(repr=False)
    q05: np.ndarray = field(repr=False)
    q50: np.ndarray = field(repr=False)
    q95: np.ndarray = field(repr=False)
    pit: np.ndarray = field(repr=False)
    crps: np.ndarray = field(repr=False)
    log_density: np.ndarray = field(repr=False)
    _weights: np.ndarray | None = field(repr=False)
    rules: dict[str, np.ndarray] = field(repr=False)
    metrics: dict[str, Any]
    conformal: np.ndarray | None = field(repr=False)
    _given: Given = field(repr=False, compare=False)
    alarms: list[Alarm] | None = None


@dataclass
class ClassificationEvaluation(Shown):
    """The result of `evaluate` for labels and grades; arrays have one entry per row given, in their order.

    Rows that ``missing="skip"`` left out are NaN in all of them, None in `predicted`, which then holds objects. Rows
    whose label is missing have their prediction, while `log_density` is NaN, and no metric counts them.

    Attributes
    ----------
    probabilities
        Of each class known at the end (n, K), in the order of the model's ``classes_``, before the label was seen;
        zero for a class that no row had had by then.
    predicted
        The most probable class; of grades the median.
    log_density
        Log probability of the row's label, shape (n,).
    weights, rules
        As in `Evaluation`.
    metrics
        Scores over the rows after the warm-up: see `streamgp.evaluation.ClassificationMetrics` and `OrdinalMetrics`;
        conformal (coverage and mean size of its sets and, under ``own``, of the least sets of the same share by the
        model's probabilities).
    conformal
        Which classes the conformal set of each row holds, (n, K); None unless asked for.
    """

    probabilities: np.ndarray = field(repr=False)
    predicted: np.ndarray = field(repr=False)
    log_density: np.ndarray = field(repr=False)
    _weights: np.ndarray | None = field(repr=False)
    rules: dict[str, np.ndarray] = field(repr=False)
    metrics: dict[str, Any]
    conformal: np.ndarray | None = field(repr=False)
    _given: Given = field(repr=False, compare=False)


def collect(
    batches: list[ScoredRows], metrics: dict[str, Any], learner: StreamLearner, given: Given, single: bool
) -> Evaluation:
    """Join the batches that `learner` has scored into one `Evaluation`; `single` drops the axis of targets.

    The weights move out of `batches`: those of hundreds of experts are the bulk, and are never in memory twice.
    """
    arrays: dict[str, Any] = {}
    for name in ("mean", "std", "q05", "q50", "q95", "pit", "crps"):
        joined = np.concatenate([getattr(batch.scores, name) for batch in batches])
        arrays[name] = joined[:, 0] if single else joined
    ends = [np.stack([*batch.band], axis=-1) for batch in batches if batch.band is not None]
    arrays["conformal"] = None if not ends else np.concatenate(ends)[:, 0] if single else np.concatenate(ends)
    table = _join([columns_of(batch, given.about["targets"]) for batch in batches])
    arrays |= _join_weights(batches, learner, given.weighed)
    return _spread(Evaluation(**arrays, metrics=metrics, _given=replace(given, table=table)))


def collect_classification(
    batches: list[ScoredRows], metrics: dict[str, Any], learner: StreamLearner, given: Given, labels: np.ndarray
) -> ClassificationEvaluation:
    """Join the batches that `learner` has scored; `labels` are those of the user, by code."""
    probabilities = np.zeros((sum(len(batch.scores.y) for batch in batches), len(labels)))
    sets = np.zeros(probabilities.shape, bool) if any(batch.band is not None for batch in batches) else None
    at, codes = 0, []
    for batch in batches:
        scores: Any = batch.scores
        known = scores.probabilities
        part = np.s_[at : at + len(known), : known.shape[1]]
        probabilities[part] = known
        if sets is not None:
            sets[part] = batch.band
        at += len(known)
        codes.append(scores.median if isinstance(scores, OrdinalScores) else scores.predicted)
    names = tuple(map(str, labels.tolist()))
    named = ClassNames.from_first_rows(names, "text" if labels.dtype.kind in "OUS" else "numeric")
    table = _join([columns_of(batch, given.about["targets"], named) for batch in batches])
    found = ClassificationEvaluation(
        probabilities,
        labels[np.concatenate(codes)],
        **_join_weights(batches, learner, given.weighed),
        metrics=metrics,
        conformal=sets,
        _given=replace(given, table=table, labels=dict(zip(names, labels.tolist(), strict=True))),
    )
    return _spread(found)


def _join(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join tables of which the later ones may have more columns, of new classes: NaN before."""
    # The last table has all columns.
    names = parts[-1]
    rows = [len(part["y"]) for part in parts]
    return {
        name: np.concatenate(
            [part[name] if name in part else np.full(n, np.nan) for n, part in zip(rows, parts, strict=True)]
        )
        for name in names
    }


def _spread(evaluation: Any) -> Any:
    """Extend the arrays of the rows that were kept to all rows given, with NaN for the others."""
    given = evaluation._given
    if len(given.kept) == given.rows:
        return evaluation

    def extend(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: extend(each) for name, each in values.items()}
        return None if values is None else given.spread(values)

    fields = {name: each for name, each in vars(evaluation).items() if name not in ("metrics", "alarms", "_given")}
    return replace(evaluation, **{name: extend(each) for name, each in fields.items()})


def _join_weights(batches: list[ScoredRows], learner: StreamLearner, weighed: bool) -> dict[str, Any]:
    names = list(learner.rules)
    rules = _move_out(batches, "rules", len(names))
    return {
        "log_density": np.concatenate([batch.scores.log_density for batch in batches]),
        "_weights": _move_out(batches, "weights", len(learner.weights)) if weighed else None,
        "rules": dict(zip(names, rules.T, strict=True)),
    }


def _move_out(batches: list[ScoredRows], name: str, width: int) -> np.ndarray:
    """Join a field of the batches, NaN where a batch has none; each batch drops its own once it is copied."""
    joined = np.empty((sum(len(batch.scores.y) for batch in batches), width))
    at = 0
    for i, batch in enumerate(batches):
        found = getattr(batch, name)
        stop = at + len(batch.scores.y)
        joined[at:stop] = np.nan if found is None else found
        batches[i] = batch._replace(**{name: None})
        at = stop
    return joined
