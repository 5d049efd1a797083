"""Pipelines of scikit-learn that end in an estimator of a stream: their other steps see the warm-up alone."""

import sys
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from streamgp.estimators.base import StreamEstimator, default_warmup

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline
    from typing_extensions import TypeIs


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline; what is none as it is."""
    return model.steps[-1][1] if is_pipeline(model) and model.steps else model


def is_pipeline(model: Any) -> "TypeIs[Pipeline]":
    """Return whether this is a pipeline of scikit-learn, whose module takes long to import: who has one, has it."""
    module = sys.modules.get("sklearn.pipeline")
    return module is not None and isinstance(model, module.Pipeline)


def transformed(pipeline: "Pipeline", X: Any, y: Any) -> Any:
    """Return rows as the last step of a pipeline takes them.

    Where that is new, the steps before it are fitted first: to the rows of its warm-up, and to no later one. Of a
    pipeline that has learnt already they stay as they are.

    Raises
    ------
    ValueError
        If the last step is no estimator of a stream.
    """
    model = last_step(pipeline)
    if not isinstance(model, StreamEstimator):
        raise ValueError(
            f"evaluate: expected a pipeline whose last step is an estimator of streamgp, got {type(model).__name__}"
        )
    before = pipeline[:-1]
    if not before.steps:
        return X
    if not model.__sklearn_is_fitted__():
        first = _rows_of_warmup(model, y)
        before.fit(_leading(X, first), _leading(y, first))
        pipeline.steps[:-1] = before.steps
    found: Any = before.transform(X)
    return found.toarray() if hasattr(found, "toarray") else found


def _rows_of_warmup(model: StreamEstimator, y: Any) -> int:
    """Return how many rows there are up to the last one of the warm-up."""
    targets = np.asarray(y)
    numbers = targets.astype(np.float64) if targets.dtype.kind in "fiub" else np.zeros(targets.shape)
    labelled = np.isfinite(numbers).reshape(len(targets), -1).all(axis=1)
    warmup = default_warmup(int(labelled.sum())) if model.warmup is None else int(model.warmup)
    known = np.flatnonzero(labelled)
    return int(known[warmup - 1]) + 1 if len(known) >= warmup else len(targets)


def _leading(rows: Any, n: int) -> Any:
    frame = nw.from_native(rows, eager_only=True, allow_series=True, pass_through=True)
    return frame.head(n).to_native() if isinstance(frame, nw.DataFrame | nw.Series) else rows[:n]
