"""streamgp: learn from data streams with honest error bars."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgp.bandits import TimeVaryingOptimizer
    from streamgp.checkpoint import CheckpointError
    from streamgp.data import DataError
    from streamgp.estimators import (
        Monitor,
        SplittingGPRegressor,
        StreamingGPClassifier,
        StreamingGPCountRegressor,
        StreamingGPLVM,
        StreamingGPOrdinal,
        StreamingGPRegressor,
        evaluate,
    )
    from streamgp.evaluation import Evaluation
    from streamgp.fleet import StreamingGPFleet

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "DataError",
    "Evaluation",
    "Monitor",
    "SplittingGPRegressor",
    "StreamingGPClassifier",
    "StreamingGPCountRegressor",
    "StreamingGPFleet",
    "StreamingGPLVM",
    "StreamingGPOrdinal",
    "StreamingGPRegressor",
    "TimeVaryingOptimizer",
    "evaluate",
]

_HOMES = {
    "CheckpointError": "streamgp.checkpoint",
    "DataError": "streamgp.data",
    "Evaluation": "streamgp.evaluation",
    "Monitor": "streamgp.estimators",
    "SplittingGPRegressor": "streamgp.estimators",
    "StreamingGPClassifier": "streamgp.estimators",
    "StreamingGPCountRegressor": "streamgp.estimators",
    "StreamingGPFleet": "streamgp.fleet",
    "StreamingGPLVM": "streamgp.estimators",
    "StreamingGPOrdinal": "streamgp.estimators",
    "StreamingGPRegressor": "streamgp.estimators",
    "TimeVaryingOptimizer": "streamgp.bandits",
    "evaluate": "streamgp.estimators",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `streamgp --help` need not wait for JAX.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'streamgp' has no attribute {name!r}")
