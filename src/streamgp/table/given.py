"""Numbers as users pass them in lists and arrays of Python objects: what is none is refused, with its place."""

import math
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Complex, Real
from typing import Any

import numpy as np

from streamgp.table.cells import LARGEST
from streamgp.table.containers import check_unit, unmasked

AXES = "row", "column"
_INSTEAD = "turn it into a number, or pass NaN where there is none"
_TOO_LARGE = f"a number of at most {LARGEST:g} in size", "correct it, or pass NaN where there is none"
_REAL = "a real number (Complex data not supported)", "pass its parts as numbers of their own"
_DATES = date, time, timedelta, np.datetime64, np.timedelta64


class NotNumbersError(ValueError, TypeError):
    """Something is no number, or none that a double can hold, where there must be one."""


def to_floats(name: str, values: Any, axes: tuple[str, ...] = AXES) -> np.ndarray:
    """Return numbers in float64, however they came; None and what is masked become NaN.

    For `axes` see `check_numbers`.

    Raises
    ------
    ValueError
        If something is no number; the message says what it is and where.
    """
    values = unmasked(values)
    check_numbers(name, values, axes)
    return np.asarray(values, dtype=np.float64)


def check_numbers(name: str, values: Any, axes: tuple[str, ...] = AXES) -> None:
    """Raise ValueError if a cell of an array or of nested lists is no number; what is no array passes.

    Missing cells pass, as None and NaN. Durations and dates do not, as their unit would be lost. `axes` are what the
    axes of the array are called in the message.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "USc":  # what stood beside text or a complex number was turned into such
            array = np.asarray(values, dtype=object)
    except (TypeError, ValueError, OverflowError):  # of lists of several lengths, which have no places
        array = np.array(None)
    if array.dtype.kind in "fiub":  # at once, as single rows come this way
        return
    check_unit(name, values)
    if not array.ndim:
        return
    for place in np.ndindex(array.shape):
        wrong = _wrong(array[place])
        if wrong is not None:
            expected, instead = wrong
            where = ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=False))
            raise NotNumbersError(f"{name}: expected {expected}, got {shown(array[place])} at {where}; {instead}")


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
    return math.nan if value is None else float(value)


def shown(value: Any, most: int = 60) -> str:
    """Return what a value is, in at most so many characters or little more."""
    if isinstance(value, int) and value.bit_length() > 128:  # Python writes no number of more than 4,300 digits
        return f"a whole number of some {round(value.bit_length() * math.log10(2.0)):,} digits"
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 12]}... ({len(text):,} characters)"


def _wrong(value: Any) -> tuple[str, str] | None:
    """Return what was expected in place of a value and what to do, if it is no number."""
    if value is None or type(value) is float:
        return None
    if isinstance(value, _DATES):
        return "a number", "turn it into one, such as seconds; times of rows are given as times"
    if isinstance(value, Complex) and not isinstance(value, Real):
        return _REAL
    if isinstance(value, Decimal) and value.is_snan():
        return "a number", _INSTEAD
    if type(value).__name__ == "NAType":  # pandas' own
        return None
    try:
        float(value)
    except OverflowError:
        return _TOO_LARGE
    except (TypeError, ValueError) as error:
        return f"a number ({error!s:.90})", _INSTEAD
    return None
