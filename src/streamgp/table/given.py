"""Numbers as users pass them in lists and arrays of Python objects: what is none is refused, with its place."""

import math
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Complex, Real
from typing import Any

import numpy as np

from streamgp.table.cells import LARGEST
from streamgp.table.containers import check_unit, unmasked
from streamgp.table.numbers import is_missing_number

AXES = "row", "column"
_INSTEAD = "turn it into a number, or pass NaN where there is none"
_TOO_LARGE = f"a number of at most {LARGEST:g} in size", "correct it, or pass NaN where there is none"
_REAL = "a real number (Complex data not supported)", "pass its parts as numbers of their own"
_DATES = date, time, timedelta, np.datetime64, np.timedelta64


class NotNumbersError(ValueError, TypeError):
    """Something is no number, or none that a double can hold, where there must be one."""


def to_floats(name: str, values: Any, axes: tuple[str, ...] = AXES) -> np.ndarray:
    """Return numbers in float64, however they came; None and what is masked become NaN.

    For `axes` see `as_numbers`.

    Raises
    ------
    ValueError
        If something is no number; the message says what it is and where.
    """
    return np.asarray(as_numbers(name, unmasked(values), axes), dtype=np.float64)


def as_numbers(name: str, values: Any, axes: tuple[str, ...] = AXES) -> Any:
    """Return an array or nested lists of Python objects as numbers, NaN for what is missing; all else as it is.

    Text is read as in a file. Durations and dates are refused, as their unit would be lost. `axes` are what the axes
    of the array are called in the message.

    Raises
    ------
    ValueError
        If a cell is no number.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "USc":  # what stood beside text or a complex number was turned into such
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, OverflowError):  # lists of several lengths have no places
        array = np.array(None)
    if array.dtype.kind in "fiub":  # at once, as single rows come this way
        return values
    check_unit(name, values)
    if not array.ndim:
        return values
    numbers = np.empty(array.shape)
    for place in np.ndindex(array.shape):
        wrong = _wrong(array[place])
        if wrong is not None:
            expected, instead = wrong
            where = ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=False))
            raise NotNumbersError(f"{name}: expected {expected}, got {shown(array[place])} at {where}; {instead}")
        numbers[place] = _number(array[place])
    return numbers


def to_float(what: str, value: Any) -> float:
    """Return a number as a float, None as NaN.

    Raises
    ------
    ValueError
        If it is no number; the message begins with `what` it is.
    """
    wrong = _wrong(value)
    if wrong is not None:
        raise NotNumbersError(f"{what}: expected {wrong[0]}, got {shown(value)}; {wrong[1]}")
    return _number(value)


def shown(value: Any, most: int = 60) -> str:
    """Return what a value is, in at most so many characters or little more."""
    if isinstance(value, int) and value.bit_length() > 128:  # Python writes no number of more than 4,300 digits
        return f"a whole number of some {round(value.bit_length() * math.log10(2.0)):,} digits"
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 12]}... ({len(text):,} characters)"


def _is_gone(value: Any) -> bool:
    """Return whether a cell holds no value: None, pandas' NA or NaT, or a word for a number that is missing."""
    if isinstance(value, str):
        return is_missing_number(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _number(value: Any) -> float:
    return math.nan if _is_gone(value) else float(value)


def _wrong(value: Any) -> tuple[str, str] | None:
    """Return what was expected in place of a value and what to do, if it is no number."""
    if type(value) is float or _is_gone(value):
        return None
    if isinstance(value, _DATES):
        return "a number", "turn it into one, such as seconds; times of rows are given as times"
    if isinstance(value, Complex) and not isinstance(value, Real):
        return _REAL
    if isinstance(value, Decimal) and value.is_snan():
        return "a number", _INSTEAD
    if isinstance(value, bytes) or (isinstance(value, str) and "_" in value):  # Python reads it, no file means it
        return "a number", _INSTEAD
    try:
        float(value)
    except OverflowError:
        return _TOO_LARGE
    except (TypeError, ValueError) as error:
        return f"a number ({error!s:.90})", _INSTEAD
    return None
