"""The one test-then-train loop: every row is predicted, scored, and only then learnt."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.core import Info
from streamgp.evaluation.alarms import Alarm
from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores
from streamgp.evaluation.conformal import Conformal
from streamgp.evaluation.counts import CountMetrics, CountScores
from streamgp.evaluation.ordinal import OrdinalMetrics, OrdinalScores
from streamgp.evaluation.regression import RegressionMetrics, RegressionScores
from streamgp.precision import float64, in_float64
from streamgp.stream.learner import StreamLearner

Metrics = RegressionMetrics | ClassificationMetrics | CountMetrics | OrdinalMetrics
Scores = RegressionScores | ClassificationScores | CountScores | OrdinalScores


class ScoredRows(NamedTuple):
    """A batch of the stream after it was predicted, scored and learnt.

    Attributes
    ----------
    start
        The first row of the batch in the chunk that it came from.
    scores
        The predictions, the targets and the scores.
    weights
        The weights that mixed the predictions (n, K). None where these are not of the fitted experts: in the warm-up
        and, with a horizon h, for h - 1 rows after it.
    rules
        The weights of several weight rules (n, R); None where there is one rule.
    persistence, running_mean
        The predictions of the naive baselines: of measurements and counts, like the model's; of classes and grades,
        the code (n,) of the last one, and the probabilities (n, J) by frequency.
    band
        The lower and upper ends (n, E) of conformal bands, if there are any.
    flagged
        Which rows were set aside as outliers; None where the model sets none aside.
    """

    start: int
    scores: Scores
    weights: np.ndarray | None
    rules: np.ndarray | None
    persistence: np.ndarray
    running_mean: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None = None
    flagged: np.ndarray | None = None


def prequential(
    learner: StreamLearner,
    chunks: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray | None]],
    metrics: Metrics,
    conformal: Conformal | None = None,
) -> Iterator[ScoredRows]:
    """Predict, score and learn the chunks (X, y, times) in order, with the `Metrics` that suit the task.

    With `conformal`, each row gets a band from the rows before it.
    """
    for X, y, times in chunks:
        at = 0
        while at < len(X):
            by_experts = learner.predicts_by_fit
            info = next(learner.learn(X[at:], y[at:], None if times is None else times[at:]))
            predictive = info.predictive
            n = len(predictive.log_weights)
            flagged, rows = _find_flagged(learner, info, n), slice(at, at + n)
            scores, (persistence, running) = _score_batch(metrics, learner, predictive, X[rows], y[rows], flagged)
            mixed = np.exp(predictive.log_weights) if info.weights is None else info.weights
            weights = np.asarray(mixed) if by_experts else None
            rules = np.asarray(info.rules) if by_experts and info.rules is not None else None
            band = None if conformal is None else _band(conformal, predictive, scores)
            yield ScoredRows(at, scores, weights, rules, persistence, running, band, flagged)
            at += n


def _find_flagged(learner: StreamLearner, info: Info, n: int) -> np.ndarray | None:
    """Mark the rows that were set aside as outliers; None for models that set none aside."""
    if not learner.settings.task.flags_outliers:
        return None
    return np.zeros(n, bool) if info.flagged is None else np.asarray(info.flagged)


@in_float64
def _score_batch(
    metrics: Any, learner: StreamLearner, predictive: Any, X: np.ndarray, y: np.ndarray, flagged: np.ndarray | None
) -> tuple[Scores, tuple[np.ndarray, np.ndarray]]:
    """Score a batch and add it to `metrics`; return the scores, and the predictions of the baselines."""
    exposed = [np.exp(X[:, -1:])] if isinstance(metrics, CountMetrics) and learner.spec.exposure else []
    if np.isfinite(y).all():
        scores = metrics.score(predictive, y, *exposed)
        marks = [flagged] if isinstance(metrics, RegressionMetrics) else []
        return scores, metrics.add(scores, *marks)
    # The learner never mixes rows with a target and rows without one in a batch.
    scores: Any = _drop_target_scores(metrics.score(predictive, np.zeros_like(y), *exposed), y)
    return scores, metrics.add_unlabelled(scores)


# The fields of scores that depend on the target.
_OF_TARGETS = ("pit", "pit_below", "crps", "log_density", "moment_log_density", "brier", "rps")


def _drop_target_scores(scores: Any, y: np.ndarray) -> Scores:
    """Leave of the scores of rows without a target the predictions alone, with NaN (of labels, -1) for all else."""
    blank = {name: np.full_like(a, np.nan) for name, a in scores._asdict().items() if name in _OF_TARGETS}
    missing = np.full_like(scores.y, -1) if scores.y.dtype.kind == "i" else y
    return scores._replace(**blank, y=missing)


def _band(conformal: Conformal, predictive: Any, scores: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the conformal bands of rows, and adapt those of the next rows to their targets."""
    if not np.isfinite(scores.y).all():
        return conformal.predict(scores.mean, scores.std)
    if conformal.level == 0.9:
        own = scores.q05, scores.q95
    else:
        with float64():
            low, high = conformal.probabilities
            own = np.asarray(predictive.quantile(low)), np.asarray(predictive.quantile(high))
    return conformal.add(scores.y, scores.mean, scores.std, own)


def results(metrics: Metrics, learner: StreamLearner) -> dict[str, Any]:
    """Return the scores; log densities also in units of the warm-up's standard deviation, as papers print them."""
    scores = metrics.result()
    if not isinstance(metrics, RegressionMetrics):
        return scores
    unit = float(np.sum(np.log(learner.target_scale)))
    for name in ("pll", "pll_moment"):
        scores[f"{name}_standardised"] = None if scores[name] is None else scores[name] + unit
    return scores


@dataclass
class Evaluation:
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
        By far the largest array: with 270 experts 2 kB a row, 432 MB for 200,000 rows.
    rules
        How much each weight rule counted, by name, each of shape (n,) with NaN as above; empty where a single
        rule weighs the experts.
    conformal
        Lower and upper ends of the conformal bands, shape (n, 2) or (n, E, 2); None unless asked for.
    metrics
        Scores over the rows after the warm-up: nmse, rmse, mae, pll and pll_moment (mean log density of the
        mixture, and of one Gaussian with its moments; ``_standardised``: of the standardised target), crps,
        coverage, naive; unflagged (rows, nmse, rmse, mae and naive of those that were not flagged as outliers; None
        where none was); conformal (coverage, width and unbounded_rows of its bands and, under ``own``, coverage and
        width of the model's of the same level).
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
    weights: np.ndarray = field(repr=False)
    rules: dict[str, np.ndarray] = field(repr=False)
    metrics: dict[str, Any]
    conformal: np.ndarray | None = field(repr=False, default=None)
    alarms: list[Alarm] | None = None


@dataclass
class ClassificationEvaluation:
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
        Scores over the rows after the warm-up: see `streamgp.evaluation.ClassificationMetrics` and `OrdinalMetrics`.
    """

    probabilities: np.ndarray = field(repr=False)
    predicted: np.ndarray = field(repr=False)
    log_density: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    rules: dict[str, np.ndarray] = field(repr=False)
    metrics: dict[str, Any]


def collect(batches: list[ScoredRows], metrics: dict[str, Any], learner: StreamLearner, single: bool) -> Evaluation:
    """Join the batches that `learner` has scored into one `Evaluation`; `single` drops the axis of targets.

    The weights move out of `batches`: those of hundreds of experts are the bulk, and are never in memory twice.
    """
    arrays = {}
    for name in ("mean", "std", "q05", "q50", "q95", "pit", "crps"):
        joined = np.concatenate([getattr(batch.scores, name) for batch in batches])
        arrays[name] = joined[:, 0] if single else joined
    ends = [np.stack(batch.band, axis=-1) for batch in batches if batch.band is not None]
    band = None if not ends else np.concatenate(ends)[:, 0] if single else np.concatenate(ends)
    return Evaluation(**arrays, **_join_weights(batches, learner), metrics=metrics, conformal=band)


def collect_classification(
    batches: list[ScoredRows], metrics: dict[str, Any], learner: StreamLearner, names: np.ndarray
) -> ClassificationEvaluation:
    """Join the batches that `learner` has scored; `names` are the labels by code."""
    probabilities = np.zeros((sum(len(batch.scores.y) for batch in batches), len(names)))
    at, codes = 0, []
    for batch in batches:
        scores: Any = batch.scores
        known = scores.probabilities
        probabilities[at : at + len(known), : known.shape[1]] = known
        at += len(known)
        codes.append(scores.median if isinstance(scores, OrdinalScores) else scores.predicted)
    return ClassificationEvaluation(
        probabilities, names[np.concatenate(codes)], **_join_weights(batches, learner), metrics=metrics
    )


def restore_skipped_rows(evaluation: Any, kept: np.ndarray, given: int) -> Any:
    """Extend an evaluation of the rows `kept` to all rows `given`, with NaN for the others."""
    if len(kept) == given:
        return evaluation

    def extend(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: extend(each) for name, each in values.items()}
        if values is None:
            return None
        as_float = values.dtype.kind == "f"
        wide = np.full((given, *values.shape[1:]), np.nan if as_float else None, values.dtype if as_float else object)
        wide[kept] = values
        return wide

    fields = {name: each for name, each in vars(evaluation).items() if name not in ("metrics", "alarms")}
    return replace(evaluation, **{name: extend(each) for name, each in fields.items()})


def _join_weights(batches: list[ScoredRows], learner: StreamLearner) -> dict[str, Any]:
    names = list(learner.rules)
    rules = _move_out(batches, "rules", len(names))
    return {
        "log_density": np.concatenate([batch.scores.log_density for batch in batches]),
        "weights": _move_out(batches, "weights", len(learner.weights)),
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
