"""Test-then-train evaluation and its scores, one module for each task; the names of `streamgp.regret` as well."""

from streamgp.evaluation.alarms import Alarm, Alarms
from streamgp.evaluation.change_tests import e_bh
from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores, score_classification
from streamgp.evaluation.comparison import Comparison
from streamgp.evaluation.conformal import AdaptiveThreshold, Conformal
from streamgp.evaluation.conformal_sets import ConformalSets
from streamgp.evaluation.counts import CountMetrics, CountScores, score_counts
from streamgp.evaluation.fleet_alarms import fleet_alarms
from streamgp.evaluation.ordinal import OrdinalMetrics, OrdinalScores, score_ordinal
from streamgp.evaluation.regression import RegressionMetrics, RegressionScores, score_regression
from streamgp.evaluation.result import ClassificationEvaluation, Evaluation
from streamgp.evaluation.scored_rows import ScoredRows, results
from streamgp.evaluation.steps_ahead import RowsAhead, StepsAhead
from streamgp.regret.bounds import (
    Bound,
    optimal_stay,
    sequence_bound,
    slots_bound,
    static_bound,
    static_kernel_bound,
    switching_kernel_bound,
)
from streamgp.regret.hindsight import Hindsight, best_fit, best_functions, hindsight_basis, hindsight_kernel
from streamgp.regret.losses import Losses, best_sequence, run_losses, sequence_regret, static_regret, switching_regret

__all__ = [
    "AdaptiveThreshold",
    "Alarm",
    "Alarms",
    "Bound",
    "ClassificationEvaluation",
    "ClassificationMetrics",
    "ClassificationScores",
    "Comparison",
    "Conformal",
    "ConformalSets",
    "CountMetrics",
    "CountScores",
    "Evaluation",
    "Hindsight",
    "Losses",
    "OrdinalMetrics",
    "OrdinalScores",
    "RegressionMetrics",
    "RegressionScores",
    "RowsAhead",
    "ScoredRows",
    "StepsAhead",
    "best_fit",
    "best_functions",
    "best_sequence",
    "e_bh",
    "fleet_alarms",
    "hindsight_basis",
    "hindsight_kernel",
    "optimal_stay",
    "results",
    "run_losses",
    "score_classification",
    "score_counts",
    "score_ordinal",
    "score_regression",
    "sequence_bound",
    "sequence_regret",
    "slots_bound",
    "static_bound",
    "static_kernel_bound",
    "static_regret",
    "switching_kernel_bound",
    "switching_regret",
]
