"""Forecasts of the next rows as a frame."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.data.frames import FrameLike
from streamgp.estimators.time_column import split_times
from streamgp.estimators.validation import check_inputs

QUANTILES = {"q05": 0.05, "q50": 0.5, "q95": 0.95}


def check_levels(level: float | Sequence[float]) -> list[float]:
    """Return the shares in percent that bands are to hold, checked; they differ in six digits."""
    levels = np.atleast_1d(np.asarray(level, dtype=float)).tolist()
    if not all(0 < each < 100 for each in levels) or len({f"{each:g}" for each in levels}) < len(levels):
        raise ValueError(f"level: expected different shares between 0 and 100 percent, got {levels}")
    return levels


def future_rows(estimator: Any, h: int, X_future: Any, times: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the inputs (h, D) of the next h rows, checked, and their times; of a timed stream without, its last."""
    learner = estimator._learner
    X = np.empty((h, 0)) if X_future is None else X_future
    if X_future is None and learner.num_inputs:
        raise ValueError(
            f"X_future: expected the inputs of the next {h} rows, shape ({h}, {learner.num_inputs}), got None"
        )
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    stamps = np.full(rows, learner.last_time) if times is None and learner.timed else times
    X, stamps = check_inputs(estimator, X, stamps, learner)
    if len(X) != h:
        raise ValueError(f"X_future: expected {h} rows, as many as there are steps, got {len(X)}")
    if stamps is not None and (np.diff(stamps) < 0.0).any():
        raise ValueError(f"times: expected times that never decrease, got {stamps.tolist()}")
    return X, stamps


def forecast_frame(
    paths: Float[np.ndarray, "n h e"], level: Sequence[float], times: Any, single: bool, like: Any
) -> Any:
    """Return what paths say of every step, in a frame of the make of `like`, or of polars if that is none.

    `times` are those of the steps as the user gave them, dates included, or their column in `like`, or None.
    """
    _, h, outputs = paths.shape
    _, times = split_times(like, times)
    drawn = paths.reshape(len(paths), h * outputs)
    values: dict[str, Any] = {"step": np.arange(1, h + 1).repeat(outputs)}
    if times is not None:
        values["time"] = np.asarray(times).repeat(outputs)
    if not single:
        values["target"] = [f"y{e}" for e in range(outputs)] * h
    values |= {"mean": drawn.mean(axis=0), "std": drawn.std(axis=0, ddof=1)}
    values |= dict(zip(QUANTILES, np.quantile(drawn, list(QUANTILES.values()), axis=0), strict=True))
    for each in level:
        ends = np.quantile(drawn, [0.5 - each / 200.0, 0.5 + each / 200.0], axis=0)
        values |= {f"mean-lo-{each:g}": ends[0], f"mean-hi-{each:g}": ends[1]}
    return FrameLike.of(like).make(values)
