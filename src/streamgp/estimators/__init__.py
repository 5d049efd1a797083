"""Estimators for NumPy arrays and data frames, with scikit-learn's conventions."""

from streamgp.estimators.base import default_warmup
from streamgp.estimators.classifier import StreamingGPClassifier
from streamgp.estimators.compare import compare
from streamgp.estimators.comparison import Comparison
from streamgp.estimators.counts import StreamingGPCountRegressor
from streamgp.estimators.early import WarmupWarning
from streamgp.estimators.evaluate import evaluate
from streamgp.estimators.loading import load
from streamgp.estimators.monitor import Monitor
from streamgp.estimators.ordinal import StreamingGPOrdinal
from streamgp.estimators.regressor import StreamingGPRegressor
from streamgp.estimators.result import ClassificationEvaluation, Evaluation
from streamgp.evaluation.description import expert_table

__all__ = [
    "ClassificationEvaluation",
    "Comparison",
    "Evaluation",
    "Monitor",
    "StreamingGPClassifier",
    "StreamingGPCountRegressor",
    "StreamingGPOrdinal",
    "StreamingGPRegressor",
    "WarmupWarning",
    "compare",
    "default_warmup",
    "evaluate",
    "expert_table",
    "load",
]
