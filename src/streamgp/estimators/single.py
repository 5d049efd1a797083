"""One row, as a sequence of numbers or as a dictionary by the names of the features."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def in_order(estimator: Any, x: Any) -> Any:
    """Return the numbers of a row in the order of the features; what is no dictionary is returned as it came.

    Raises
    ------
    ValueError
        If a dictionary lacks a feature or has another one, if the features have no names, or a value is no number.
    """
    return list(_named(estimator, x).values()) if isinstance(x, Mapping) else x


def as_table(estimator: Any, x: Any) -> Any:
    """Return a row as the methods for many rows take it; a dictionary as a frame. Errors are those of `in_order`."""
    if not isinstance(x, Mapping):
        return [x]
    return frame_of(_named(estimator, x))


def frame_of(named: Mapping[str, float]) -> Any:
    """Return numbers by their names as a frame of one row; without any, as an array."""
    if not named:
        return np.empty((1, 0))
    import polars as pl  # heavy, and for dictionaries alone

    return pl.DataFrame({name: [value] for name, value in named.items()})


def _named(estimator: Any, x: Mapping[Any, Any]) -> dict[str, float]:
    """Return the numbers by the names of the features, in their order; a first row says what that is."""
    if not estimator.__sklearn_is_fitted__():
        odd = [name for name in x if not isinstance(name, str)]
        if odd:
            raise ValueError(f"x: expected the names of features to be text, got {odd[0]!r}")
        return {name: _number(name, value) for name, value in x.items()}
    if not hasattr(estimator, "feature_names_in_"):
        if estimator.n_features_in_ == 0 and not x:
            return {}
        raise ValueError(
            f"x: expected a row of {estimator.n_features_in_} numbers, as before, got a dictionary; the features "
            f"have no names, since the first rows came as an array"
        )
    names = list(estimator.feature_names_in_)
    missing = [name for name in names if name not in x]
    unknown = [name for name in x if name not in set(names)]
    if missing or unknown:
        what = [f"{_listed(missing)} missing"] if missing else []
        what += [f"{_listed(unknown)} unknown"] if unknown else []
        raise ValueError(
            f"x: expected the features {_listed(names)}, got {' and '.join(what)}; a value that is not there is None"
        )
    return {name: _number(name, x[name]) for name in names}


def _number(name: str, value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"x: expected a number for feature {name!r}, got {value!r}") from None


def _listed(names: list[Any]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
