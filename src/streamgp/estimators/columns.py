"""Columns of frames that are no numbers, as numbers: codes of levels, and the calendar of dates."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.coding import level_codes
from streamgp.stream.categories import Categories
from streamgp.table import cells
from streamgp.table.calendar import AUTO, calendar_names
from streamgp.table.containers import is_missing
from streamgp.table.dates import NO_DATE, Order, find_order
from streamgp.table.frames import FrameLike
from streamgp.table.inference import find_clock
from streamgp.table.numbers import Cell, Decimal, find_marks, to_numbers
from streamgp.table.schema import IS_DATE, MAX_LEVELS, Feature, effect_names

Kind = Literal["number", "category", "date", "clock", "other date"]
_DECIDING = 1_000  # rows
UNKNOWN = -1.0  # the code of a level that has no column
LEFT_OUT = ("clock", "other date")


@register
@dataclass(frozen=True)
class Columns:
    """How the columns of the user's rows become those that the learner is given; no method changes it.

    What a column is, the first rows say that are given together: by its type or, of text, by what most of its first
    1,000 cells are that are not missing, numbers, dates, or else categories. True and false are 1 and 0. A column of
    categories becomes one of codes, which count the levels as they first come (a missing cell is a level) and, after
    the first 50, are those of `level_code`; what they become as inputs is for the learner to say (see
    `streamgp.stream.categories`). Dates become seconds since 1970, of which it makes the calendar, or are left out.

    Attributes
    ----------
    kinds
        Of each column of X; none of arrays, which hold numbers.
    levels
        Of each column of X, the first levels.
    calendar
        What is made of dates: see `streamgp.stream.categories`.
    dated
        Whether time stamps are dates of which the calendar is made too: they are the last column then.
    orders
        What dates of text that have the year at their end begin with, of each column of X.
    time_order
        That of time stamps.
    decimals
        The decimal mark of numbers as text, of each column of X; None where there are none.
    """

    kinds: tuple[Kind, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()
    calendar: tuple[str, ...] = ()
    dated: bool = False
    orders: tuple[Order, ...] = ()
    time_order: Order = ""
    decimals: tuple[Decimal | None, ...] = ()

    @classmethod
    def of_first(cls, X: Any, times: Any, calendar: Sequence[str]) -> Self:
        """Return what the first rows of a stream say, a frame or an array of numbers, before any level is known.

        Raises
        ------
        ValueError
            If there are no dates for the calendar, or a column holds durations or times of day, or numbers as text
            whose commas may mean two things.
        """
        frame = _as_frame(X)
        orders: tuple[Order, ...] = () if frame is None else tuple(_order(column) for column in frame.iter_columns())
        decimals = () if frame is None else _decimals(frame)
        given = [] if frame is None else zip(frame.iter_columns(), orders, decimals, strict=True)
        kinds: tuple[Kind, ...] = tuple(_kind(column, order, decimal) for column, order, decimal in given)
        dated = bool(calendar) and times is not None and np.asarray(times).dtype.kind not in "fiub"
        if calendar and tuple(calendar) != (AUTO,) and not dated and "date" not in kinds:
            raise ValueError(
                "calendar: expected a column of dates in the frame X, or times that are dates, got neither; give "
                "one, or leave calendar and holidays out"
            )
        if frame is not None and (not calendar or AUTO in calendar):
            dates = [i for i, kind in enumerate(kinds) if kind == "date" and calendar and not dated]
            clock = find_clock({i: _seconds(frame[:, i].head(_DECIDING), orders[i]) for i in dates})
            kinds = tuple("other date" if kind == "date" and i != clock else kind for i, kind in enumerate(kinds))
        unreadable = [] if frame is None else _named_of(frame, kinds, ("clock",))
        if unreadable:
            warnings.warn(f"X: columns are left out: {', '.join(unreadable)}; {NO_DATE}", stacklevel=7)
        left_out = [] if frame is None else _named_of(frame, kinds, ("other date",))
        if left_out:
            warnings.warn(
                f"X: columns of dates are left out: {', '.join(left_out)}; their cycles are inputs with "
                f"calendar=['day', 'week', 'year'], and times= takes the name of the column of times",
                stacklevel=7,
            )
        calendar = calendar if dated or "date" in kinds else ()
        stamps = np.asarray([] if times is None else times)
        time_order = find_order(stamps.ravel().tolist()) if stamps.dtype.kind in "OUT" else ""
        return cls(kinds, ((),) * len(kinds), tuple(calendar), dated, orders, time_order, decimals)

    @cached_property
    def are_numbers(self) -> bool:
        """Whether nothing is to be done."""
        return not self.dated and all(kind == "number" for kind in self.kinds)

    def sources(self, width: int) -> list[int]:
        """Return the column of X that each column of the learner, of which there are `width`, is; -1: time stamps."""
        found = [i for i, kind in enumerate(self.kinds) if kind not in LEFT_OUT]
        return (found if self.kinds else [*range(width - self.dated)]) + [-1] * self.dated

    @property
    def categories(self) -> tuple[int, ...]:
        """The columns of the learner that hold codes."""
        used = [kind for kind in self.kinds if kind not in LEFT_OUT]
        return tuple(i for i, kind in enumerate(used) if kind == "category")

    def unknown(self, width: int) -> Categories:
        """Return what the learner, which has so many columns, knows of them before any row."""
        sources = enumerate(self.sources(width))
        dates = tuple(i for i, at in sources if at < 0 or (self.kinds and self.kinds[at] == "date"))
        return Categories.unknown(self.categories, dates, self.calendar)

    @property
    def counts(self) -> list[int]:
        """How many levels of each category have a number in their order."""
        return [len(each) for each, kind in zip(self.levels, self.kinds, strict=True) if kind == "category"]

    def names(self, given: Sequence[str], categories: Categories) -> list[str]:
        """Return the names of the inputs of the model, by those of the columns of X."""
        of_times = calendar_names("time", categories.entries) if self.dated else []
        if not self.kinds:
            return [*given, *of_times]
        known, found = iter(categories.levels), []
        for name, kind, each in zip(given, self.kinds, self.levels, strict=True):
            if kind == "category":
                count = next(known)
                one_hot = Feature(name, "categorical", each[:count]).encoded
                found += one_hot if count else effect_names(name, categories.statistics)
            elif kind not in LEFT_OUT:
                found += [name] if kind == "number" else calendar_names(name, categories.entries)
        return found + of_times

    def left_out(self, given: Sequence[str]) -> dict[str, str]:
        """Return why columns are no inputs of the model, by their names."""
        named = zip(given if self.kinds else (), self.kinds, strict=True)
        return {name: NO_DATE if kind == "clock" else IS_DATE for name, kind in named if kind in LEFT_OUT}

    def numbers(self, X: Any, known: Sequence[int] | None = None) -> tuple[Any, "Columns"]:
        """Return rows as numbers, in a frame if they came as one, and what is known with their levels.

        `known` is how many levels of each category have a column, where there are to be no more, 0 where their worth
        is learnt; None takes in others.
        """
        frame = _as_frame(X)
        if not self._needs_work(frame):
            return X, self
        names = None if frame is None else frame.columns
        table = [*frame.iter_columns()] if frame is not None else [*np.asarray(X, dtype=object).T]
        kinds = self.kinds or ("number",) * len(table)
        if len(table) != len(kinds):  # which is for scikit-learn to say
            return (X if frame is None else _made(X, names, [np.zeros(len(column)) for column in table])), self
        values, levels, counts = [], [], iter(known or ())
        orders: tuple[Order, ...] = self.orders or ("",) * len(table)
        decimals = self.decimals or (None,) * len(table)
        all_levels = self.levels or ((),) * len(table)
        for kind, column, each, order, decimal in zip(kinds, table, all_levels, orders, decimals, strict=True):
            if kind == "category":
                codes = dict(zip(each, range(len(each)), strict=True))
                if known is not None and (count := next(counts)):
                    codes = {level: code for level, code in codes.items() if code < count}
                values.append(_codes(column, codes, grows=known is None))
                levels.append(tuple(codes))
            else:
                values.append(
                    _seconds(column, order) if kind == "date" or kind in LEFT_OUT else _numbers(column, decimal)
                )
                levels.append(())
        return _made(X, names, values), replace(self, levels=tuple(levels) if self.kinds else ())

    def inputs(self, X: Float[np.ndarray, "n d"], times: np.ndarray | None) -> Float[np.ndarray, "n w"]:
        """Return the columns of the learner, from those that `numbers` has turned into numbers."""
        if self.are_numbers:
            return X
        kinds = self.kinds or ("number",) * X.shape[1]
        parts = [np.empty((len(X), 0))]
        parts += [X[:, i : i + 1] for i, kind in enumerate(kinds) if kind not in LEFT_OUT]
        if self.dated and times is not None:
            parts.append(times[:, None])
        return np.concatenate(parts, axis=1)

    def _needs_work(self, frame: nw.DataFrame | None) -> bool:
        """Return whether some column is no plain one of numbers."""
        if frame is None:
            return any(kind != "number" for kind in self.kinds)
        if any(kind != "number" for kind in self.kinds):
            return True
        return not all(dtype.is_numeric() for dtype in frame.schema.values())


def encoded_table(X: Any) -> tuple[Any, list[str] | None]:
    """Return a frame with a column of numbers for each of the first 50 levels, and its names; no frame as it is.

    For models that take nothing but numbers: the levels of all rows have columns, which are 0 before the first row
    of a level.
    """
    first = Columns.of_first(X, None, ())
    if first.are_numbers and not first._needs_work(_as_frame(X)):
        return X, None
    frame, columns = first.numbers(X)
    native = nw.from_native(frame, eager_only=True, pass_through=True)
    names = [str(name) for name in _columns_of(X)]
    table = columns.inputs(native.to_numpy() if isinstance(native, nw.DataFrame) else np.asarray(frame), None)
    known, nothing = Categories(columns.categories, tuple(columns.counts)), np.zeros((len(table), 0, 1))
    return known(table.astype(np.float64), nothing), columns.names(names, known)


def _as_frame(X: Any) -> nw.DataFrame | None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _columns_of(X: Any) -> list[Any]:
    frame = _as_frame(X)
    return [] if frame is None else frame.columns


def _named_of(frame: nw.DataFrame, kinds: Sequence[Kind], wanted: Sequence[Kind]) -> list[str]:
    return [repr(name) for name, kind in zip(frame.columns, kinds, strict=True) if kind in wanted]


def _order(column: nw.Series) -> Order:
    """Return what a column's dates of text begin with."""
    return find_order(column.head(_DECIDING).to_list()) if column.dtype in (nw.String, nw.Object) else ""


def _decimals(frame: nw.DataFrame) -> tuple[Decimal | None, ...]:
    """Return the decimal marks of columns of numbers as text."""
    texts = [column for column in frame.iter_columns() if column.dtype in (nw.String, nw.Object)]
    heads = {column.name: _cells_of_text(column.head(_DECIDING).to_list()) for column in texts}
    marks = find_marks(heads)
    for name, question in marks.questions.items():
        raise ValueError(f"X: column {name!r}: {question}; turn it into numbers")
    return tuple(marks.decimals.get(name) for name in frame.columns)


def _kind(column: nw.Series, order: Order, decimal: Decimal | None) -> Kind:
    """Return what a column is, by its type or its first cells."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number"
    if dtype in (nw.Date, nw.Datetime):
        return "date"
    if dtype.is_temporal():
        raise ValueError(
            f"X: expected columns of numbers, text, true and false, or dates, got {dtype} in column "
            f"{column.name!r}; turn it into numbers, or leave it out"
        )
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return "category"
    each = [cell for cell in column.head(_DECIDING).to_list() if not is_missing(cell)]
    if not any(isinstance(cell, str | date) for cell in each):
        return "number"
    kinds: list[Kind] = [_kind_of_cell(cell, order, decimal) for cell in each]
    return Counter(kinds).most_common(1)[0][0]


def _kind_of_cell(cell: Any, order: Order, decimal: Decimal | None) -> Kind:
    """Return what a column of such cells is."""
    if isinstance(cell, date):
        return "date"
    if not np.isnan(_numbers([cell], decimal)[0]):
        return "number"
    if cells.looks_like_date(cell):
        return "date" if np.isfinite(cells.to_seconds([cell], order)[0]) else "clock"
    return "category"


def _cells(column: Any) -> list[Any]:
    return column.to_list() if hasattr(column, "to_list") else list(column)


def _cells_of_text(each: Sequence[Any]) -> list[Cell]:
    """Return cells with None for what is missing, and those that are neither numbers nor text as text."""
    return [None if is_missing(cell) else cell if isinstance(cell, str | int | float) else str(cell) for cell in each]


def _numbers(column: Any, decimal: Decimal | None = None) -> Float[np.ndarray, " n"]:
    """Return numbers, true and false as 1 and 0, and NaN for all else."""
    if isinstance(column, nw.Series) and column.dtype.is_numeric():
        return np.array(column.cast(nw.Float64).to_list(), dtype=np.float64)
    each = _cells_of_text(_cells(column))
    values = to_numbers(each, decimal)
    words = np.isnan(values)
    if words.any():
        values[words] = cells.to_booleans([cell for cell, word in zip(each, words.tolist(), strict=True) if word])
    return values


def _codes(column: Any, codes: dict[str, int], grows: bool) -> Float[np.ndarray, " n"]:
    """Return the code of each cell; new levels are added to the codes if they may grow."""
    texts = ["" if is_missing(cell) else cells.to_text(cell) for cell in _cells(column)]
    new = [text for text in dict.fromkeys(texts) if text not in codes] if grows else []
    codes.update({text: len(codes) + i for i, text in enumerate(new[: MAX_LEVELS - len(codes)])})
    if len(codes) == MAX_LEVELS:
        return level_codes(texts, list(codes))
    return np.array([codes.get(text, UNKNOWN) for text in texts], dtype=np.float64)


def _seconds(column: Any, order: Order) -> Float[np.ndarray, " n"]:
    """Return dates as seconds since 1970, NaN for all else."""
    if isinstance(column, nw.Series) and column.dtype in (nw.Date, nw.Datetime):
        stamps = column.dt.timestamp("us").to_list()
        return np.array([np.nan if stamp is None else stamp / 1e6 for stamp in stamps], dtype=np.float64)
    return cells.to_seconds([None if is_missing(cell) else cell for cell in _cells(column)], order)


def _made(X: Any, names: Sequence[Any] | None, values: list[np.ndarray]) -> Any:
    """Return columns in a frame of the make of X, or in an array where X is none or names are no words."""
    if names is None or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        return np.stack(values, axis=1)
    return FrameLike.of(X).make(dict(zip(names, values, strict=True)), aligned=True)
