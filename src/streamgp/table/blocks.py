"""Blocks of raw columns, and the protocol of a file that yields them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from streamgp.table.codes import MissingCodes
from streamgp.table.numbers import Column


@dataclass(frozen=True)
class Block:
    """Consecutive data rows of a file, column by column.

    Attributes
    ----------
    columns
        The cells of each column.
    first_row
        The 0-based index of the first row among the file's data rows.
    size
        The number of rows.
    faults
        What is wrong with rows that could not be read at all; their cells are None.
    lines
        The line of the file that each row starts on, 1-based (text files only).
    """

    columns: dict[str, Column]
    first_row: int
    size: int
    faults: dict[int, str]
    lines: list[int] | None = None

    def where(self, i: int) -> str:
        """Name the block's row `i` for an error message."""
        line = "" if self.lines is None else f" (line {self.lines[i]})"
        return f"data row {self.first_row + i + 1}{line}"

    def tail(self, start: int) -> "Block":
        """Return the block without its first `start` rows."""
        return Block(
            {name: column[start:] for name, column in self.columns.items()},
            self.first_row + start,
            self.size - start,
            {i - start: fault for i, fault in self.faults.items() if i >= start},
            None if self.lines is None else self.lines[start:],
        )

    def without(self, codes: MissingCodes, kept: Collection[str | None]) -> "Block":
        """Return the block with no cells where one is a code for a missing value, but in the columns to be `kept`."""
        if not codes:
            return self
        columns = {n: column if n in kept else codes.blank_cells(column) for n, column in self.columns.items()}
        return replace(self, columns=columns)

    def sound_columns(self) -> dict[str, Column]:
        """Return the columns without the rows that could not be read."""
        if not self.faults:
            return self.columns
        sound = [i for i in range(self.size) if i not in self.faults]
        return {name: [column[i] for i in sound] for name, column in self.columns.items()}


@runtime_checkable
class Source(Protocol):
    """A file of rows.

    Attributes
    ----------
    name
        What error messages call it.
    columns
        The names of its columns; None where only the rows have them (JSON lines).
    selected
        The columns that `read` returns; None means all.
    total_rows
        The number of data rows, where the file says.
    next_row
        The index of the row that `read` returns next.
    orders
        The categories of the columns that say in which order these are.
    separator
        What stands between the cells of a line; None of a file without lines of cells.
    """

    name: str
    separator: str | None
    orders: dict[str, list[str]]
    selected: list[str] | None
    next_row: int

    @property
    def columns(self) -> list[str] | None:
        """Return the names of the columns."""
        ...

    @property
    def total_rows(self) -> int | None:
        """Return the number of data rows."""
        ...

    @property
    def bytes_total(self) -> int | None:
        """Return the size of the file, where its rows are read in step with its bytes."""
        ...

    @property
    def bytes_read(self) -> int | None:
        """Return how much of `bytes_total` has been read."""
        ...

    def read(self, count: int) -> Block:
        """Read the next rows, `count` at most; none only at the end of the file."""
        ...

    def skip(self, count: int) -> None:
        """Skip the next `count` rows."""
        ...

    def close(self) -> None:
        """Close the file, if the source opened it."""
        ...
