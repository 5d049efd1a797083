"""The rows of a file of keyed streams, as frames for a fleet."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from streamgp.fleet.run_settings import FleetRunSettings
from streamgp.numerics.digits import shortest
from streamgp.table import DataError, cells
from streamgp.table.blocks import Block
from streamgp.table.codes import find_suspects, say_suspects
from streamgp.table.extent import Extent
from streamgp.table.inference import check_marks, infer_schema
from streamgp.table.numbers import Column, Gaps, is_missing, is_missing_number, to_numbers
from streamgp.table.roles import Roles, check_names
from streamgp.table.schema import TEXT, Schema
from streamgp.table.sources import open_source
from streamgp.table.targets import check_numbers

# The first rows, which decide the kinds of the columns.
INFER_ROWS = 1_000
_ADVICE = "a fleet has one model for numbers: choose a numeric target, or leave out --key for labels"


class KeyedRows:
    """The rows of a file as frames with a column of keys; use it in a ``with`` statement."""

    def __init__(self, settings: FleetRunSettings) -> None:
        self._settings = settings
        self._source = open_source(settings.data)
        self.name = self._source.name
        self.chunk = settings.chunk
        self.extent = Extent.of(self._source, settings.max_rows)
        # The message on the first row that could not be read at all.
        self.first_fault: str | None = None
        # The gaps of inputs and targets in the rows given.
        self.gaps: dict[str, Gaps] = {}
        try:
            self._head = self._read(INFER_ROWS)
            if not self._head.size:
                raise DataError(f"{self.name}: the file has no data rows; expected some below the column names.")
            columns = self._head.sound_columns()
            self._texts = [name for name in (settings.key, settings.group) if name is not None]
            others = [*self._texts, *([] if settings.time is None else [settings.time])]
            check_names(self.name, list(columns), Roles([settings.target, *others], settings.features))
            columns = {name: cells for name, cells in columns.items() if name not in self._texts}
            marks = check_marks(self.name, columns, self._source.separator, settings.reading.decimal)
            roles = Roles([settings.target], settings.features, settings.time)
            schema = infer_schema(self.name, columns, roles, needs_features=False, marks=marks)
            target = settings.target
            if not all(map(is_missing, columns[target])):  # targets that come later are waited for
                decimal = schema.decimals.get(target)
                check_numbers(self.name, self._head, target, columns[target], decimal, "numbers", _ADVICE)
            suspects = self._suspects(columns, schema)
            self.schema: Schema = replace(schema, notes=(*schema.notes, *suspects))
            self.kinds = {each.name: each.kind for each in schema.features if each.kind not in TEXT}
            self.inputs = [each.name for each in schema.features]
            self.dropped = schema.dropped
        except BaseException:
            self._source.close()
            raise
        self._source.selected = [*others, settings.target, *self.inputs]

    def __enter__(self) -> "KeyedRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def bytes_read(self) -> int | None:
        """Return how much of a file of text was read."""
        return self._source.bytes_read

    def __iter__(self) -> Iterator[tuple[np.ndarray, pl.DataFrame]]:
        block = self._head
        while block.size:
            for start in range(0, block.size, self.chunk):
                yield self._frame(block, range(start, min(start + self.chunk, block.size)))
            block = self._read(self.chunk)

    def _suspects(self, columns: Mapping[str, Column], schema: Schema) -> list[str]:
        """Say which columns seem to have codes for missing values in the first rows."""
        names = [*(each.name for each in schema.features if each.kind == "numeric"), *schema.targets]
        numbers = [to_numbers(columns[name], schema.decimals.get(name)) for name in names]
        found = find_suspects(np.stack(numbers, axis=1))
        return say_suspects(found, names, f"the first {self._head.size:,} rows", "--missing-values {}")

    def _read(self, count: int) -> Block:
        uncoded = (self._settings.key, self._settings.group, self._settings.time)
        return self._source.read(self._wanted(count)).without(self._settings.reading.codes, uncoded)

    def _wanted(self, count: int) -> int:
        most = self._settings.max_rows
        return count if most is None else min(count, max(0, most - self._source.next_row))

    def _frame(self, block: Block, rows: range) -> tuple[np.ndarray, pl.DataFrame]:
        """Return the numbers of some rows in the file, and their frame; rows that cannot be read have no key."""
        faults = [i for i in rows if i in block.faults]
        if faults and self._settings.missing == "raise":
            raise DataError(f"{self.name}: {block.where(faults[0])}: {block.faults[faults[0]]}")
        if faults and self.first_fault is None:
            self.first_fault = f"{block.where(faults[0])}: {block.faults[faults[0]]}"
        part = {name: block.columns[name][rows.start : rows.stop] for name in self._source.selected or []}
        found = {name: [_key(cell) for cell in part[name]] for name in self._texts}
        frame = pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))
        if (time := self._settings.time) is not None:
            frame = frame.with_columns(self._times(time, part[time], block, rows))
        for name in (self._settings.target, *self.kinds):
            values = self._numbers(name, part[name])
            outside = self._outside(name, values)
            if outside:
                values = values.copy()  # which may be the file's own memory
                values[list(outside)] = np.nan
            self._note(values, part[name], name, block, rows, outside)
            frame = frame.with_columns(pl.Series(name, values))
        for name in (name for name in self.inputs if name not in self.kinds):
            levels = [None if is_missing(cell) else cells.to_text(cell) for cell in part[name]]
            frame = frame.with_columns(pl.Series(name, levels, pl.Categorical))
        return block.first_row + np.array(rows, np.int64), frame

    def _times(self, name: str, column: Column, block: Block, rows: range) -> pl.Series:
        """Return the times of rows, nothing where there is none; refuse the first such row, or note it."""
        dated = self.schema.time_is_text
        values = cells.to_seconds(column, self.schema.orders.get(name, "")) if dated else self._numbers(name, column)
        for i in np.flatnonzero(~(np.abs(values) <= cells.LARGEST)).tolist():
            expected = cells.A_DATE if dated else "a finite number"
            fault = f"{block.where(rows[i])}: time column '{name}': {cells.say_no_time(column[i], expected)}"
            if self._settings.missing == "raise":
                raise DataError(f"{self.name}: {fault}")
            self.first_fault = self.first_fault or fault
        if not dated:
            return pl.Series(name, values)
        return pl.Series(name, values * 1e6, nan_to_null=True).cast(pl.Int64).cast(pl.Datetime("us"))

    def _outside(self, name: str, values: np.ndarray) -> dict[int, str]:
        """Return what is wrong with targets that cannot be, by their row."""
        return self._settings.target_map.faults(values[:, None]) if name == self._settings.target else {}

    def _note(
        self, values: np.ndarray, column: Column, name: str, block: Block, rows: range, outside: Mapping[int, str]
    ) -> None:
        """Count the cells of a column that have no value, or refuse the first that is not empty.

        `outside` are values that cannot be, and what is wrong with them.
        """
        for i in np.flatnonzero(~(np.abs(values) <= cells.LARGEST)).tolist():
            if rows[i] in block.faults:
                continue
            fault = None
            if not is_missing_number(column[i]):
                what = "target column" if name == self._settings.target else "column"
                expected = "true or false" if self.kinds.get(name) == "boolean" else "a finite number"
                got = cells.say_got(column[i], self.schema.decimals.get(name))
                fault = f"{block.where(rows[i])}: {what} '{name}': {outside.get(i, f'expected {expected}, {got}')}"
                if self._settings.missing == "raise":
                    raise DataError(f"{self.name}: {fault}")
            self.gaps.setdefault(name, Gaps()).add(fault)

    def _numbers(self, name: str, column: Column) -> np.ndarray:
        if self.kinds.get(name) == "boolean":
            return cells.to_booleans(column)
        return to_numbers(column, self.schema.decimals.get(name))


def _key(cell: Any) -> str | None:
    if is_missing(cell):
        return None
    return shortest(cell) if isinstance(cell, float) else cells.to_text(cell)
