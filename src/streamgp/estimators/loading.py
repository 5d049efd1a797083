"""Any estimator or fleet from its checkpoint, which names its kind."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from streamgp import checkpoint

_REGRESSOR = "StreamingGPRegressor"
_FLEET = "StreamingGPFleet"
_HOMES = {
    _REGRESSOR: "streamgp.estimators.regressor",
    "StreamingGPClassifier": "streamgp.estimators.classifier",
    "StreamingGPCountRegressor": "streamgp.estimators.counts",
    "StreamingGPOrdinal": "streamgp.estimators.ordinal",
    "SplittingGPRegressor": "streamgp.estimators.splitting",
    "StreamingGPLVM": "streamgp.estimators.latent",
    _FLEET: "streamgp.fleet",
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
    kind = checkpoint.load_meta(path).get("kind")
    if kind not in _HOMES:
        raise checkpoint.CheckpointError(
            f"{path}: expected a checkpoint of an estimator or a fleet, got one of {kind!r}; an optimiser is read by "
            f"TimeVaryingOptimizer.load, and a run goes on with streamgp run --resume"
        )
    found = getattr(import_module(_HOMES[kind]), kind)
    if kind == _REGRESSOR:
        return found.load(path, learners)
    if learners:
        raise checkpoint.CheckpointError(
            f"{path}: expected no learners, which a {kind} cannot have; leave learners out"
        )
    return found.load(path)
