"""Numbers as text: the decimal mark of each column, decided over its first cells, and what later cells are by it.

A comma or a point is a decimal mark or stands between thousands: ``1,025`` alone may be 1025 or 1.025. What a column
means is decided once, by cells that can be read in one way alone; where none tells, the user is asked.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

Cell = str | int | float | None
Column = Sequence[Cell] | np.ndarray  # an array holds numbers, NaN where one is missing
Decimal = Literal["", ".", ","]  # the decimal mark of a column; "" where its cells do not tell

SAY_WHICH = "say which: --decimal . (or --thousands ,) or --decimal , (or --thousands .)"

_WORDS = ("na", "n/a", "#n/a", "null", "none")  # words for a missing number, as other programs write it
_BLANKS = "'’ \u00a0\u202f"  # what may stand between thousands, whatever the decimal mark is
_ENOUGH = 3  # different whole numbers below 1,000 beside '1,025' that tell that its comma is no decimal mark


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?P<mark>[{thousands}{_BLANKS}])\d{{3}}(?:(?P=mark)\d{{3}})*(?:\{decimal}\d*)?"
    return re.compile(rf"[+-]?(?:{grouped}|(?:\d+\{decimal}?\d*|\{decimal}\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_PLAIN = {  # by decimal mark, what turns a number into the spelling of Python
    ".": str.maketrans("", "", "," + _BLANKS),
    ",": str.maketrans(",", ".", "." + _BLANKS),
}
_MARKS = re.compile(rf"[.,{_BLANKS}]")
_ODD = re.compile(rf"[,_{_BLANKS}]")  # marks for which Python refuses a number, or reads it as no file means it


def is_missing(cell: Cell) -> bool:
    """Check whether a cell is empty, a JSON null or NaN in any spelling."""
    if isinstance(cell, str):
        return cell.strip().lower() in ("", "nan")
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def is_missing_number(cell: Cell) -> bool:
    """Check whether a cell is missing, or a word that stands for a missing number, such as NA and null."""
    return is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in _WORDS)


def to_numbers(column: Column, decimal: Decimal | None = None) -> Float64[np.ndarray, " n"]:
    """Convert the column to floats, NaN where a cell is missing or is not a number.

    Without a decimal mark (""), cells are that are a number in one way alone; a single point is a decimal mark then.
    With None, numbers have a decimal point and nothing between thousands.
    """
    if isinstance(column, np.ndarray):
        return column
    # Python reads "2020_01" as 202001, which no file means, and the point of "1.025" as a decimal mark.
    odd = "_." if decimal == "," else "_"
    words = "".join([cell for cell in column if isinstance(cell, str)])
    if not any(mark in words for mark in odd):
        try:
            return np.array(column, dtype=np.float64)
        except (ValueError, OverflowError):
            pass  # some cell is not a number: go through them one by one
    return np.array([_number(cell, decimal) for cell in column], dtype=np.float64)


def _number(cell: Cell, decimal: Decimal | None) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        cell = cell.strip()
        if _ODD.search(cell) or (decimal == "," and "." in cell):
            return math.nan if decimal is None else _read(cell, decimal)
    try:
        return float(cell)
    except ValueError:
        return math.nan
    except OverflowError:  # an integer of JSON; as text, float() makes it infinite too
        return math.inf


def _read(text: str, decimal: Decimal) -> float:
    """Return a number with marks, NaN where it is none or may be two."""
    found = {number for each in (decimal or _PATTERNS) if (number := _read_with(text, each)) is not None}
    return found.pop() if len(found) == 1 else math.nan


def _read_with(text: str, decimal: str) -> float | None:
    return float(text.translate(_PLAIN[decimal])) if _PATTERNS[decimal].fullmatch(text) else None


@dataclass
class Gaps:
    """The cells of a column that hold no value, though they are to be taken as missing.

    Attributes
    ----------
    empty
        How many are empty, or say that a value is missing.
    unreadable
        How many hold something else, such as a word in a column of numbers.
    first
        Where the first of those is, and what is wrong with it.
    """

    empty: int = 0
    unreadable: int = 0
    first: str = ""

    def add(self, fault: str | None) -> None:
        """Count one more; `fault` says where one that is not empty is and what is wrong with it."""
        if fault is None:
            self.empty += 1
            return
        self.unreadable += 1
        self.first = self.first or fault


def say_unreadable(gaps: Mapping[str, Gaps]) -> list[str]:
    """Say of each column which cells that are not empty counted as missing, in sentences without a full stop."""
    return [
        f"column '{name}': {each.unreadable:,} {'cell' if each.unreadable == 1 else 'cells'} that could not be read "
        f"counted as missing, beside {each.empty:,} empty; {'it' if each.unreadable == 1 else 'the first'} is in "
        f"{each.first}"
        for name, each in gaps.items()
        if each.unreadable
    ]


def why_unsure(cell: Cell, decimal: Decimal = "") -> str | None:
    """Say which two numbers a cell may be; None where it is one or none."""
    if decimal or not isinstance(cell, str):
        return None
    text = cell.strip()
    point, comma = (_read_with(text, each) for each in _PATTERNS)
    if point is None or comma is None or point == comma:
        return None
    return f"'{text}' may be {point:.15g} or {comma:.15g}"


@dataclass
class _Evidence:
    """What the cells of a column tell of their marks: the first cell of each kind."""

    present: int = 0
    numbers: int = 0
    sure: dict[Decimal, str] = field(default_factory=dict)  # a cell that can be read with one decimal mark alone
    unsure: dict[Decimal, str] = field(default_factory=dict)  # a cell that may be two numbers, by the mark within
    whole: set[int] = field(default_factory=set)  # whole numbers below 1,000, without any mark

    @property
    def is_numeric(self) -> bool:
        return self.numbers > self.present / 2

    @property
    def has_whole(self) -> bool:
        """Return whether so many numbers have no decimal part that those with three digits have none either.

        Decimal parts that are cut at their last zero have one or two digits a hundred times as often as none.
        """
        return len(self.whole) >= _ENOUGH


def _look(column: Column) -> _Evidence:
    found = _Evidence()
    if isinstance(column, np.ndarray):
        return found
    present = [cell for cell in column if not is_missing_number(cell)]
    texts = [cell.strip() for cell in present if isinstance(cell, str)]
    found.present, found.numbers = len(present), len(present) - len(texts)
    with_point = next((text for text in texts if "." in text and _marks(text) == {"."}), None)
    if not _ODD.search("\n".join(texts)) and (with_point is not None or not any("." in text for text in texts)):
        found.numbers += int((~np.isnan(to_numbers(texts))).sum())  # the usual case, in less time
        if with_point is not None:
            found.sure["."] = with_point
        return found
    for text in texts:
        marks = _marks(text)
        found.numbers += bool(marks) or not math.isnan(_number(text, ""))
        if not _MARKS.search(text):
            if text.strip("+-").isdigit() and 0 < abs(int(text)) < 1_000:
                found.whole.add(int(text))
        elif len(marks) == 1:
            found.sure.setdefault(marks.pop(), text)
        elif why_unsure(text) is not None:
            found.unsure.setdefault("," if "," in text else ".", text)
    return found


def _marks(text: str) -> set[Decimal]:
    """Return the decimal marks with which a text is a number."""
    marks: tuple[Decimal, ...] = (".", ",")
    return {mark for mark in marks if _PATTERNS[mark].fullmatch(text)}


class Marks(NamedTuple):
    """The marks of the numbers of a table.

    Attributes
    ----------
    decimals
        The decimal mark of each column of numbers as text, "" where the first cells do not tell.
    questions
        What the user must say before a column can be read, by its name.
    notes
        How columns were read that other columns, or whole numbers beside them, told how to read.
    """

    decimals: dict[str, Decimal]
    questions: dict[str, str]
    notes: list[str]


NO_MARKS = Marks({}, {}, [])


def find_marks(columns: Mapping[str, Column], separator: str | None = None, told: Decimal = "") -> Marks:
    """Decide the decimal mark of each column of numbers, from the first cells.

    Cells that have one reading alone decide; then those of the other columns of the table; then whole numbers beside
    the cell, as 998 beside 1,025. Nothing else does. Columns that are mostly no numbers have no mark.

    Parameters
    ----------
    columns
        Cells by the name of the column.
    separator
        What stands between the cells of a line; None where there are no lines.
    told
        The decimal mark that the user says the table has.
    """
    looks = {name: found for name, column in columns.items() if (found := _look(column)).is_numeric}
    marks = Marks({}, {}, [])
    if told:
        marks.decimals.update(dict.fromkeys(looks, told))
        return marks
    of_table = _one(mark for found in looks.values() if len(found.sure) == 1 for mark in found.sure)
    for name, found in looks.items():
        decimal: Decimal | None
        if not found.unsure and len(found.sure) <= 1:
            usual: Decimal = of_table or ("." if separator in (",", None) else "")
            decimal = _one(found.sure) or usual
        else:
            decimal = _decide(found, of_table, separator)
        if decimal is None:
            marks.questions[name] = _ask(found)
            continue
        marks.decimals[name] = decimal
        cell = next(iter(found.unsure.values()), None)
        if cell is not None and not found.sure and decimal not in found.unsure:
            marks.notes.append(
                f"column '{name}': numbers such as '{cell}' were read as {_number(cell, decimal):.15g}, as others "
                f"tell; --decimal says otherwise"
            )
    return marks


def _one(marks: Iterable[Decimal]) -> Decimal:
    """Return the only mark that there is among some; "" where there is none, or more than one."""
    found = set(marks)
    return found.pop() if len(found) == 1 else ""


def _decide(found: _Evidence, of_table: Decimal, separator: str | None) -> Decimal | None:
    """Return the decimal mark of a column with cells that may be two numbers, or with both marks; None: not known."""
    if found.sure:
        return _one(found.sure) or None
    if len(found.unsure) > 1:
        return None
    if "," in found.unsure:
        told_by_whole: Decimal = "." if found.has_whole else ""
        return _one(mark for mark in (of_table, told_by_whole) if mark) or None
    # A point is a decimal mark unless something speaks against it.
    return of_table or (None if separator == ";" and found.has_whole else ".")


def _ask(found: _Evidence) -> str:
    if len(found.sure) > 1:
        return f"it has both '{found.sure['.']}' and '{found.sure[',']}'"
    cells = list(found.unsure.values())
    more = f", beside '{cells[1]}'" if len(cells) > 1 else ""
    return f"{why_unsure(cells[0])}{more}, and the first rows do not tell which"


def decimal_of(decimal: str | None, thousands: str | None) -> Decimal:
    """Return the decimal mark that the options say.

    Raises
    ------
    ValueError
        If one of them is neither a comma nor a point, or both are the same.
    """
    for option, given in (("--decimal", decimal), ("--thousands", thousands)):
        if given not in (None, ".", ","):
            raise ValueError(f"{option}: expected a point or a comma, got {given!r}")
    if decimal is not None and decimal == thousands:
        raise ValueError(f"--decimal, --thousands: expected different marks, got {decimal!r} for both")
    other: dict[str | None, Decimal] = {".": ",", ",": ".", None: ""}
    return other[other[decimal]] if decimal is not None else other[thousands]
