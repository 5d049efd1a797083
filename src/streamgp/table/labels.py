"""Codes of labels and grades: the names that they stand for, and how the cells of a target become codes or counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float64

from streamgp.numerics.checkpoint.encoding import register
from streamgp.table import cells
from streamgp.table.numbers import Cell, Column, Decimal, is_missing, is_missing_number, to_numbers

MAX_CLASSES = 50
_MAX_COUNT = 2.0**53  # larger whole numbers are not distinct as floats

Kind = Literal["text", "numeric", "boolean"]


@register
@dataclass(frozen=True)
class ClassNames:
    """The names of classes or grades, in the order of their codes 0, 1, ...

    Attributes
    ----------
    names
        Those found in the first rows, sorted, then those that came later, in the order in which they came; of grades
        all of them.
    kind
        How a cell is read: as a number (1 and 1.0 are one name), as true or false in any case, or as text.
    first
        How many were known from the first rows.
    ordered
        Whether they are grades, to which none may be added.
    """

    names: tuple[str, ...]
    kind: Kind
    first: int
    ordered: bool = False

    @classmethod
    def from_first_rows(cls, names: Sequence[str], kind: Kind, ordered: bool = False) -> "ClassNames":
        """Return the names that were found in the first rows: all of them count as first ones."""
        return cls(tuple(names), kind, len(names), ordered)

    @property
    def values(self) -> Float64[np.ndarray, " k"]:
        """Return the numbers that the names are, or else their ranks 1, 2, ..."""
        if self.kind == "numeric":
            return np.array([float(name) for name in self.names])
        return np.arange(1.0, len(self.names) + 1.0)

    def to_codes(
        self, target: str, column: Column, faults: dict[int, str], decimal: Decimal | None = None
    ) -> tuple[Float64[np.ndarray, " n"], "ClassNames"]:
        """Return the codes of all rows, and the names with new ones; add bad cells to `faults`.

        Rows that are in `faults` already add no name.
        """
        index = {name: float(code) for code, name in enumerate(self.names)}
        codes = np.full(len(column), math.nan)
        for i, (cell, name) in enumerate(zip(column, to_names(column, self.kind, decimal), strict=True)):
            if i in faults:
                continue
            if name is None:
                faults[i] = f"target column '{target}': expected a label, got {cells.format_cell(cell)}"
            elif name not in index and self.ordered:
                known = ", ".join(self.names)
                faults[i] = (
                    f"target column '{target}': expected one of the grades {known}, got {cells.format_cell(cell)}; "
                    f"name all grades in their order (--grades)"
                )
            elif name not in index and len(index) == MAX_CLASSES:
                faults[i] = f"target column '{target}': expected at most {MAX_CLASSES} labels, got one more, {name!r}"
            else:
                codes[i] = index.setdefault(name, float(len(index)))
        return codes, self if len(index) == len(self.names) else replace(self, names=tuple(index))


def to_names(column: Column, kind: Kind, decimal: Decimal | None = None) -> list[str | None]:
    """Return the name of the label in every cell; None where one is missing."""
    if kind != "numeric":
        return [None if is_missing(cell) else _text_name(cell, kind) for cell in column]
    numbers = to_numbers(column, decimal).tolist()
    return [_number_name(number, cell) for number, cell in zip(numbers, column, strict=True)]


def _text_name(cell: Cell, kind: Kind) -> str:
    if not isinstance(cell, str) and (name := _number_name(to_numbers([cell]).item(), cell)):
        return name  # a number among text, as JSON may have one
    return cells.to_text(cell).lower() if kind == "boolean" else cells.to_text(cell)


def _number_name(number: float, cell: Cell) -> str | None:
    if math.isfinite(number):
        return f"{number:.0f}" if number == round(number) and abs(number) < _MAX_COUNT else repr(number)
    return None if is_missing_number(cell) else cells.to_text(cell)


def to_counts(
    target: str, column: Column, faults: dict[int, str], decimal: Decimal | None = None
) -> Float64[np.ndarray, " n"]:
    """Return the counts of all rows; add bad cells to `faults`."""
    values = to_numbers(column, decimal)
    for i in np.flatnonzero(~((values >= 0) & (values == np.round(values)) & (values < _MAX_COUNT))).tolist():
        got = cells.format_cell(column[i])
        faults.setdefault(i, f"target column '{target}': expected a count, a whole number from 0 on, got {got}")
    return values


def to_log_exposures(
    name: str, column: Column, faults: dict[int, str], decimal: Decimal | None = None
) -> Float64[np.ndarray, " n"]:
    """Return the log of the exposure of every row; add bad cells to `faults`."""
    values = to_numbers(column, decimal)
    good = (values > 1.0 / cells.LARGEST) & (values < cells.LARGEST)
    for i in np.flatnonzero(~good).tolist():
        got = cells.format_cell(column[i])
        faults.setdefault(i, f"exposure column '{name}': expected a positive finite number, got {got}")
    return np.log(values, out=np.zeros(len(values)), where=good)
