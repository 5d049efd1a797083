"""Test-then-train evaluation and its scores."""

from streamgp.evaluation.metrics import RowScores, StreamMetrics, score_rows
from streamgp.evaluation.prequential import Evaluation, ScoredRows, prequential

__all__ = ["Evaluation", "RowScores", "ScoredRows", "StreamMetrics", "prequential", "score_rows"]
