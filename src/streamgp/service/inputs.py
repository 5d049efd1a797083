"""The inputs of the model from a row: numbers, a column for each level of a category, the cycles of the time."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streamgp.numerics.coding import level_code, one_hot
from streamgp.table.calendar import calendar_columns, calendar_names
from streamgp.table.schema import Feature

# The inputs from the time have names that begin with this.
TIME = "time"


def input_names(
    features: Sequence[str], categories: dict[str, tuple[str, ...]], calendar: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of the model's inputs, for features of which some are categories with these levels."""
    found: list[str] = []
    for name in features:
        levels = categories.get(name)
        found += [name] if not levels else Feature(name, "categorical", levels).encoded
    return tuple(found + calendar_names(TIME, calendar))


def model_inputs(
    columns: Iterable[np.ndarray], levels: Sequence[int | None], times: np.ndarray, calendar: Sequence[str]
) -> np.ndarray:
    """Return the model's inputs (n, D).

    Parameters
    ----------
    columns
        Of the features, (n,) each: numbers, or codes of levels, of which -1 is none.
    levels
        How many levels each has; None where it is a number, 0 where they are not named.
    times
        Of the rows, seconds since 1970 where there is a calendar.
    calendar
        What is made of them; see `streamgp.table.calendar`.
    """
    parts = [np.empty((len(times), 0))]
    parts += [one_hot(column, n) if n else column[:, None] for column, n in zip(columns, levels, strict=True)]
    return np.concatenate([*parts, calendar_columns(times, calendar)], axis=1)


def code_of(value: Any, levels: Sequence[str]) -> float | None:
    """Return the code of a category's cell, -1 where it is missing or no known level; None if it can be no level.

    Where no levels are named all have one, and so does a missing cell.
    """
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int):
        value = str(value)
    if value is not None and not isinstance(value, str):
        return None
    if not levels:
        return level_code(value or "")
    return float(levels.index(value)) if value in levels else -1.0
