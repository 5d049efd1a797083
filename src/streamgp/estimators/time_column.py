"""Time stamps that are a column of the user's frame."""

from typing import Any

import narwhals as nw
import numpy as np


def split_times(X: Any, times: Any) -> tuple[Any, Any]:
    """Return rows without the column of times, and what this holds, where `times` names one; else both as they are.

    Raises
    ------
    ValueError
        If `times` is a name and X is no frame with such a column, or this holds neither numbers nor dates nor text.
    """
    if not isinstance(times, str):
        return X, times
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
    return rest, column.to_numpy()
