"""streamgp: learn from data streams with honest error bars."""

from typing import TYPE_CHECKING, Any

from streamgp.on_demand import imported
from streamgp.version import __version__ as __version__

if TYPE_CHECKING:
    from streamgp.bandits import TimeVaryingOptimizer
    from streamgp.estimators import (
        Comparison,
        Evaluation,
        Monitor,
        StreamingGPClassifier,
        StreamingGPCountRegressor,
        StreamingGPOrdinal,
        StreamingGPRegressor,
        WarmupWarning,
        compare,
        evaluate,
        load,
    )
    from streamgp.fleet import StreamingGPFleet
    from streamgp.latent import StreamingGPLVM
    from streamgp.numerics.checkpoint import CheckpointError
    from streamgp.numerics.compiled_programs import keep_compiled_programs
    from streamgp.research.splitting_regressor import SplittingGPRegressor
    from streamgp.table import DataError

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
    "CheckpointError": "streamgp.numerics.checkpoint",
    "Comparison": "streamgp.estimators",
    "DataError": "streamgp.table",
    "Evaluation": "streamgp.estimators",
    "Monitor": "streamgp.estimators",
    "StreamingGPClassifier": "streamgp.estimators",
    "StreamingGPCountRegressor": "streamgp.estimators",
    "StreamingGPOrdinal": "streamgp.estimators",
    "StreamingGPRegressor": "streamgp.estimators",
    "WarmupWarning": "streamgp.estimators",
    "compare": "streamgp.estimators",
    "evaluate": "streamgp.estimators",
    "keep_compiled_programs": "streamgp.numerics.compiled_programs",
    "load": "streamgp.estimators",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `streamgp --help` need not wait for JAX.
    if name in __all__:
        from streamgp.annexes import home_of

        home = _HOMES.get(name) or home_of(name)
        if home is not None:
            return getattr(imported(home), name)
    raise AttributeError(f"module 'streamgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
