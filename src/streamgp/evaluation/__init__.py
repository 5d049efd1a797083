"""Test-then-train evaluation and its scores."""

from streamgp.evaluation.metrics import RowScores, StreamMetrics, score_rows
from streamgp.evaluation.prequential import Evaluation, ScoredRows, prequential, results

__all__ = ["Evaluation", "RowScores", "ScoredRows", "StreamMetrics", "prequential", "results", "score_rows"]
