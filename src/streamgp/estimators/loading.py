"""Any estimator or fleet from its checkpoint, which names its kind."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from streamgp.annexes import annexes
from streamgp.numerics import checkpoint

_REGRESSOR = "StreamingGPRegressor"
_HOMES = {
    _REGRESSOR: "streamgp.estimators.regressor",
    "StreamingGPClassifier": "streamgp.estimators.classifier",
    "StreamingGPCountRegressor": "streamgp.estimators.counts",
    "StreamingGPOrdinal": "streamgp.estimators.ordinal",
}


def load(path: str | Path, learners: Sequence[Any] = ()) -> Any:
    """Read an estimator or a fleet from its checkpoint, of whatever kind; it goes on exactly where it was saved.

    Parameters
    ----------
    path
        The directory that `save` wrote.
    learners
        The regressors that a `StreamingGPRegressor` was given, if any: checkpoints hold no code.

    Raises
    ------
    CheckpointError
        If the checkpoint is damaged, or of no estimator or fleet, or of other `learners`; the message says which.
    """
    kind: Any = checkpoint.load_meta(path).get("kind")
    home = _HOMES.get(kind) or next((annex.names[kind] for annex in annexes() if kind in annex.loadable), None)
    if home is None:
        raise checkpoint.CheckpointError(
            f"{path}: expected a checkpoint of an estimator or a fleet, got one of {kind!r}; an optimiser is read by "
            f"TimeVaryingOptimizer.load, and a run goes on with streamgp run --resume"
        )
    found = getattr(import_module(home), kind)
    if kind == _REGRESSOR:
        return found.load(path, learners)
    if learners:
        raise checkpoint.CheckpointError(
            f"{path}: expected no learners, which a {kind} cannot have; leave learners out"
        )
    return found.load(path)
