"""Rows and columns as Python holds them: what their containers say beyond the cells (names, order, mask, unit)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

SECONDS = "divide them by a unit, as by np.timedelta64(1, 's')"  # what to do about durations


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NaT, pandas.NA or another value that does not equal itself."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except TypeError:  # pandas.NA
        return True


def as_given(rows: Any) -> Any:
    """Return rows of any kind as an array, nested lists or a frame; every front door takes those.

    A list of dictionaries or of named tuples becomes a frame, what is masked is missing, and all else is as it is.

    Raises
    ------
    ValueError
        If rows that have names do not all have the same, or come as an iterator, which can be read once only.
    """
    if isinstance(rows, Iterator):
        kind = type(rows).__name__
        raise ValueError(f"X: expected an array, a frame or a list of rows, got an iterator ({kind}); make it a list")
    first = rows[0] if isinstance(rows, list | tuple) and rows else None
    if not isinstance(as_row(first), Mapping):
        return unmasked(rows)
    named = [as_row(row) for row in rows]
    names = list(named[0])
    for i, row in enumerate(named):
        if not isinstance(row, Mapping) or set(row) != set(names):
            got = list(row) if isinstance(row, Mapping) else row
            raise ValueError(
                f"X: expected the features {', '.join(map(repr, names))} in each row, as in the first, got "
                f"{got!s:.200} in row {i}; a value that is not there is None"
            )
    return frame_of({name: [row[name] for row in named] for name in names}, len(named))


def as_row(row: Any) -> Any:
    """Return a row as a dictionary if its cells have names; without names as it is, but for what is masked."""
    if isinstance(row, tuple) and (names := getattr(row, "_fields", None)):
        return dict(zip(names, row, strict=True))
    return row if isinstance(row, Mapping) else unmasked(row)


def frame_of(columns: Mapping[str, list[Any]], rows: int) -> Any:
    """Return cells by the names of their columns as a frame; without any column, as an array."""
    if not columns:
        return np.empty((rows, 0))
    import polars as pl  # heavy, and for named cells alone

    def series(name: str, cells: list[Any]) -> Any:
        try:
            return pl.Series(name, cells)
        except (TypeError, OverflowError):  # cells of several types
            numbers = all(cell is None or (isinstance(cell, int | float) and abs(cell) < 2**63) for cell in cells)
            return pl.Series(name, cells, pl.Float64 if numbers else pl.Object, strict=False)

    return pl.DataFrame([series(name, cells) for name, cells in columns.items()])


def unmasked(values: Any) -> Any:
    """Return a masked array with NaN, NaT or None for what is masked, and all else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    if not mask.any():
        return values.data
    if values.dtype.kind in "mM":
        plain, gone = values.data.copy(), np.array("NaT", values.dtype)
    elif values.dtype.kind in "fiub":
        plain, gone = values.data.astype(np.result_type(values.dtype, np.float64)), np.nan
    else:
        plain, gone = values.data.astype(object), None
    plain[mask] = gone
    return plain


def to_array(values: Any) -> np.ndarray:
    """Return values in an array, of objects where one of text would cut off the NUL that one of them ends with."""
    array = np.asarray(values)
    if array.dtype.kind != "U" or isinstance(values, np.ndarray):
        return array
    several = list(values) if array.ndim else []
    return np.array(several, dtype=object) if any(str(each).endswith("\0") for each in several) else array


def order_of(values: Any) -> list[Any] | None:
    """Return the categories of a column in their order, if it says that they have one.

    An ordered Categorical of pandas says so, and an Enum of polars; a frame of one column is taken for that.
    """
    dtype: Any = getattr(values, "dtype", None)
    if getattr(dtype, "ordered", None) is not None and hasattr(dtype, "categories"):  # a type of pandas
        return list(dtype.categories) if dtype.ordered else None
    series = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(series, nw.DataFrame) and len(series.columns) == 1:
        return order_of(series[series.columns[0]].to_native())
    if not isinstance(series, nw.Series) or not isinstance(series.dtype, nw.Enum):
        return None
    return list(series.dtype.categories)


def check_unit(name: str, values: Any) -> None:
    """Check that what is to be numbers holds no durations or dates, whose unit would be lost.

    Raises
    ------
    ValueError
        If it holds some.
    """
    given = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(given, nw.DataFrame):
        kinds: Sequence[Any] = [dtype for dtype in given.schema.values() if dtype.is_temporal()]
    elif isinstance(given, nw.Series):
        kinds = [given.dtype] if given.dtype.is_temporal() else []
    else:
        dtype = getattr(values, "dtype", None)
        kinds = [dtype] if getattr(dtype, "kind", "") in ("m", "M") else []
    if not kinds:
        return
    durations = isinstance(kinds[0], nw.Duration) or getattr(kinds[0], "kind", "") == "m"
    advice = SECONDS if durations else "subtract a date and divide by a unit, as by np.timedelta64(1, 's')"
    raise ValueError(
        f"{name}: expected numbers, got {'durations' if durations else 'dates or times'} ({kinds[0]}), whose unit "
        f"would be lost; {advice}"
    )
