"""Frames of the make that the user works with: pandas, polars or Arrow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np


@dataclass(frozen=True)
class FrameLike:
    """What frames for the user are made like.

    Attributes
    ----------
    backend
        Their make; polars where no frame was given.
    index
        The index of the rows that were given, if they were of pandas.
    """

    backend: Any = "polars"
    index: Any = None

    @classmethod
    def of(cls, *given: Any) -> "FrameLike":
        """Return the make of the first that is a frame or a series."""
        for each in given:
            frame = nw.from_native(each, allow_series=True, pass_through=True)
            if isinstance(frame, nw.DataFrame | nw.Series):
                return cls(frame.implementation, nw.maybe_get_index(frame))
        return cls()

    def make(self, columns: Mapping[str, Any], aligned: bool = False) -> Any:
        """Return a native frame; NaN is missing in it, as far as its make distinguishes the two.

        With `aligned`, its rows are those that were given, and have their index.
        """
        frame = nw.from_dict({name: _plain(each) for name, each in columns.items()}, backend=self.backend)
        if not frame.implementation.is_pandas_like():
            floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
            frame = frame.with_columns(nw.col(name).fill_nan(None) for name in floats)
        native = frame.to_native()
        if aligned and self.index is not None:
            native.index = self.index
        return native


def _plain(column: Any) -> Any:
    """Return a column as every make takes it: Polars has no arrays of objects, nor dates in units above the ms."""
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] not in ("ms", "us", "ns"):
        return column.astype("datetime64[ms]")
    return column.tolist() if column.dtype == object else column
