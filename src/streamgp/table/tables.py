"""Reader of a table of numbers without a target, in which cells may be missing, in bounded memory."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from streamgp.numerics.digits import shortest
from streamgp.table import cells
from streamgp.table.blocks import Block
from streamgp.table.extent import Extent
from streamgp.table.inference import check_marks, infer_schema
from streamgp.table.lines import Readable
from streamgp.table.numbers import Column, is_missing, to_numbers
from streamgp.table.readers import Missing
from streamgp.table.reading import AS_FOUND, Reading
from streamgp.table.roles import Roles, check_names
from streamgp.table.schema import TEXT, DataError
from streamgp.table.sources import open_source

INFER_ROWS = 1_000  # rows that decide the kinds of the columns
BATCH_ROWS = 1_024


class TableBatch(NamedTuple):
    """Consecutive good rows of a table.

    Attributes
    ----------
    X
        Numbers, NaN where a cell is missing.
    labels
        The cells of the label column as text, if there is one; empty where missing.
    rows
        The 0-based index of each row among the file's data rows.
    """

    X: Float64[np.ndarray, "n d"]
    labels: list[str] | None
    rows: np.ndarray


class Table:
    """The rows of a file, batch by batch; use it in a ``with`` statement.

    Parameters
    ----------
    source
        As in `open_rows`.
    features
        The columns to read; all columns of numbers or of true and false, by default.
    label
        A column of any kind that is returned beside the numbers.
    missing
        What to do with a row that cannot be read, that has a cell which is no number, or that has no number at all:
        ``raise`` (after all good rows before it have been yielded), or ``skip`` and count it. With ``impute`` a cell
        that is no number counts as empty; a row without any number is skipped and counted.
    max_rows
        Read only so many rows of the file.

    Attributes
    ----------
    name
        What error messages call the file.
    columns
        The names of the columns of X.
    dropped
        Columns left out by inference, each with the reason.
    skipped_rows
        Bad rows so far.
    extent
        How much there is to read.

    Raises
    ------
    DataError
        If the file or a column cannot be used; while iterating, a row.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Readable,
        *,
        features: Sequence[str] | None = None,
        label: str | None = None,
        missing: Missing = "raise",
        max_rows: int | None = None,
        reading: Reading = AS_FOUND,
    ) -> None:
        self._source = open_source(source)
        self._codes = reading.codes
        self.name = self._source.name
        self.skipped_rows = 0
        self._label, self._max_rows = label, max_rows
        self._missing: Missing = missing
        self.extent = Extent.of(self._source, max_rows)
        try:
            self._head = self._read(INFER_ROWS)
            if not self._head.size:
                raise DataError(f"{self.name}: the file has no data rows; expected some below the column names.")
            others = [] if label is None else [label]
            roles = Roles(others, features)
            check_names(self.name, list(self._head.columns), roles)
            columns = self._head.sound_columns()
            of_numbers = {name: column for name, column in columns.items() if name != label}
            marks = check_marks(self.name, of_numbers, self._source.separator, reading.decimal)
            schema = infer_schema(self.name, columns, roles, needs_features=False, marks=marks)
            kinds = {feature.name: feature.kind for feature in schema.features}
            text = [name for name, kind in kinds.items() if kind in TEXT]
            if text and features is not None:
                raise DataError(f"{self.name}: column '{text[0]}' holds text, not numbers; leave it out.")
            self.dropped = schema.dropped | dict.fromkeys(text, "it holds text")
            self._decimals = marks.decimals
            self._kinds = {name: kind for name, kind in kinds.items() if name not in text}
            self.columns = list(self._kinds)
            if not self.columns:
                raise DataError(f"{self.name}: expected columns of numbers, found none.")
        except BaseException:
            self._source.close()
            raise
        self._source.selected = self.columns + others

    def __enter__(self) -> "Table":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def bytes_read(self) -> int | None:
        """Return how much of a file of text was read."""
        return self._source.bytes_read

    def __iter__(self) -> Iterator[TableBatch]:
        block = self._head
        while block.size:
            yield from self._good_rows(block)
            block = self._read(BATCH_ROWS)

    def _read(self, count: int) -> Block:
        return self._source.read(self._wanted(count)).without(self._codes, ())

    def _wanted(self, count: int) -> int:
        return count if self._max_rows is None else min(count, max(0, self._max_rows - self._source.next_row))

    def _good_rows(self, block: Block) -> Iterator[TableBatch]:
        """Yield the good rows of a block; where bad rows raise, those before the first of them, then its error."""
        faults = dict(block.faults)
        values = {name: self._numbers(name, block, faults) for name in self.columns}
        X = np.stack(list(values.values()), axis=1)
        for i in np.flatnonzero(np.isnan(X).all(axis=1)).tolist():
            faults.setdefault(i, "expected a number in some column, got none")
        bad = sorted(faults)
        raises = bool(bad) and self._missing == "raise"
        good = np.arange(bad[0]) if raises else np.delete(np.arange(block.size), bad)
        self.skipped_rows += 0 if raises else len(bad)
        if len(good):
            labels = None if self._label is None else _labels(block.columns[self._label])
            yield TableBatch(X[good], labels and [labels[i] for i in good.tolist()], block.first_row + good)
        if raises:
            raise DataError(
                f"{self.name}: {block.where(bad[0])}: {faults[bad[0]]}; correct the row, or skip such rows "
                f"(--missing skip)."
            )

    def _numbers(self, name: str, block: Block, faults: dict[int, str]) -> Float64[np.ndarray, " n"]:
        """Convert a column, with NaN for missing cells; record the cells that are no numbers."""
        column = block.columns[name]
        is_boolean, decimal = self._kinds[name] == "boolean", self._decimals.get(name)
        values = cells.to_booleans(column) if is_boolean else to_numbers(column, decimal)
        for i in np.flatnonzero(~(np.abs(values) <= cells.LARGEST)).tolist():
            if self._missing == "impute":
                continue
            if not is_missing(column[i]):
                expected = "true or false" if is_boolean else "a finite number"
                faults.setdefault(
                    i, f"column '{name}': expected {expected} or nothing, got {cells.format_cell(column[i])}"
                )
        return np.where(np.abs(values) <= cells.LARGEST, values, np.nan)


def _labels(column: Column) -> list[str]:
    """Write the cells as text; whole numbers without a decimal point."""
    if isinstance(column, np.ndarray):
        return ["" if np.isnan(value) else shortest(value) for value in column]
    return ["" if is_missing(cell) else cells.to_text(cell) for cell in column]
