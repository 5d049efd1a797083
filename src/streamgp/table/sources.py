"""File formats: each source yields a file's rows as blocks of raw columns, in bounded memory."""

import csv
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from streamgp.table.blocks import Block, Source
from streamgp.table.cells import format_cell
from streamgp.table.layout import SAMPLE, find_layout, fit, header_names, read_cells
from streamgp.table.lines import Lines, Readable
from streamgp.table.numbers import Cell, Column
from streamgp.table.schema import DataError

_SLAB_CELLS = 1 << 22  # cells of a Parquet file that are held at a time
_SLAB_ROWS = 1 << 16


def open_source(source: str | os.PathLike[str] | Readable) -> Source:
    """Open a file by its extension; ``"-"`` and file objects are read as CSV.

    Raises
    ------
    DataError
        If the file is missing, unreadable, empty or of an unknown kind.
    """
    if not isinstance(source, str | os.PathLike):
        return CsvSource(Lines(source, str(getattr(source, "name", "the file object"))))
    if source == "-":
        return CsvSource(Lines(getattr(sys.stdin, "buffer", sys.stdin), "standard input"))
    path = Path(source)
    name = path.name.lower()
    if not path.exists():
        raise DataError(f"{path}: there is no such file; check the path.")
    if not path.is_file():
        raise DataError(f"{path}: expected a regular file, got something else (a directory?); name one file.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; expected a table with named columns.")
    if name.endswith(".parquet"):
        return ParquetSource(path)
    if name.endswith((".csv", ".csv.gz")):
        return CsvSource(Lines.open(path))
    if name.endswith((".jsonl", ".jsonl.gz")):
        return JsonSource(Lines.open(path))
    raise DataError(
        f"{path}: expected a file named .csv, .csv.gz, .parquet, .jsonl or .jsonl.gz, got '{path.name}'; "
        f"rename or convert it."
    )


def peek_columns(source: str) -> list[str]:
    """Return the columns of a file, or of standard input, which is not read; none where that does not tell."""
    with suppress(DataError, OSError):
        if source != "-":
            with closing(open_source(source)) as opened:
                return list(opened.read(1).columns if opened.columns is None else opened.columns)
        buffer = getattr(sys.stdin, "buffer", None)
        start = b""
        if isinstance(buffer, io.BufferedReader):
            start = buffer.peek(1)
        elif isinstance(buffer, io.BytesIO):
            start = buffer.getvalue()[buffer.tell() :]
        return CsvSource(Lines(io.BytesIO(start), source)).columns
    return []


class _LinesSource(ABC):
    """A file of text, read line by line."""

    total_rows: int | None = None

    def __init__(self, lines: Lines) -> None:
        self.name = lines.name
        self.bytes_total = lines.bytes_total
        self.selected: list[str] | None = None
        self.orders: dict[str, list[str]] = {}
        self._lines = lines
        self.next_row = 0

    @property
    def bytes_read(self) -> int | None:
        """Return how much of `bytes_total` has been read."""
        return self._lines.bytes_read

    @abstractmethod
    def _records(self) -> Iterator[Any]:
        """Yield what is not blank, a row each."""

    def skip(self, count: int) -> None:
        """Skip the next `count` rows."""
        self.next_row += sum(1 for _ in islice(self._records(), count))

    def close(self) -> None:
        """Close the file, if the source opened it."""
        self._lines.close()


class CsvSource(_LinesSource):
    """Comma-separated values (or semicolons, tabs, bars, blanks) below one line of column names.

    Lines before that one are skipped where the lines below show that they are no part of the table.
    """

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines)
        try:
            sample = list(islice(lines, SAMPLE))
            layout = find_layout(sample)
            if layout.fault is not None:
                raise DataError(f"{self.name}: {layout.fault}.")
            self.separator: str | None = layout.separator
            self._lines_before = layout.before
            self._reader = read_cells(chain(sample[layout.before :], lines), layout.separator)
            _, header = next(self._records(), (0, None))
        except BaseException:
            lines.close()
            raise
        if not isinstance(header, list):
            lines.close()
            raise DataError(f"{self.name}: expected a first line of column names, got {header or 'no text at all'}.")
        self.columns: list[str] = header_names(header, layout.separator)

    def _records(self) -> Iterator[tuple[int, list[str] | str]]:
        """Yield the records that are not blank, each with its line; in place of a malformed one, its fault."""
        while True:
            line = self._lines_before + self._reader.line_num + 1
            try:
                record: list[str] | str = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                record = f"malformed CSV ({error})"
            if record:
                yield line, record

    def read(self, count: int) -> Block:
        """Read the next rows, `count` at most; none only at the end of the file."""
        width = len(self.columns)
        records: list[Sequence[Cell]] = []
        lines, faults = [], {}
        for line, record in islice(self._records(), count):
            record = fit(record, width) if isinstance(record, list) else record
            if (fault := self._fault(record)) is not None:
                faults[len(records)] = fault
            records.append(record if fault is None else [None] * width)
            lines.append(line)
        cells = zip(*records, strict=True) if records else ((),) * width
        selected = self.columns if self.selected is None else self.selected
        by_name = dict(zip(self.columns, cells, strict=True))
        columns: dict[str, Column] = {name: by_name[name] for name in selected}
        block = Block(columns, self.next_row, len(records), faults, lines)
        self.next_row += len(records)
        return block

    def _fault(self, record: list[str] | str) -> str | None:
        """Return why a record is no row, if so: malformed, of another length, or the header of a file joined on."""
        if isinstance(record, str):
            return record
        if len(record) != len(self.columns):
            return f"expected {len(self.columns)} cells, got {len(record)}"
        if record[0].strip() == self.columns[0] and [cell.strip() for cell in record] == self.columns:
            return "expected data, got the column names again"
        return None


class JsonSource(_LinesSource):
    """JSON lines: one object in each line, whose keys name the columns."""

    columns: list[str] | None = None
    separator: str | None = None

    def _records(self) -> Iterator[str]:
        return (line for line in self._lines if not line.isspace())

    def read(self, count: int) -> Block:
        """Read the next rows, `count` at most; none only at the end of the file."""
        records: list[dict[str, Any]] = []
        lines, faults = [], {}
        for line in islice(self._records(), count):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                faults[len(records)] = f"expected a JSON object, got {format_cell(line.strip())} ({error})"
                record = {}
            if not isinstance(record, dict):
                faults[len(records)] = f"expected a JSON object, got {format_cell(line.strip())}"
                record = {}
            records.append(record)
            lines.append(self._lines.number)
        names = self.selected if self.selected is not None else dict.fromkeys(chain.from_iterable(records))
        columns: dict[str, Column] = {n: _json_column(n, records) for n in names}
        block = Block(columns, self.next_row, len(records), faults, lines)
        self.next_row += len(records)
        return block


def _json_column(name: str, records: list[dict[str, Any]]) -> list[Cell]:
    """Collect one key's values; true, false and nested ones as the text that CSV would hold."""
    values = [record.get(name) for record in records]
    return [json.dumps(value) if isinstance(value, bool | list | dict) else value for value in values]


class ParquetSource:
    """A Parquet file, read in slabs of rows."""

    bytes_total: int | None = None
    bytes_read: int | None = None
    separator: str | None = None

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.selected: list[str] | None = None
        try:
            self._frame = pl.scan_parquet(path, glob=False)
            schema = self._frame.collect_schema()
            self.columns: list[str] = schema.names()
            self.total_rows: int = self._frame.select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._broken(error) from error
        self.orders = {
            name: dtype.categories.to_list() for name, dtype in schema.items() if isinstance(dtype, pl.Enum)
        }
        self.next_row = 0
        self._slab = pl.DataFrame()
        self._slab_rows = 0

    def _broken(self, error: Exception) -> DataError:
        return DataError(f"{self.name}: not a readable Parquet file ({str(error).splitlines()[0]}); write it again.")

    def read(self, count: int) -> Block:
        """Read the next rows, `count` at most; none only at the end of the file."""
        names = self.columns if self.selected is None else self.selected
        if not self._slab.height:
            # The first slab is as small as the request, so that a look at the schema stays cheap.
            largest = max(count, min(_SLAB_ROWS, _SLAB_CELLS // len(names)))
            self._slab_rows = min(max(count, 2 * self._slab_rows), largest)
            try:
                self._slab = self._frame.select(names).slice(self.next_row, self._slab_rows).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise self._broken(error) from error
        rows, self._slab = self._slab[:count], self._slab[count:]
        block = Block({series.name: _parquet_column(series) for series in rows}, self.next_row, rows.height, {})
        self.next_row += rows.height
        return block

    def skip(self, count: int) -> None:
        """Skip the next `count` rows."""
        self.next_row += count
        self._slab = pl.DataFrame()

    def close(self) -> None:
        """Drop the rows that are held."""
        self._slab = pl.DataFrame()


def _parquet_column(series: pl.Series) -> Column:
    if series.dtype.is_numeric():
        return series.cast(pl.Float64).to_numpy().astype(np.float64, copy=False)
    if series.dtype.is_nested() or series.dtype in (pl.Duration, pl.Binary, pl.Object):
        return [None if value is None else str(value) for value in series.to_list()]
    return series.cast(pl.String).to_list()
