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
        WarmupWarning,
        compare,
        evaluate,
        load,
    )
    from streamgp.evaluation import Comparison, Evaluation
    from streamgp.fleet import StreamingGPFleet
    from streamgp.numerics.compiled_programs import keep_compiled_programs

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "Comparison",
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
    "WarmupWarning",
    "compare",
    "evaluate",
    "keep_compiled_programs",
    "load",
]

_HOMES = {
    "CheckpointError": "streamgp.checkpoint",
    "Comparison": "streamgp.evaluation",
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
    "WarmupWarning": "streamgp.estimators",
    "compare": "streamgp.estimators",
    "evaluate": "streamgp.estimators",
    "keep_compiled_programs": "streamgp.numerics.compiled_programs",
    "load": "streamgp.estimators",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `streamgp --help` need not wait for JAX.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'streamgp' has no attribute {name!r}")
