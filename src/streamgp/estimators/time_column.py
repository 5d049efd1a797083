"""Time stamps that are a column, or the index, of the user's frame."""

from typing import Any

import narwhals as nw
import numpy as np

from streamgp.models.options import calendar_of
from streamgp.table.containers import as_given, to_array, unmasked


def with_dated_index(estimator: Any, X: Any, times: Any) -> Any:
    """Return a pandas frame whose index is of dates with these as a column, unless there is to be no calendar.

    The column has the name of the index, or ``time``. With `times`, or where a column has that name or columns have
    no names, X is as it was.
    """
    index = getattr(X, "index", None)
    if times is not None or index is None or not hasattr(X, "columns"):
        return X
    if getattr(getattr(index, "dtype", None), "kind", "") != "M":
        return X
    name = "time" if index.name is None else index.name
    named = all(isinstance(each, str) for each in (name, *X.columns))
    if not named or name in X.columns or not calendar_of(estimator.calendar, estimator.holidays):
        return X
    return X.reset_index(names=name)


def split_times(X: Any, times: Any) -> tuple[Any, Any]:
    """Return rows without the column of times, and what this holds, where `times` names one; else both as they are.

    Raises
    ------
    ValueError
        If `times` is a name and X is no frame with such a column, or this holds neither numbers nor dates nor text.
    """
    X = as_given(X)
    if not isinstance(times, str):
        return X, unmasked(times)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            f"times: expected X as a data frame with the column {times!r}, got {type(X).__name__}; give such a "
            f"frame, or the time stamps themselves"
        )
    if times not in frame.columns:
        raise ValueError(f"times: expected one of the columns {', '.join(frame.columns)}, got {times!r}")
    column = frame[times]
    # Dates that pandas has no type for, as of the library `datetime`, are objects.
    if not (column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype in (nw.String, nw.Object)):
        raise ValueError(f"times: expected numbers or dates in the column {times!r}, got {column.dtype}")
    # A frame without columns does not say how many rows it has.
    rest = frame.drop(times).to_native() if len(frame.columns) > 1 else np.empty((len(frame), 0))
    return rest, to_array(column)
