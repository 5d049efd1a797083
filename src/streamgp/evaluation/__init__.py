"""Test-then-train evaluation and its scores; the names of `streamgp.regret` are here, too."""

from streamgp.evaluation.classification import ClassMetrics, ClassScores, score_labels
from streamgp.evaluation.conformal import AdaptiveThreshold, Conformal
from streamgp.evaluation.counts import CountMetrics, CountScores, score_counts
from streamgp.evaluation.metrics import RowScores, StreamMetrics, score_rows
from streamgp.evaluation.ordinal import GradeMetrics, GradeScores, score_grades
from streamgp.evaluation.prequential import Evaluation, ScoredRows, prequential, results
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
    "Bound",
    "ClassMetrics",
    "ClassScores",
    "Conformal",
    "CountMetrics",
    "CountScores",
    "Evaluation",
    "GradeMetrics",
    "GradeScores",
    "Hindsight",
    "Losses",
    "RowScores",
    "ScoredRows",
    "StreamMetrics",
    "best_fit",
    "best_functions",
    "best_sequence",
    "hindsight_basis",
    "hindsight_kernel",
    "optimal_stay",
    "prequential",
    "results",
    "run_losses",
    "score_counts",
    "score_grades",
    "score_labels",
    "score_rows",
    "sequence_bound",
    "sequence_regret",
    "slots_bound",
    "static_bound",
    "static_kernel_bound",
    "static_regret",
    "switching_kernel_bound",
    "switching_regret",
]
