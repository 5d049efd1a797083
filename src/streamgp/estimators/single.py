"""One row, as a sequence or as a dictionary by the names of the features."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from streamgp.estimators.times import as_times
from streamgp.table.codes import MissingCodes
from streamgp.table.containers import as_row, frame_of
from streamgp.table.given import to_float


def in_order(estimator: Any, x: Any, time: Any = None, *, comes: bool = False) -> Any:
    """Return the inputs of a row in the order of the learner; numbers in a sequence are returned as they came.

    With `comes` the row is one of the stream, so that its levels are known from now on.

    Raises
    ------
    ValueError
        If a dictionary lacks a feature or has another one, if the features have no names, or a value is no number
        where there must be one.
    """
    x = as_row(x)
    values = MissingCodes.of(estimator.missing_values).blank(
        list(_named(estimator, x).values()) if isinstance(x, Mapping) else x
    )
    columns, learner = estimator._columns, estimator._learner
    if columns.are_numbers:
        return values
    known = learner.categories.levels if learner.is_warmed_up else None if comes else columns.counts
    table, columns = columns.numbers([list(values)], known)
    if comes:
        estimator._columns = columns
    stamp = None if time is None else as_times([time], 1, columns.time_order)
    return columns.inputs(np.asarray(table, dtype=np.float64), stamp)[0]


def as_table(estimator: Any, x: Any) -> Any:
    """Return a row as the methods for many rows take it; a dictionary as a frame. Errors are those of `in_order`."""
    x = as_row(x)
    if not isinstance(x, Mapping):
        return [x]
    return frame_of({name: [value] for name, value in _named(estimator, x).items()}, 1)


def _named(estimator: Any, x: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the cells by the names of the features, in their order; a first row says what that is."""
    if not estimator.__sklearn_is_fitted__():
        odd = [name for name in x if not isinstance(name, str)]
        if odd:
            raise ValueError(f"x: expected the names of features to be text, got {odd[0]!r}")
        return {name: _cell(name, value) for name, value in x.items()}
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
    kinds = estimator._columns.kinds or ("number",) * len(names)
    return {
        name: _number(name, x[name]) if kind == "number" else _cell(name, x[name])
        for name, kind in zip(names, kinds, strict=True)
    }


def _cell(name: str, value: Any) -> Any:
    """Return text and dates as they are, and all else as a number."""
    return value if isinstance(value, str | date) else _number(name, value)


def _number(name: str, value: Any) -> float:
    return to_float(f"x, feature {name!r}", value)


def _listed(names: list[Any]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
