"""Codes for missing values, such as -9999: those that the user names, and those that a column seems to hold."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Float

from streamgp.table.numbers import Column

Codes = float | str | Sequence[float | str] | None

# Numbers that programs write where there is none: nines, the ends of the whole numbers of a computer, huge powers.
_NINES = re.compile(r"-?9{2,}(\.9+)?")
_ENDS = frozenset({-128.0, -32768.0, 32767.0, 65535.0, -2147483648.0, 2147483647.0, 4294967295.0})
_HUGE = 1e19
_REPEATED = 3  # times that a value comes before it is suspected
_DIFFERENT = 10  # other values that tell how far a column goes
_USUAL_FAR, _FAR = 1.0, 4.5  # widths of the others' range beyond it: of a number in use as a code, of any


@dataclass(frozen=True)
class MissingCodes:
    """The numbers and words that stand for a missing value.

    Attributes
    ----------
    numbers
        Compared as numbers: -9999 is -9999.0, too.
    words
        Compared as text, without blanks around it.
    """

    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Codes) -> "MissingCodes":
        """Return the codes that a user gave: a number, a word, or several.

        Raises
        ------
        ValueError
            If one is neither.
        """
        if given is None:
            return NO_CODES
        several = [given] if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) else list(given)
        numbers, words = [], []
        for code in several:
            if isinstance(code, str) and code.strip():
                words.append(code.strip())
            elif isinstance(code, int | float | np.number) and not isinstance(code, bool):
                numbers.append(float(code))
            else:
                raise ValueError(f"missing_values: expected numbers or words that are not empty, got {code!r}")
        as_numbers = [number for word in words if (number := _number(word)) is not None]
        return cls(tuple(dict.fromkeys(numbers + as_numbers)), tuple(w for w in words if _number(w) is None))

    @classmethod
    def parse(cls, text: str | None) -> "MissingCodes":
        """Return the codes of an option of the command, with commas between them."""
        return cls.of(None if text is None else [part for part in text.split(",") if part.strip()])

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.numbers or self.words)

    @property
    def given(self) -> list[float | str]:
        """Return the codes, as `of` takes them."""
        return [*self.numbers, *self.words]

    @cached_property
    def _numbers(self) -> Float[np.ndarray, " k"]:
        return np.array([number for number in self.numbers if math.isfinite(number)])

    def is_code(self, cell: Any) -> bool:
        """Return whether a cell is one of the codes."""
        if isinstance(cell, str):
            text = cell.strip()
            return text in self.words or (bool(self.numbers) and _number(text) in self.numbers)
        return isinstance(cell, int | float) and not isinstance(cell, bool) and float(cell) in self.numbers

    def blank_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return numbers with NaN where one is a code; the same array where none is."""
        found = np.isin(values, self._numbers)
        return np.where(found, np.nan, values) if found.any() else values

    def blank_cells(self, column: Column) -> Column:
        """Return the cells of a file with None, of an array NaN, where one is a code."""
        if not self:
            return column
        if isinstance(column, np.ndarray):
            return self.blank_numbers(column)
        codes = {cell for cell in set(column) if self.is_code(cell)}
        return [None if cell in codes else cell for cell in column] if codes else column

    def blank(self, values: Any) -> Any:
        """Return an array, nested lists, a frame or a series without codes; what has none is returned as it came."""
        if not self or values is None:
            return values
        given = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
        if isinstance(given, nw.DataFrame):
            made = [blanked for each in given.iter_columns() if (blanked := self._blank_series(each)) is not None]
            return given.with_columns(*made).to_native() if made else values
        if isinstance(given, nw.Series):
            blanked = self._blank_series(given)
            return values if blanked is None else blanked.to_native()
        array = np.asarray(values)
        if array.dtype.kind in "fiu":
            blanked = self.blank_numbers(array)
            return values if blanked is array else blanked
        if array.dtype.kind not in "OU":
            return values
        codes = [place for place in np.ndindex(array.shape) if self.is_code(array[place])]
        if not codes:
            return values
        cells = array.astype(object)
        for place in codes:
            cells[place] = None
        return cells

    def _blank_series(self, series: nw.Series) -> nw.Series | None:
        """Return a column without its codes; None where it has none."""
        if series.dtype.is_numeric():
            numbers = series.cast(nw.Float64).to_numpy()
            blanked = self.blank_numbers(numbers)
            found: Any = None if blanked is numbers else blanked
        elif series.dtype in (nw.String, nw.Object, nw.Categorical, nw.Enum):
            cells = series.to_list()
            found = [None if self.is_code(cell) else cell for cell in cells]
            if sum(cell is None for cell in found) == sum(cell is None for cell in cells):
                return None
        else:
            return None
        return None if found is None else nw.new_series(series.name, found, backend=series.implementation)


NO_CODES = MissingCodes()


def _number(text: str) -> float | None:
    """Return the number that a text is, whatever its decimal mark, if it has no decimals; else by a point."""
    try:
        return float(re.sub(r",0+$", "", text))
    except ValueError:
        return None


class Suspect(NamedTuple):
    """A value of a column that seems to stand for a missing one, and how often it comes."""

    value: float
    count: int


def find_suspect(values: Float[np.ndarray, " n"]) -> Suspect | None:
    """Return the value of a column that comes again and again exactly, far from all others; None if there is none."""
    finite = np.sort(values[np.isfinite(values)])
    if len(finite) < _REPEATED + _DIFFERENT:
        return None
    for value, near in ((finite[0], finite[_REPEATED - 1]), (finite[-1], finite[-_REPEATED])):
        if value != near:
            continue
        others = finite[finite != value]
        if 1 + (np.diff(others) > 0.0).sum() < _DIFFERENT:
            continue
        least, greatest = others[0], others[-1]
        beyond = max(least - value, value - greatest) / (greatest - least)
        if beyond > (_USUAL_FAR if _is_usual(float(value)) else _FAR):
            return Suspect(float(value), len(finite) - len(others))
    return None


def find_suspects(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "k 3"]:
    """Return the columns that have a suspect (see `find_suspect`), each with the value and how often it comes."""
    found = [(column, find_suspect(values)) for column, values in enumerate(rows.T)]
    several = [(column, *suspect) for column, suspect in found if suspect is not None]
    return np.array(several, dtype=np.float64).reshape(-1, 3)


def _is_usual(value: float) -> bool:
    """Return whether a number is one that programs write where there is none."""
    return value in _ENDS or abs(value) >= _HUGE or _NINES.fullmatch(f"{value:.15g}") is not None


def say_suspects(suspects: Float[np.ndarray, "k 3"], names: Sequence[str], rows: str, option: str) -> list[str]:
    """Say which columns seem to have a code for missing values, and what to do, in sentences without a full stop.

    `rows` says of what rows, and `option` how codes are given, with ``{}`` for the value.
    """
    return [
        f"{names[int(column)]!r} is exactly {value:.15g} in {int(count):,} of {rows}, far from all its other values: "
        f"if that means missing, pass {option.format(f'{value:.15g}')}"
        for column, value, count in suspects
    ]
