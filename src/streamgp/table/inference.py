"""The kinds of a file's columns, found from its first rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.table import cells
from streamgp.table.calendar import AUTO
from streamgp.table.dates import Order, find_order, why_unreadable
from streamgp.table.numbers import (
    NO_MARKS,
    SAY_WHICH,
    Column,
    Decimal,
    Marks,
    find_marks,
    is_missing,
    is_missing_number,
    to_numbers,
)
from streamgp.table.roles import Roles
from streamgp.table.schema import COUNTS_ROWS, IS_DATE, MAX_LEVELS, TEXT, DataError, Feature, Schema

MAX_STEPS_BACK = 0.01  # share of rows that may be earlier than the one before, in a column of dates that is a clock


def check_marks(
    file: str,
    columns: Mapping[str, Column],
    separator: str | None,
    told: Decimal = "",
    advice: str = SAY_WHICH,
) -> Marks:
    """Return the marks of the columns that hold numbers as text.

    Raises
    ------
    DataError
        If the first cells of one do not tell; it asks with `advice`.
    """
    marks = find_marks(columns, separator, told)
    for name, question in marks.questions.items():
        raise DataError(f"{file}: column '{name}': {question}; {advice}.")
    return marks


def infer_schema(
    file: str,
    columns: Mapping[str, Column],
    roles: Roles,
    *,
    needs_features: bool = True,
    calendar: Sequence[str] = (),
    marks: Marks = NO_MARKS,
) -> Schema:
    """Infer the kinds of the columns from the first rows of a file.

    Parameters
    ----------
    file
        Its name, for error messages.
    columns
        The cells of the first rows, column by column.
    roles
        What the user names columns for.
    needs_features
        Whether there must be a feature.
    calendar
        What columns of dates are to become, the time column's too: see `streamgp.table.calendar`. With `AUTO` that is
        the time column, or else the column of dates that rise, or stay, the one with the most different ones.
    marks
        What `check_marks` found.

    Raises
    ------
    DataError
        If a column that was named cannot be a feature, if no feature is left although one is needed, if the
        time column holds neither numbers nor ISO dates, or if there are no dates for the calendar.
    """
    targets, time, named = roles.targets, roles.time, roles.features is not None
    texts = {name: each for name, each in columns.items() if name not in targets and not isinstance(each, np.ndarray)}
    orders: dict[str, Order] = {name: order for name, each in texts.items() if (order := find_order(each))}
    decimals = marks.decimals
    others = (*targets, *roles.others)
    candidates = roles.features if roles.features is not None else [c for c in columns if c not in others]
    kept, dropped = [], {}
    for name in candidates:
        counts = not name and not named and _counts_rows(columns[name])
        told = orders.get(name, ""), decimals.get(name)
        feature = COUNTS_ROWS if counts else _infer_feature(name, columns[name], calendar, *told)
        if isinstance(feature, Feature):
            kept.append(feature)
        elif named:
            raise DataError(f"{file}: column '{name}' cannot be a feature, because {feature}; leave it out.")
        else:
            dropped[name] = feature
    time_is_text = time is not None and _time_is_text(
        file, time, columns[time], orders.get(time, ""), decimals.get(time)
    )
    if calendar and time is not None and time_is_text:
        kept.append(Feature(time, "date"))
    dates = [feature for feature in kept if feature.kind == "date"]
    if AUTO in calendar and not named:
        others = {each.name: columns[each.name] for each in dates if not time_is_text}
        rising = find_clock({name: cells.to_seconds(cell, orders.get(name, "")) for name, cell in others.items()})
        clock = time if time_is_text else rising
        dropped |= {feature.name: IS_DATE for feature in dates if feature.name != clock}
        kept = [feature for feature in kept if feature.name not in dropped]
    elif calendar and not dates and list(calendar) != [AUTO]:
        raise DataError(
            f"{file}: expected a column of dates for the calendar, found none; write dates as 2024-01-31T12:00:00, "
            f"or leave the calendar out (--calendar)."
        )
    if needs_features and not kept:
        reasons = "; ".join(f"'{name}' was dropped because {reason}" for name, reason in dropped.items())
        raise DataError(
            f"{file}: expected at least one feature column beside the target, found none"
            + (f" ({reasons})" if reasons else "")
            + "; add one, or make the past of a target of numbers an input (--lags 1)."
        )
    return Schema(
        features=tuple(kept),
        targets=tuple(targets),
        time=time,
        time_is_text=time_is_text,
        dropped=dropped,
        constant=tuple(feature.name for feature in kept if _is_constant(feature, columns[feature.name], decimals)),
        exposure=roles.exposure,
        arrives=roles.arrives,
        orders=orders,
        decimals=decimals,
        notes=tuple(marks.notes),
    )


def find_clock(columns: Mapping[Any, Float[np.ndarray, " n"]]) -> Any:
    """Return by which column of times rows come, if any: of those that rise, the one with most different ones."""
    best, most = None, 1
    for name, times in columns.items():
        times = times[np.isfinite(times)]
        different = len(np.unique(times))
        is_first = best is None and len(times) == 1
        if (different > most or is_first) and np.count_nonzero(np.diff(times) < 0.0) <= MAX_STEPS_BACK * len(times):
            best, most = name, different
    return best


def _infer_feature(
    name: str, column: Column, calendar: Sequence[str], order: Order, decimal: Decimal | None
) -> Feature | str:
    """Infer the feature that a column is, or the reason why it is none."""
    if isinstance(column, np.ndarray):
        return "it is entirely empty" if np.isnan(column).all() else Feature(name, "numeric")
    present = [cell for cell in column if not is_missing(cell)]
    if not present:
        return "it is entirely empty"
    given = [cell for cell in present if not is_missing_number(cell)]
    if given and not np.isnan(to_numbers(given, decimal)).any():
        return Feature(name, "numeric")
    share = 1.0 - np.isnan(to_numbers(present, decimal)).mean()
    if all(map(cells.is_boolean, present)):
        return Feature(name, "boolean")
    if all(map(cells.looks_like_date, present)):
        if not np.isfinite(cells.to_seconds(present, order)).all():
            return why_unreadable(present) or IS_DATE
        return Feature(name, "date") if calendar else IS_DATE
    levels = tuple(dict.fromkeys(map(cells.to_text, column)))
    # Mostly numbers that hardly repeat: a numeric column with a few bad cells, to be reported as such.
    if share > 0.5 and len(levels) > min(MAX_LEVELS, len(present) / 2):
        return Feature(name, "numeric")
    return Feature(name, "categorical" if len(levels) <= MAX_LEVELS else "levels", levels[:MAX_LEVELS])


def _counts_rows(column: Column) -> bool:
    """Return whether a column is the index of a data frame that was written with it: whole numbers one by one."""
    numbers = to_numbers(column)
    return len(numbers) > 1 and bool((np.diff(numbers) == 1.0).all())


def _time_is_text(file: str, name: str, column: Column, order: Order, decimal: Decimal | None) -> bool:
    if cells.are_compact_dates(column):
        return True
    if isinstance(column, np.ndarray):
        return False
    present = [cell for cell in column if not is_missing(cell)]
    count = np.isfinite(to_numbers(present, decimal)).sum()
    if count > len(present) / 2:
        return False
    if not np.isfinite(cells.to_seconds(present, order)).any():
        first = present[0] if present else None
        raise DataError(f"{file}: time column '{name}': {cells.say_no_time(first)}.")
    return True


def _is_constant(feature: Feature, column: Column, decimals: Mapping[str, Decimal]) -> bool:
    if feature.kind in TEXT:
        return len(feature.levels) == 1
    decimal = decimals.get(feature.name)
    values = cells.to_booleans(column) if feature.kind == "boolean" else to_numbers(column, decimal)
    return len(np.unique(values[np.isfinite(values)])) == 1
