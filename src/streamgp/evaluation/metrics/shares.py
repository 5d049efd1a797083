"""Interval coverage as a percentage of forecasts, and as a share of one elsewhere; neither is taken for the other."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from streamgp.numerics.digits import shortest

# What is rarer no stream shows. And where less is missing to 1, a double holds too few digits of it.
LEAST, MOST = 1e-10, 0.9999999999
_MOST_PERCENT, _MOST_SHARE = 99.99999998, 0.9999999998
_RARER = "; no stream shows what happens less than once in ten billion rows, so pass one within these bounds"


def percents(name: str, given: Any) -> list[float]:
    """Return how much bands are to hold in percent, from a number or several, which differ.

    Raises
    ------
    ValueError
        If one is not above 1 and below 100: 0.9 would be a band of 0.9%, and 1 may be meant as either. If one is so
        near 100 that less than one in ten billion lies beyond either end.
    """
    values = _numbers(given)
    if not all(1.0 < value < 100.0 for value in values):
        band = "a band of {0}% pass {1}={0}"
        hint = _instead(values, 0.0, _MOST_SHARE, lambda value: band.format(_times(value, 100), name))
        hint = hint or _of_all(values, f"for a band that holds nearly all pass {name}=99")
        raise ValueError(f"{name}: expected percents above 1 and below 100, such as 90, got {_shown(given)}{hint}")
    if not all(value <= _MOST_PERCENT for value in values):
        raise ValueError(f"{name}: expected percents of at most {_MOST_PERCENT}, got {_shown(given)}{_RARER}")
    if len(set(values)) < len(values):
        raise ValueError(f"{name}: expected percents that differ, got {_shown(given)}")
    return values


def share(name: str, given: Any) -> float:
    """Return a share of one, such as that of the targets that a band is to hold.

    Raises
    ------
    ValueError
        If it is not strictly between 0 and 1: 90 would be one in percent. If it is so near 1 that less than one in
        ten billion lies beyond either end.
    """
    values = _numbers(given)
    if len(values) != 1 or np.ndim(given) or not 0.0 < values[0] < 1.0:
        hint = _instead(values, 1.0, _MOST_PERCENT, lambda value: f"{shortest(value)}% pass {_times(value, '0.01')}")
        hint = hint or _of_all(values, "for 1% pass 0.01, for nearly all 0.99")
        raise ValueError(f"{name}: expected a share strictly between 0 and 1, such as 0.9, got {_shown(given)}{hint}")
    if values[0] > _MOST_SHARE:
        raise ValueError(f"{name}: expected a share of at most {_MOST_SHARE}, got {_shown(given)}{_RARER}")
    return values[0]


def probabilities(name: str, given: Any) -> list[float]:
    """Return the probabilities of quantiles, from a number or several.

    Raises
    ------
    ValueError
        If one is not strictly between 0 and 1: 95 would be one in percent. If one is less than one in ten billion
        away from 0 or 1.
    """
    values = _numbers(given)
    if not all(0.0 < value < 1.0 for value in values):
        of = "the quantile of {}% pass {}"
        hint = _instead(values, 1.0, 100.0, lambda value: of.format(shortest(value), _times(value, "0.01")))
        hint = hint or _of_all(values, "for the quantile of 1% pass 0.01, for one that nearly all are below 0.99")
        raise ValueError(f"{name}: expected probabilities strictly between 0 and 1, got {_shown(given)}{hint}")
    if not all(LEAST <= value <= MOST for value in values):
        raise ValueError(f"{name}: expected probabilities from {LEAST} to {MOST}, got {_shown(given)}{_RARER}")
    return values


def in_percent(value: float, decimals: int = 0) -> str:
    """Write a share of one in percent to all its digits, and so many at least: 90% of 0.9, 99.999% of 0.99999."""
    text = _times(value, 100)
    return f"{max(text, f'{100.0 * value:.{decimals}f}', key=len)}%"


def _times(value: float, factor: int | str) -> str:
    """Write a multiple of a number, as its shortest decimals have it."""
    return f"{(Decimal(repr(float(value))) * Decimal(factor)).normalize():f}"


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
