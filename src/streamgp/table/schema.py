"""The schema of a stream's columns: inferred once from its first rows, kept with the checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.calendar import calendar_names
from streamgp.table.dates import Order
from streamgp.table.labels import ClassNames
from streamgp.table.numbers import Decimal

MAX_LEVELS = 50
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
