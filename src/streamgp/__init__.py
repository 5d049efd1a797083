"""streamgp: learn from data streams with honest error bars."""

from streamgp.checkpoint import CheckpointError
from streamgp.data import DataError
from streamgp.estimators import StreamingGPRegressor, evaluate
from streamgp.evaluation import Evaluation

__version__ = "0.1.0"

__all__ = ["CheckpointError", "DataError", "Evaluation", "StreamingGPRegressor", "evaluate"]
