"""Interval coverage as a percentage of forecasts, and as a share of one elsewhere; neither is taken for the other."""

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np


def percents(name: str, given: Any) -> list[float]:
    """Return how much bands are to hold in percent, from a number or several; they differ in six digits.

    Raises
    ------
    ValueError
        If one is not above 1 and below 100: 0.9 would be a band of 0.9%, and 1 may be meant as either.
    """
    values = _numbers(given)
    if not all(1.0 < value < 100.0 for value in values):
        hint = _instead(values, 0.0, 1.0, lambda value: f"a band of {100 * value:g}% pass {name}={100 * value:g}")
        hint = hint or _of_all(values, f"for a band that holds nearly all pass {name}=99")
        raise ValueError(f"{name}: expected percents above 1 and below 100, such as 90, got {_shown(given)}{hint}")
    if len({f"{value:g}" for value in values}) < len(values):
        raise ValueError(f"{name}: expected percents that differ, got {_shown(given)}")
    return values


def share(name: str, given: Any) -> float:
    """Return a share of one, such as that of the targets that a band is to hold.

    Raises
    ------
    ValueError
        If it is not strictly between 0 and 1: 90 would be one in percent.
    """
    values = _numbers(given)
    if len(values) != 1 or np.ndim(given) or not 0.0 < values[0] < 1.0:
        hint = _instead(values, 1.0, 100.0, lambda value: f"{value:g}% pass {value / 100:g}")
        hint = hint or _of_all(values, "for 1% pass 0.01, for nearly all 0.99")
        raise ValueError(f"{name}: expected a share strictly between 0 and 1, such as 0.9, got {_shown(given)}{hint}")
    return values[0]


def probabilities(name: str, given: Any) -> list[float]:
    """Return the probabilities of quantiles, from a number or several.

    Raises
    ------
    ValueError
        If one is not strictly between 0 and 1: 95 would be one in percent.
    """
    values = _numbers(given)
    if not all(0.0 < value < 1.0 for value in values):
        hint = _instead(values, 1.0, 100.0, lambda value: f"the quantile of {value:g}% pass {value / 100:g}")
        hint = hint or _of_all(values, "for the quantile of 1% pass 0.01, for one that nearly all are below 0.99")
        raise ValueError(f"{name}: expected probabilities strictly between 0 and 1, got {_shown(given)}{hint}")
    return values


def _numbers(given: Any) -> list[float]:
    """Return a number, or several in a row, as floats; NaN in place of what is no number."""
    # Arrays of NumPy and series of pandas become lists.
    given = given.tolist() if hasattr(given, "tolist") else given
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | dict)
    return [_number(value) for value in (given if several else [given])]


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        # The whole number is too large for a double.
        return np.inf


def _instead(values: list[float], low: float, high: float, of: Callable[[float], str]) -> str:
    """Return what to pass instead of the first number that is meant in the other unit, if there is one."""
    return next((f"; for {of(value)}" for value in values if low < value < high), "")


def _of_all(values: list[float], instead: str) -> str:
    """Return what to pass instead of all, in either unit: 1 may also be meant as 1%."""
    if 1.0 in values:
        return f"; 1 is 1% to some and all to others: {instead}"
    return f"; nothing holds all for certain: {instead}" if 100.0 in values else ""


def _shown(given: Any) -> str:
    return f"{given!r:.80}"
