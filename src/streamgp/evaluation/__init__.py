"""Test-then-train evaluation and its scores, one module for each task."""

from streamgp.evaluation.alarms import Alarm, Alarms
from streamgp.evaluation.change_tests import e_bh
from streamgp.evaluation.classification import ClassificationMetrics, ClassificationScores, score_classification
from streamgp.evaluation.comparison import Comparison
from streamgp.evaluation.conformal import AdaptiveThreshold, Conformal
from streamgp.evaluation.conformal_sets import ConformalSets
from streamgp.evaluation.counts import CountMetrics, CountScores, score_counts
from streamgp.evaluation.ordinal import OrdinalMetrics, OrdinalScores, score_ordinal
from streamgp.evaluation.regression import RegressionMetrics, RegressionScores, score_regression
from streamgp.evaluation.result import ClassificationEvaluation, Evaluation
from streamgp.evaluation.scored_rows import ScoredRows, results
from streamgp.evaluation.steps_ahead import RowsAhead, StepsAhead

__all__ = [
    "AdaptiveThreshold",
    "Alarm",
    "Alarms",
    "ClassificationEvaluation",
    "ClassificationMetrics",
    "ClassificationScores",
    "Comparison",
    "Conformal",
    "ConformalSets",
    "CountMetrics",
    "CountScores",
    "Evaluation",
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
