"""What the adapters for libraries of forecasters share: the estimator, its inputs, and that it is asked quietly."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamgp.estimators import StreamingGPRegressor
from streamgp.estimators.access import access_to

Lags = tuple[int, ...] | int | str


def new_estimator(
    model: str, lags: Lags, warmup: int | None, seed: Any, options: Mapping[str, Any] | None
) -> StreamingGPRegressor:
    """Return an estimator that has learnt nothing; `options` go before the other parameters."""
    given: dict[str, Any] = {"model": model, "lags": lags, "warmup": warmup, "random_state": seed}
    return StreamingGPRegressor(**given | dict(options or {}))


def inputs_of(X: Any, rows: int) -> Any:
    """Return the inputs as they are, or none for so many rows."""
    return np.empty((rows, 0)) if X is None else X


def quiet(estimator: Any) -> Any:
    """Return an estimator that does not warn of its warm-up: other libraries ask in it as a matter of course."""
    access_to(estimator).warned_of_warmup = True
    return estimator
