"""What the containers of cells say beyond the cells: an order, a mask, a unit."""

from collections.abc import Sequence
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


def order_of(values: Any) -> list[Any] | None:
    """Return the categories of a column in their order, if it says that they have one.

    An ordered Categorical of pandas says so, and an Enum of polars; a frame of one column is taken for that.
    """
    dtype: Any = getattr(values, "dtype", None)
    if getattr(dtype, "ordered", None) is not None and hasattr(dtype, "categories"):  # of pandas
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
