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

    A dictionary of columns becomes a frame, and so does a list of dictionaries or of named tuples; what is masked is
    missing, and all else is as it is.

    Raises
    ------
    ValueError
        If rows that have names do not all have the same, or come as an iterator, which can be read once only; if the
        columns of a dictionary are no columns, or of different lengths.
    """
    if isinstance(rows, Iterator):
        kind = type(rows).__name__
        raise ValueError(f"X: expected an array, a frame or a list of rows, got an iterator ({kind}); make it a list")
    if isinstance(rows, dict) and type(rows).__module__.partition(".")[0] != "scipy":  # one kind of sparse matrix
        return frame_of_columns(rows)
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


def frame_of_columns(columns: Mapping[str, Any]) -> Any:
    """Return columns by their names as a frame: of pandas if one of them is, for its type, else of polars.

    Raises
    ------
    ValueError
        If there is no column, one is no sequence of cells, or they are not equally long.
    """
    if not columns:
        raise ValueError("X: expected at least one column, got an empty dictionary; name one")
    given = {name: unmasked(column) for name, column in columns.items()}
    for name, column in given.items():
        if not isinstance(name, str):
            raise ValueError(f"X: expected names of columns that are text, got {name!r}; turn it into text")
        if isinstance(column, str | Mapping) or not hasattr(column, "__len__") or np.ndim(column) != 1:
            raise ValueError(
                f"X: expected a list or an array of cells for the column {name!r}, got {column!s:.200}; give a "
                f"single row as a list of it"
            )
    lengths = {name: len(column) for name, column in given.items()}
    (first, rows), *others = lengths.items()
    for name, length in others:
        if length != rows:
            raise ValueError(
                f"X: expected {rows} cells in each column, as in {first!r}, got {length} in {name!r}; None is a "
                f"missing cell"
            )
    if any(type(column).__module__.partition(".")[0] == "pandas" for column in given.values()):
        # Without their indices, by which pandas would put the rows in another order.
        arrays = {name: getattr(column, "array", column) for name, column in given.items()}
        return nw.from_dict(arrays, backend="pandas").to_native()
    import polars as pl  # heavy, and for named cells alone

    plain = {name: column for name, column in given.items() if isinstance(column, list | tuple)}
    lists = frame_of({name: list(column) for name, column in plain.items()}, rows)
    return pl.DataFrame([lists[name] if name in plain else pl.Series(name, column) for name, column in given.items()])


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
