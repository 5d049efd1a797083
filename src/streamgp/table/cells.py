"""Conversion of one column's cells, as a file holds them: dates, true and false, and texts."""

import math
import re
from datetime import UTC, datetime

import numpy as np
from jaxtyping import Float64

from streamgp.table.dates import Order, advise_on_date, to_iso
from streamgp.table.numbers import SAY_WHICH, Cell, Column, Decimal, is_missing, why_unsure

LARGEST = 1e100  # a number that is larger has no square, and is no measurement
A_DATE = "a date of the years 1 to 9999, as 2024-01-31T12:00:00"
A_TIME = f"a number or {A_DATE}"

_DATE = r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ].*)?"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}.*)?"
_DATE_OR_CLOCK = re.compile(f"{_DATE}|{_CLOCK}")
_BOOLEANS = {"true": 1.0, "false": 0.0}
# What `datetime.fromisoformat` may be given: it overlooks a NUL at the end, and takes any character before the time.
_ISO = re.compile(r"\d{4}-?(\d\d-?\d\d|W\d\d(-?\d)?)([Tt _][\d:.,+-]+[Zz]?)?", re.ASCII)
_COMPACT_DATE = re.compile(r"(19|20|21)\d{6}(\d{4}(\d{2})?)?")
_COMPACT_FORMATS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


def to_text(cell: Cell) -> str:
    """Write the cell as the name of a level; a missing cell is the empty text."""
    return "" if cell is None else str(cell).strip()


def is_boolean(cell: Cell) -> bool:
    """Check whether a cell is one of the words true and false."""
    return to_text(cell).lower() in _BOOLEANS


def looks_like_date(cell: Cell) -> bool:
    """Check whether a cell is shaped like a date, a date with a time, or a time of day."""
    return _DATE_OR_CLOCK.fullmatch(to_text(cell)) is not None


def to_booleans(column: Column) -> Float64[np.ndarray, " n"]:
    """Convert the column to 1 for true, 0 for false (in any case) and NaN for all else."""
    return np.array([_BOOLEANS.get(to_text(cell).lower(), math.nan) for cell in column], dtype=np.float64)


def to_seconds(column: Column, order: Order = "") -> Float64[np.ndarray, " n"]:
    """Convert dates and datetimes, as ISO 8601 or digits such as 20240131, to seconds since 1970.

    All else is NaN, as are dates with the year at their end unless `order` says what they begin with. Times without a
    zone are in UTC.
    """
    return np.array([_seconds(cell, order) for cell in column], dtype=np.float64)


def are_compact_dates(column: Column) -> bool:
    """Check whether a column's numbers are all dates: YYYYMMDD, or with hours, minutes and seconds after it."""
    digits = [_digits(cell) for cell in column if not is_missing(cell)]
    return bool(digits) and all(_COMPACT_DATE.fullmatch(each) and math.isfinite(_seconds(each)) for each in digits)


def _digits(cell: Cell) -> str:
    """Write a whole number without a decimal point, however the cell has it; other cells as text."""
    whole = isinstance(cell, int | float) and math.isfinite(cell) and float(cell).is_integer()
    return f"{cell:.0f}" if whole else to_text(cell).removesuffix(".0")


def _seconds(cell: Cell, order: Order = "") -> float:
    try:
        written = _digits(cell)
        if _COMPACT_DATE.fullmatch(written):
            moment = datetime.strptime(written, _COMPACT_FORMATS[len(written)])
        else:
            try:
                moment = _from_iso(written)
            except ValueError:
                moment = _from_iso(to_iso(written, order))
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _from_iso(written: str) -> datetime:
    if not _ISO.fullmatch(written):
        raise ValueError(written)
    return datetime.fromisoformat(written)


def format_time(moment: float) -> str:
    """Write out a time of `to_seconds`, in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat()


def say_got(cell: Cell, decimal: Decimal | None = None) -> str:
    """Say what came in place of a number, in a column with that decimal mark, and what to do if it may be two."""
    unsure = None if decimal is None else why_unsure(cell, decimal)
    return f"got {format_cell(cell)}" if unsure is None else f"but {unsure}; {SAY_WHICH}"


def say_no_time(cell: object, expected: str = A_TIME, where: str = "") -> str:
    """Say what was expected in place of a cell that is no time stamp, what came where, and what is wrong with it."""
    advice = advise_on_date(cell)
    return f"expected {expected}, got {format_cell(cell)}{where}{'' if advice is None else f': {advice}'}"


def format_cell(cell: object) -> str:
    """Write the cell for an error message: quoted and cut to a readable length."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return "an empty cell"
    try:
        shown = repr(cell) if isinstance(cell, str) else str(cell)
    except ValueError:  # Python declines to print an integer of thousands of digits
        return "an integer of thousands of digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
