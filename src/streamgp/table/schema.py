"""The schema of a stream's columns: inferred once from its first rows, kept with the checkpoint."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamgp.numerics.checkpoint.encoding import register
from streamgp.table import cells
from streamgp.table.calendar import AUTO, calendar_names
from streamgp.table.dates import Order, find_order, why_unreadable
from streamgp.table.labels import ClassNames
from streamgp.table.names import quoting_advice
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

MAX_LEVELS = 50
MAX_STEPS_BACK = 0.01  # share of rows that may be earlier than the one before, in a column of dates that is a clock
TEXT = "categorical", "levels"  # kinds of features
# Why columns are left out.
IS_DATE = "it looks like a date or time"
COUNTS_ROWS = "it has no name and counts the rows"


class DataError(ValueError):
    """A data file that cannot be used; the message says what is wrong, where, and what to do."""


def effect_names(name: str, count: int) -> list[str]:
    """Return the names of the numbers that say what the levels of a column are worth."""
    return [name] if count == 1 else [f"{name} {i}" for i in range(1, count + 1)]


@register
@dataclass(frozen=True)
class Feature:
    """One input column.

    Attributes
    ----------
    name
        The column's name in the file.
    kind
        ``"numeric"``, ``"boolean"`` (true and false as 1 and 0), ``"categorical"`` (one-hot), ``"levels"`` (codes, of
        text with more than `MAX_LEVELS` levels) or ``"date"`` (seconds since 1970, of which the learner makes the
        calendar).
    levels
        The levels of a column of text, the first `MAX_LEVELS` in order of appearance.
    """

    name: str
    kind: Literal["numeric", "boolean", "categorical", "levels", "date"]
    levels: tuple[str, ...] = ()

    @property
    def encoded(self) -> list[str]:
        """Return the names of the columns of X that this feature becomes."""
        if self.kind == "categorical":
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name]


@register
@dataclass(frozen=True)
class Schema:
    """How the columns of a file become X, y and times.

    Attributes
    ----------
    features
        The input columns, in the order of X.
    targets
        The columns of y.
    time
        The time column, if there is one.
    time_is_text
        Whether times are dates, as ISO 8601 text or as digits such as 20240131, rather than plain numbers.
    dropped
        Columns left out by inference, each with the reason.
    constant
        Features that had a single value in the rows that the schema was inferred from.
    task
        What the targets are: ``regression``, ``classification``, ``count`` or ``ordinal``.
    labels
        The names of labels or grades by code; a class that comes later is appended.
    exposure
        The column of the exposure of counts, if there is one; its log is the last column of X.
    notes
        What the user should know of the choice of the task, and of how numbers were read.
    arrives
        The column that says when the label of a row is known, if there is one.
    orders
        What dates with the year at their end begin with, by the columns that hold some.
    decimals
        The decimal marks of the columns that hold numbers as text.
    """

    features: tuple[Feature, ...]
    targets: tuple[str, ...]
    time: str | None
    time_is_text: bool
    dropped: dict[str, str]
    constant: tuple[str, ...]
    task: str = "regression"
    labels: ClassNames | None = None
    exposure: str | None = None
    notes: tuple[str, ...] = ()
    arrives: str | None = None
    orders: Mapping[str, Order] = field(default_factory=dict)
    decimals: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def feature_names(self) -> list[str]:
        """Return the names of the columns of X, one-hot columns as ``"wind=NE"``."""
        return [name for feature in self.features for name in feature.encoded]

    @property
    def dates(self) -> tuple[int, ...]:
        """Return which columns of X hold times."""
        kinds = [feature.kind for feature in self.features for _ in feature.encoded]
        return tuple(i for i, kind in enumerate(kinds) if kind == "date")

    def input_names(self, calendar: Sequence[str]) -> list[str]:
        """Return the names of the inputs that columns of X become, by the calendar that is in use."""
        names: list[str] = []
        for feature in self.features:
            names += calendar_names(feature.name, calendar) if feature.kind == "date" else feature.encoded
        return names

    @property
    def num_inputs(self) -> int:
        """Count the columns of X."""
        return len(self.feature_names) + (self.exposure is not None)

    @property
    def codes(self) -> tuple[int, ...]:
        """Return the columns of X that hold codes of levels."""
        kinds = [feature.kind for feature in self.features for _ in feature.encoded]
        return tuple(i for i, kind in enumerate(kinds) if kind == "levels")

    @property
    def columns(self) -> list[str]:
        """Return the columns of the file that are read, each once."""
        others = [name for name in (self.time, self.exposure, self.arrives) if name is not None]
        return list(dict.fromkeys((*(feature.name for feature in self.features), *self.targets, *others)))


@dataclass(frozen=True)
class Roles:
    """What a user names columns of a file for.

    Attributes
    ----------
    targets, features
        Those to predict, and those to predict from: None, all that have no other role.
    time, exposure, arrives
        Those of times, of an exposure, and of when labels are known.
    """

    targets: Sequence[str]
    features: Sequence[str] | None = None
    time: str | None = None
    exposure: str | None = None
    arrives: str | None = None

    @property
    def others(self) -> list[str]:
        """Return the columns that are neither targets nor features."""
        return [name for name in (self.time, self.exposure, self.arrives) if name is not None]


def check_names(file: str, columns: Sequence[str], roles: Roles) -> None:
    """Check that each requested column exists and has one role.

    Raises
    ------
    DataError
        For a name that is not in the file (with the nearest that is), one asked for twice, or a
        target or an exposure with another role.
    """
    targets, features, time, exposure = roles.targets, roles.features or (), roles.time, roles.exposure
    _check_unique(file, "the columns", columns)
    _check_unique(file, "the targets", targets)
    _check_unique(file, "the features", features)
    for name in (*targets, *features, *roles.others):
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            guess = f" (did you mean '{near[0]}'?)" if near else ""
            quoting = quoting_advice(columns)
            raise DataError(
                f"{file}: there is no column '{name}'{guess}; the columns are {_listing(columns)}{quoting}."
            )
    for name in targets:
        if name in features or name == time:
            role = "the time column" if name == time else "a feature"
            raise DataError(f"{file}: column '{name}' is a target and cannot also be {role}; name it only once.")
    if exposure is not None and exposure in (*targets, *features, time):
        raise DataError(
            f"{file}: column '{exposure}' is the exposure and cannot also be a target, a feature or the time; name "
            f"it only once."
        )
    if roles.arrives is not None and roles.arrives in (*targets, *features, time, exposure):
        raise DataError(
            f"{file}: column '{roles.arrives}' says when labels arrive and cannot also be a target, a feature, the "
            f"time or the exposure; name it only once."
        )


def _check_unique(file: str, what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"{file}: expected {what} to have different names, got '{twice}' twice; rename one.")


def _listing(names: Sequence[str], max_names: int = 30) -> str:
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(f"'{name}'" for name in names[:max_names]) + more


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
        clock = time if time_is_text else _clock(dates, columns, orders)
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


def _clock(dates: Sequence[Feature], columns: Mapping[str, Column], orders: Mapping[str, Order]) -> str | None:
    """Return the column of dates by which rows come: of those that rise, the one with the most different ones."""
    best, most = None, 1
    for feature in dates:
        times = cells.to_seconds(columns[feature.name], orders.get(feature.name, ""))
        times = times[np.isfinite(times)]
        different = len(np.unique(times))
        if different > most and np.mean(np.diff(times) < 0.0) <= MAX_STEPS_BACK:
            best, most = feature.name, different
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
