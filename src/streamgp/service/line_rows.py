"""Lines of a table as rows of a stream: numbers from cells, and errors of cells without one."""

import csv
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streamgp.service.config import StreamConfig
from streamgp.table import cells
from streamgp.table.dates import Order, find_order
from streamgp.table.layout import fit, read_cells
from streamgp.table.numbers import (
    SAY_WHICH,
    Cell,
    Decimal,
    find_marks,
    is_missing,
    is_missing_number,
    to_numbers,
    why_unsure,
)
from streamgp.table.summer_time import advise_on_order


class Line(NamedTuple):
    """A line that is not blank: its number in the file, that of its row, and the row, or what is wrong with it."""

    number: int
    row: int
    given: dict[str, Any] | str


class Table:
    """The columns of a table, and which of them a stream takes.

    Parameters
    ----------
    config
        The stream.
    header
        Names of the columns.
    separator
        Of cells.
    time
        The column of times, if there is one.
    """

    def __init__(self, config: StreamConfig, header: Sequence[str], separator: str, time: str | None) -> None:
        self._config = config
        self._header = header
        self._separator = separator
        self._time = time

    def records(self, lines: Sequence[bytes]) -> list[list[str] | str]:
        """Return the cells of each line, none of one that is blank; of one that is no such line, what is wrong."""
        width = len(self._header)
        found = [record(line, self._separator) for line in lines]
        return [self._checked(each if isinstance(each, str) else fit(each, width)) for each in found]

    def _checked(self, found: list[str] | str) -> list[str] | str:
        if isinstance(found, list) and found and len(found) != len(self._header):
            return f"expected {len(self._header)} cells, got {len(found)}"
        return found

    def _times(self, records: Sequence[list[str] | str]) -> list[Cell]:
        """Return the times of rows, those that are missing left out."""
        good = [each for each in records if each and not isinstance(each, str)]
        column = [] if self._time is None else self._column(good, self._time)
        return [cell for cell in column if not is_missing_number(cell)]

    def order_of_dates(self, records: Sequence[list[str] | str]) -> Order:
        """Return what dates that have the year at their end begin with, if these rows tell."""
        return find_order(self._times(records))

    def times_are_dates(self, records: Sequence[list[str] | str]) -> bool | None:
        """Return whether the times of the rows are dates, rather than numbers; None without any time."""
        column = self._times(records)
        if not column:
            return None
        if cells.are_compact_dates(column):
            return True
        return bool(np.isfinite(to_numbers(column, "")).sum() <= len(column) / 2)

    def find_decimals(self, records: Sequence[list[str] | str], told: Decimal) -> dict[str, Decimal]:
        """Return the decimal marks of the columns of numbers of which these rows tell it."""
        good = [each for each in records if each and not isinstance(each, str)]
        config = self._config
        names = [name for name in config.features if name not in config.categories]
        names += [config.target] if config.has_numbers else []
        names += [] if self._time is None else [self._time]
        marks = find_marks({name: self._column(good, name) for name in names}, self._separator, told)
        return {name: mark for name, mark in marks.decimals.items() if mark}

    def rows(
        self,
        records: Sequence[list[str] | str],
        name: str,
        line: int,
        row: int,
        dates: bool | None,
        order: Order = "",
        decimals: Mapping[str, Decimal] = MappingProxyType({}),
    ) -> list[Line]:
        """Return a row of each record that is not blank, as a client would send it.

        Parameters
        ----------
        records
            As `records` returned them.
        name
            What ids begin with; the number of the row ends them.
        line, row
            Numbers of the lines and rows before the first.
        dates, order
            Whether times are dates, and what those begin with that have the year at their end.
        decimals
            The decimal marks of columns, as far as they are known.
        """
        numbers = [line + i + 1 for i, each in enumerate(records) if each]
        present = [each for each in records if each]
        faults = {i: each for i, each in enumerate(present) if isinstance(each, str)}
        width = len(self._header)
        good = [[""] * width if isinstance(each, str) else each for each in present]
        config = self._config
        given: list[dict[str, Any]] = [{"id": f"{name}:{row + i}", "x": {}} for i in range(len(good))]
        for feature in config.features:
            is_text = feature in config.categories
            values = self._texts(good, feature) if is_text else self._numbers(good, feature, faults, decimals)
            for i, value in enumerate(values):
                given[i]["x"][feature] = value
        if config.has_numbers:
            targets: list[Any] = self._numbers(good, config.target, faults, decimals)
        else:
            targets = self._texts(good, config.target)
        for i, target in enumerate(targets):
            given[i]["y"] = target
        if config.key is not None:
            for i, cell in enumerate(self._column(good, config.key)):
                given[i]["key"] = cells.to_text(cell)
                if not given[i]["key"]:
                    faults.setdefault(i, f"column '{config.key}': expected a key, got an empty cell")
        if self._time is not None:
            self._add_times(good, given, dates, order, faults, decimals)
        return [
            Line(number, row + i, faults.get(i, each))
            for i, (number, each) in enumerate(zip(numbers, given, strict=True))
        ]

    def _column(self, records: Sequence[list[str]], name: str) -> list[Cell]:
        at = self._header.index(name)
        return [each[at] for each in records]

    def _values(self, records: Sequence[list[str]], name: str) -> list[Cell]:
        """Return the cells of a feature or of the target, None where one is a code for a missing value."""
        return list(self._config.codes.blank_cells(self._column(records, name)))

    def _texts(self, records: Sequence[list[str]], name: str) -> list[str | None]:
        texts = [cells.to_text(cell) for cell in self._values(records, name)]
        return [None if is_missing(text) else text for text in texts]

    def _numbers(
        self, records: Sequence[list[str]], name: str, faults: dict[int, str], decimals: Mapping[str, Decimal]
    ) -> list[float | None]:
        column, decimal = self._values(records, name), decimals.get(name, "")
        values: list[float | None] = to_numbers(column, decimal).tolist()
        for i, (cell, value) in enumerate(zip(column, values, strict=True)):
            if value is not None and abs(value) <= cells.LARGEST:
                continue
            values[i] = None
            if cells.is_boolean(cell):
                values[i] = float(cells.to_booleans([cell])[0])
            elif (unsure := why_unsure(cell, decimal)) is not None:
                faults.setdefault(i, f"column '{name}': {unsure}; {SAY_WHICH}")
            elif not is_missing_number(cell):
                expected = f"a number of at most {cells.LARGEST:g} in size, or nothing"
                faults.setdefault(i, f"column '{name}': expected {expected}, got {cells.format_cell(cell)}")
        return values

    def _add_times(
        self,
        records: Sequence[list[str]],
        given: list[dict[str, Any]],
        dates: bool | None,
        order: Order,
        faults: dict[int, str],
        decimals: Mapping[str, Decimal],
    ) -> None:
        assert self._time is not None
        column = self._column(records, self._time)
        decimal = decimals.get(self._time, "")
        values = cells.to_seconds(column, order) if dates else to_numbers(column, decimal)
        last = -math.inf
        for i, (cell, value) in enumerate(zip(column, values.tolist(), strict=True)):
            where = f"time column '{self._time}'"
            if not abs(value) <= cells.LARGEST:
                expected = cells.A_DATE if dates else "a number"
                faults.setdefault(i, f"{where}: {cells.say_no_time(cell, expected)}")
            elif i not in faults:
                if value < last and not self._config.is_keyed:
                    advice = advise_on_order(last, value, "write rows in order", bool(dates))
                    expected = "none before that of an earlier row"
                    faults[i] = f"{where}: expected {expected}, got {cells.format_cell(cell)}; {advice}"
                last = max(last, value)
            given[i]["time"] = value


def record(line: bytes, separator: str) -> list[str] | str:
    """Return the cells of a line, none of one that is blank; what is wrong with one that is no line of a table."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"expected UTF-8 text, got byte 0x{line[error.start]:02x}"
    try:
        return next(read_cells([text], separator), [])
    except csv.Error as error:
        return f"malformed CSV ({error})"
