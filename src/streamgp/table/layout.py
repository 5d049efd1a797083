"""What a text file looks like: its separator, the lines before its header, and whether rows fit the header."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

BLANKS = " "  # the separator of columns that stand apart by any number of blanks
SAMPLE = 100  # lines that tell the layout; the header is among them
_SEPARATORS = ",;\t|"
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_AGREED = 0.8  # share of the lines below a header that are as wide as each other
_SHOWN = 4  # names or cells that a message shows
_LONGEST = 30  # characters of each name or cell that are shown
# A number, with a decimal point or comma, or a date or a time of day.
_NUMBER = re.compile(r"\s*([+-]?[\d.,]*\d[.,]?([eE][+-]?\d+)?|\d+([-/.:]\d+)+([T ].*)?)\s*")

GZIP = b"\x1f\x8b"
_OTHER_KINDS = {
    GZIP: ("gzip data", "name the file .csv.gz"),
    b"PK\x03\x04": ("a zip archive, or a workbook such as .xlsx", "unpack it, or save the sheet as CSV"),
    b"PAR1": ("a Parquet file", "name it .parquet"),
    b"BZh": ("bzip2 data", "unpack it, or compress it with gzip"),
    b"\xfd7zXZ\x00": ("xz data", "unpack it, or compress it with gzip"),
    b"\x28\xb5\x2f\xfd": ("zstd data", "unpack it, or compress it with gzip"),
}


@runtime_checkable
class CellReader(Protocol):
    """An iterator over the cells of lines."""

    @property
    def line_num(self) -> int:
        """Return how many lines were read."""
        ...

    def __iter__(self) -> Iterator[list[str]]:
        """Return itself."""
        ...

    def __next__(self) -> list[str]:
        """Return the cells of the next line, none of a blank one."""
        ...


@dataclass(frozen=True)
class Layout:
    """How the lines of a text are a table.

    Attributes
    ----------
    separator
        What stands between cells; `BLANKS` for columns that stand apart by blanks.
    before
        How many lines stand before the header.
    fault
        Why the lines are no table, as a sentence without its full stop; None where they are one.
    """

    separator: str = ","
    before: int = 0
    fault: str | None = None


def describe_other_kind(start: bytes) -> str | None:
    """Say what begins with these bytes, if it is no text, and what to do; None for text."""
    for magic, (what, advice) in _OTHER_KINDS.items():
        if start.startswith(magic):
            return f"expected a table of text, got {what}; {advice}"
    return None


def separator_line(line: str) -> str | None:
    """Return the separator that a line such as ``sep=;``, which Excel puts before the header, tells of; else None."""
    found = _SEPARATOR_LINE.fullmatch(line)
    return found[1] if found else None


def read_cells(lines: Iterable[str], separator: str, strict: bool = True) -> CellReader:
    """Return a reader of the cells of each line."""
    if separator == BLANKS:
        lines = (line.strip().replace("\t", " ") for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=separator == BLANKS, strict=strict)


def fit(cells: list[str], width: int) -> list[str]:
    """Return the cells of a row without the empty ones beyond the last column, which separators at its end make."""
    while len(cells) > width and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def header_names(cells: Sequence[str], separator: str) -> list[str]:
    """Return the names of the columns; a mark of a comment that stands alone before them is none."""
    names = [cell.strip() for cell in cells]
    return names[1:] if separator == BLANKS and names[:1] == ["#"] else names


def find_layout(sample: Sequence[str]) -> Layout:
    """Find the layout of a text from its first lines.

    The header is the first line unless most lines below agree on another number of columns; then it is the line
    above the first number, and what stands before it is skipped. Of several separators the one counts that splits
    most lines alike, then into most columns: on files with quoted text that is wrong far less often than
    `csv.Sniffer`.
    """
    if sample and (named := separator_line(sample[0])) is not None:
        return _moved(_find(sample[1:], named, 1), 1)
    comments = next((i for i, line in enumerate(sample) if line.strip() and not line.startswith("#")), 0)
    below = _find(sample[comments:], _SEPARATORS + BLANKS, comments)
    if not comments:
        return below
    header = next(iter(_rows(sample[comments:], below.separator)), None)
    if below.before or header is None or not header.has_numbers:
        return _moved(below, comments)
    comments -= 1  # the last of them is the header
    return _moved(_find(sample[comments:], _SEPARATORS + BLANKS, comments), comments)


def separator_of_header(line: str, column: str, told: str | None = None, is_last: bool = False) -> str | None:
    """Return what separates the names in a line of a text of which more is to come, if it is the header.

    None says that the line stands before the header. One that has several names, or none but a number, is taken for
    the header even without the column, so that what is missing can be said.

    Parameters
    ----------
    line
        It, not blank.
    column
        A name that the header must have.
    told
        The separator, if a line before told it.
    is_last
        Whether there have been too many lines before for another one to be the header.
    """
    rows = {each: found[0] for each in told or _SEPARATORS + BLANKS if (found := _rows([line], each))}
    for separator, row in rows.items():
        if column in row.cells:
            return separator
    separator = max(rows, key=lambda each: (each != BLANKS, rows[each].width), default=_SEPARATORS[0])
    row = rows.get(separator)
    is_header = is_last or row is None or row.has_numbers or (row.width > 1 and not line.startswith("#"))
    return separator if is_header else None


class _Row(NamedTuple):
    line: int  # the number of the line that it begins on, from 0
    cells: list[str]

    @property
    def width(self) -> int:
        return len(self.cells)

    @property
    def has_numbers(self) -> bool:
        return any(map(_NUMBER.fullmatch, self.cells))


def _rows(sample: Sequence[str], separator: str) -> list[_Row]:
    """Return the rows that are not blank; none where they are malformed."""
    reader = read_cells(sample, separator, strict=False)
    found: list[_Row] = []
    with suppress(csv.Error):
        line = 0
        for cells in reader:
            if cells:
                found.append(_Row(line, header_names(cells, separator)))
            line = reader.line_num
        return found
    return []


def _moved(found: Layout, lines: int) -> Layout:
    return replace(found, before=found.before + lines)


def _find(sample: Sequence[str], separators: str, offset: int) -> Layout:
    """Find the layout of lines of which so many others stand before the first."""
    by_separator = {each: rows for each in separators if (rows := _rows(sample, each))}
    best, agreement, fits = separators[0], (0, 1), False
    for separator, rows in by_separator.items():
        alike = sum(row.width == rows[0].width for row in rows)
        if separator != BLANKS and rows[0].width > 1 and (alike, rows[0].width) > agreement:
            best, agreement = separator, (alike, rows[0].width)
            fits = 2 * alike > len(rows) and rows[:2][-1].width == rows[0].width
    if fits:
        return Layout(best)
    lower = [(*found, each) for each, rows in by_separator.items() if (found := _lower(rows, each)) is not None]
    if any(separator != BLANKS for *_, separator in lower):  # a comma at the end of a word says that it separates
        lower = [each for each in lower if each[-1] != BLANKS or not _has_commas(each[2])]
    if not lower:
        return Layout(best)
    _, _, header, first, separator = max(lower, key=lambda each: (each[0], each[-1] != BLANKS, each[1]))
    fault = None
    if first is not None and len(fit(first.cells, header.width)) != header.width:
        fault = _misfit(header, first, offset)
    return Layout(separator, header.line, fault)


def _has_commas(row: _Row) -> bool:
    return any(cell.endswith(",") for cell in row.cells)


def _lower(rows: Sequence[_Row], separator: str) -> tuple[int, int, _Row, _Row | None] | None:
    """Return how many rows agree on a width and on which, the header, and the first row where this has another width.

    None where they do not agree.
    """
    widths = Counter(row.width for row in rows if row.width > 1)
    if not widths:
        return None
    width, alike = widths.most_common(1)[0]
    at = next((i for i, (row, after) in enumerate(pairwise(rows)) if row.width == after.width == width), None)
    if at is None or alike < _AGREED * (len(rows) - at):
        return None
    if not rows[at].has_numbers:
        return (alike, width, rows[at], None) if at == 0 or rows[at + 1].has_numbers else None
    header = next((row for row in reversed(rows[:at]) if not row.has_numbers), rows[max(at - 1, 0)])
    if separator == BLANKS and header.width == 1:  # one column, whose cells have blanks within
        return None
    return alike, width, header, rows[at]


def _misfit(header: _Row, first: _Row, offset: int) -> str:
    """Say that header and rows are of different widths."""
    names, line = _listed(header.cells), offset + header.line + 1
    few = header.width < first.width
    advice = (
        "give every column a name, an index as well"
        if few
        else "write as many cells in each row, empty ones where there is no value"
    )
    return (
        f"line {line} names {_plural(header.width, 'column')} ({names}), but line {offset + first.line + 1} and "
        f"those after it have {_plural(first.width, 'cell')} ({_listed(first.cells)}); {advice}"
    )


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _listed(cells: Sequence[str]) -> str:
    shown = ", ".join(repr(cell.strip()[:_LONGEST]) for cell in cells[:_SHOWN])
    return shown + (", ..." if len(cells) > _SHOWN else "")
