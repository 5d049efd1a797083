"""Models of other libraries along a stream: each row is predicted, then learnt, as by our own."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from streamgp.estimators.comparison import ModelRows
from streamgp.evaluation.metrics import crps_gaussian, log_score_gaussian
from streamgp.evaluation.seasonal import SeasonalNaive
from streamgp.progress import Bar

Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
_HALF_BAND = float(ndtri(0.95))  # standard deviations of the central 90%


def is_of_river(model: Any) -> bool:
    """Return whether a model learns and predicts rows that are dictionaries."""
    return hasattr(model, "learn_one") and hasattr(model, "predict_one")


def is_of_sklearn(model: Any) -> bool:
    """Return whether a model is a regressor of scikit-learn's kind."""
    base = sys.modules.get("sklearn.base")  # who has such a model has imported it
    return (
        base is not None
        and isinstance(model, base.BaseEstimator)
        and hasattr(model, "predict")
        and base.is_regressor(model)
    )


def takes_gaps(model: Any) -> bool:
    """Return whether a model takes inputs that are missing."""
    if is_of_river(model):
        return True
    from sklearn.utils import get_tags

    return bool(get_tags(model).input_tags.allow_nan)


def run(model: Any, X: Rows, y: Column, names: list[str], refit_every: int, bar: Bar) -> ModelRows:
    """Predict each row, then learn it if it has a target; see `compare` for what is done with which model."""
    began = perf_counter()
    warmup, std = 0, np.full(len(y), np.nan)
    if is_of_river(model):
        mean, std = _by_dictionaries(model, X, y, names, bar)
    elif hasattr(model, "partial_fit"):
        mean = _row_by_row(model, X, y, bar)
    else:
        mean = _refitted(model, X, y, refit_every, bar)
        warmup = min(refit_every, len(y))
    seconds = perf_counter() - began
    if np.isnan(std).all():
        return ModelRows(mean, None, None, None, seconds, warmup)
    mean = np.where(std > 0.0, mean, np.nan)  # without a distribution it is no prediction of this model's
    std = np.where(std > 0.0, std, np.nan)
    covered = np.where(np.isnan(y + mean), np.nan, np.abs(y - mean) <= _HALF_BAND * std)
    return ModelRows(mean, -log_score_gaussian(mean, std, y), crps_gaussian(mean, std, y), covered, seconds, warmup)


def baselines(y: Column, seasons: Iterable[int]) -> dict[str, ModelRows]:
    """Return what one would use instead of a model, by name: nothing before the first target."""
    known = np.isfinite(y)
    count = np.cumsum(known)
    came = np.append(np.nan, y[known])
    last = came[np.append(0, count[:-1])]
    sums = np.cumsum(np.where(known, y, 0.0))
    so_far = np.append(np.nan, (sums / np.where(count, count, np.nan))[:-1])
    found = {"last value": last, "mean so far": so_far}
    naive, seasons = SeasonalNaive(1, 1), tuple(seasons)
    naive.begin(seasons)
    for season, before in zip(seasons, naive.next(y[:, None], last[:, None], 1), strict=True):
        found[f"value of {season:,} rows before"] = before[:, 0]
    return {name: ModelRows(mean, None, None, None, 0.0, 0) for name, mean in found.items()}


def _by_dictionaries(model: Any, X: Rows, y: Column, names: list[str], bar: Bar) -> tuple[Column, Column]:
    """Return means, and standard deviations where the model has Gaussian predictions, of a model of river."""
    predict: Callable[..., Any] = model.predict_one
    distributed = "with_dist" in inspect.signature(predict).parameters
    mean, std = np.full(len(y), np.nan), np.full(len(y), np.nan)
    for i, (x, target) in enumerate(_in_turn(X, y, bar)):
        # In river, what is not known is not in the row.
        row = {name: value for name, value in zip(names, x.tolist(), strict=True) if not np.isnan(value)}
        if distributed:
            found = predict(row, with_dist=True)
            mean[i], std[i] = found.mu, found.sigma
        else:
            found = predict(row)
            mean[i] = np.nan if found is None else float(found)
        if not np.isnan(target):
            model.learn_one(row, float(target))
    return mean, std


def _row_by_row(model: Any, X: Rows, y: Column, bar: Bar) -> Column:
    """Return the means of a model of scikit-learn that learns on; none before its first row."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
        fitted = True
    except (NotFittedError, TypeError):  # TypeError: it has no `fit`, by which scikit-learn knows estimators
        fitted = False
    mean = np.full(len(y), np.nan)
    for i, (_, target) in enumerate(_in_turn(X, y, bar)):
        if fitted:
            mean[i] = _predicted(model, X[i : i + 1])[0]
        if not np.isnan(target):
            model.partial_fit(X[i : i + 1].copy(), y[i : i + 1].copy())
            fitted = True
    return mean


def _refitted(model: Any, X: Rows, y: Column, every: int, bar: Bar) -> Column:
    """Return the means of a model of scikit-learn that is fitted to all rows so far, each time so many have come."""
    mean = np.full(len(y), np.nan)
    for start in range(every, len(y), every):
        known = ~np.isnan(y[:start])
        if known.any():
            model.fit(X[:start][known], y[:start][known])
            mean[start : start + every] = _predicted(model, X[start : start + every])
        bar.at(start)
    return mean


def _predicted(model: Any, X: Rows) -> Column:
    """Return what a model of scikit-learn's predicts, a number for each row; what it writes into is its own."""
    found = np.asarray(model.predict(X.copy()), dtype=np.float64)
    if found.size != len(X):
        raise ValueError(
            f"models: expected a number for each of {len(X):,} rows from the predict of {type(model).__name__}, "
            f"got an array of shape {found.shape}"
        )
    return found.ravel()


def _in_turn(X: Rows, y: Column, bar: Bar) -> Iterator[tuple[np.ndarray, float]]:
    for i in range(len(y)):
        yield X[i], y[i]
        if i % 100 == 0:
            bar.at(i)
