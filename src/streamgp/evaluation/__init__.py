"""The scores of predictions, of arrays and along a stream, bands that hold their share, and alarms.

`metrics` has the scores of arrays. `regression` (of rows: `regression_scores`), `classification`, `counts`, `ordinal`
and `joint` have those of each kind of target along a stream, in sums of constant memory (`running_sums`);
`scored_rows` is what they leave of a part of the stream. `seasonal`, `baseline_bands` and `boosted_trees` are the
baselines. `steps_ahead` and `step_baselines` score forecasts by step. Bands and sets: `conformal`,
`conformal_sets`; by groups of rows `row_groups`, `group_thresholds`, `group_bands` and `coverage_tests`; by fifths
and hours `kinds_of_rows`. Alarms: `alarms` runs `error_tests`, `move_tests` and `run_tests`, all by the bets of
`change_tests`. The verdict on a model beside its baselines is in `metrics.judgement`, its words in
`streamgp.reports`; the results that the user gets are in `streamgp.estimators`.
"""

from typing import TYPE_CHECKING

from streamgp.on_demand import on_demand

if TYPE_CHECKING:
    from streamgp.evaluation.alarms import Alarm, Alarms
    from streamgp.evaluation.change_tests import e_bh
    from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores, score_classification
    from streamgp.evaluation.conformal import AdaptiveThreshold, Conformal
    from streamgp.evaluation.conformal_sets import ConformalSets
    from streamgp.evaluation.counts import CountMetrics, CountScores, score_counts
    from streamgp.evaluation.ordinal import OrdinalMetrics, OrdinalScores, score_ordinal
    from streamgp.evaluation.regression import RegressionMetrics
    from streamgp.evaluation.regression_scores import RegressionScores, score_regression
    from streamgp.evaluation.scored_rows import ScoredRows, results
    from streamgp.evaluation.steps_ahead import RowsAhead, StepsAhead

__all__ = [
    "AdaptiveThreshold",
    "Alarm",
    "Alarms",
    "ClassificationMetrics",
    "ClassificationScores",
    "Conformal",
    "ConformalSets",
    "CountMetrics",
    "CountScores",
    "OrdinalMetrics",
    "OrdinalScores",
    "RegressionMetrics",
    "RegressionScores",
    "RowsAhead",
    "ScoredRows",
    "StepsAhead",
    "e_bh",
    "results",
    "score_classification",
    "score_counts",
    "score_ordinal",
    "score_regression",
]

_HOMES = {
    "AdaptiveThreshold": "streamgp.evaluation.conformal",
    "Alarm": "streamgp.evaluation.alarms",
    "Alarms": "streamgp.evaluation.alarms",
    "ClassificationMetrics": "streamgp.evaluation.classification",
    "ClassificationScores": "streamgp.evaluation.classification",
    "Conformal": "streamgp.evaluation.conformal",
    "ConformalSets": "streamgp.evaluation.conformal_sets",
    "CountMetrics": "streamgp.evaluation.counts",
    "CountScores": "streamgp.evaluation.counts",
    "OrdinalMetrics": "streamgp.evaluation.ordinal",
    "OrdinalScores": "streamgp.evaluation.ordinal",
    "RegressionMetrics": "streamgp.evaluation.regression",
    "RegressionScores": "streamgp.evaluation.regression_scores",
    "RowsAhead": "streamgp.evaluation.steps_ahead",
    "ScoredRows": "streamgp.evaluation.scored_rows",
    "StepsAhead": "streamgp.evaluation.steps_ahead",
    "e_bh": "streamgp.evaluation.change_tests",
    "results": "streamgp.evaluation.scored_rows",
    "score_classification": "streamgp.evaluation.classification",
    "score_counts": "streamgp.evaluation.counts",
    "score_ordinal": "streamgp.evaluation.ordinal",
    "score_regression": "streamgp.evaluation.regression_scores",
}

# Scores along a stream bring the learner, which who scores arrays never needs.
__getattr__ = on_demand(__name__, _HOMES)
