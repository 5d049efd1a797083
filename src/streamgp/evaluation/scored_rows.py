"""Rows of a stream after they were predicted, scored and learnt, and the summary of their scores."""

from typing import Any, NamedTuple

import numpy as np

from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores
from streamgp.evaluation.counts import CountMetrics, CountScores
from streamgp.evaluation.ordinal import OrdinalMetrics, OrdinalScores
from streamgp.evaluation.references import Experts
from streamgp.evaluation.regression import RegressionMetrics
from streamgp.evaluation.regression_scores import RegressionScores, values_known
from streamgp.evaluation.seasonal import Clock
from streamgp.evaluation.steps_ahead import RowsAhead
from streamgp.numerics.precision import in_float64
from streamgp.stream.learner import StreamLearner
from streamgp.table import Chunk

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
        The lower and upper ends (n, E) of conformal bands, or which classes (n, J) conformal sets hold, if there are
        any.
    flagged
        Which rows were set aside as outliers; None where the model sets none aside.
    ahead
        The forecasts that were made of the rows several steps before, if they are asked for.
    experts
        What each expert said of the rows, for those who look at them right away; None of models without experts of
        numbers.
    """

    start: int
    scores: Scores
    weights: np.ndarray | None
    rules: np.ndarray | None
    persistence: np.ndarray
    running_mean: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | np.ndarray | None = None
    flagged: np.ndarray | None = None
    ahead: RowsAhead | None = None
    experts: Experts | None = None

    @property
    def by_experts(self) -> bool:
        """Return whether the fitted experts predicted the rows."""
        return self.weights is not None


@in_float64
def score_rows(
    metrics: Any, learner: StreamLearner, predictive: Any, rows: Chunk, flagged: np.ndarray | None
) -> tuple[Scores, tuple[np.ndarray, np.ndarray]]:
    """Score a batch and add it to `metrics`; return the scores, and the predictions of the baselines."""
    X, y = rows.X, rows.y
    exposed = [np.exp(X[:, -1:])] if isinstance(metrics, CountMetrics) and learner.spec.exposure else []
    if codes := learner.categories.encoded:  # numbers without order
        X = X.copy()
        X[:, codes] = np.nan
    clock = Clock(learner.settings.clock(rows.X, rows.times), learner.latest_fit.timetable)
    if np.isfinite(y).all():
        scores = metrics.score(predictive, y, *exposed)
        if isinstance(metrics, CountMetrics):
            return scores, metrics.add(scores, learner.seasons, clock)
        if not isinstance(metrics, RegressionMetrics):
            return scores, metrics.add(scores)
        known = values_known(predictive, scores, X)
        return scores, metrics.add(scores, flagged, known, rows.times, learner.seasons, clock)
    scores: Any = _drop_target_scores(metrics.score(predictive, np.where(np.isnan(y), 0.0, y), *exposed), y)
    # Some targets of the row are observed.
    if isinstance(metrics, RegressionMetrics) and np.isfinite(y).any():
        known = values_known(predictive, scores, X)
        return scores, metrics.add(scores, flagged, known, rows.times, learner.seasons, clock)
    if isinstance(metrics, RegressionMetrics | CountMetrics):
        return scores, metrics.add_unlabelled(scores, clock)
    return scores, metrics.add_unlabelled(scores)


# The fields of scores that depend on the target.
_OF_TARGETS = ("pit", "pit_below", "crps", "log_density", "moment_log_density", "brier", "rps")
_OF_TARGETS += ("joint_log_density", "energy")


def _drop_target_scores(scores: Any, y: np.ndarray) -> Scores:
    """Keep of the scores of rows without a target the predictions alone, with NaN (of labels, -1) for all else.

    Of several targets those that are there keep their own; what is of all of them together is NaN where one is not.
    """
    absent = np.isnan(y)

    def blanked(a: np.ndarray) -> np.ndarray:
        return np.where(
            absent if a.shape == y.shape else absent.any(axis=1).reshape(-1, *(1,) * (a.ndim - 1)), np.nan, a
        )

    blank = {name: blanked(a) for name, a in scores._asdict().items() if name in _OF_TARGETS}
    missing = np.full_like(scores.y, -1) if scores.y.dtype.kind == "i" else y
    return scores._replace(**blank, y=missing)


def results(metrics: Metrics, learner: StreamLearner) -> dict[str, Any]:
    """Return the scores, and the judgement made of them, each target's own under ``per_target``.

    Log densities are of the targets as they came, and besides, as papers print them, in units of the warm-up's
    standard deviation, named so.
    """
    scores = metrics.result()
    judgements = [each.to_json() for each in metrics.judgements()]
    scores["judgement"] = judgements[0]
    for each, judgement in zip(scores.get("per_target", {}).values(), judgements, strict=False):
        each["judgement"] = judgement
    if not isinstance(metrics, RegressionMetrics):
        return scores
    unit = float(np.sum(np.log(learner.target_scale)))
    for name in ("pll", "pll_moment", *(("joint_pll",) if "joint_pll" in scores else ())):
        scores[f"{name}_standardised"] = None if scores[name] is None else scores[name] + unit
    return scores
