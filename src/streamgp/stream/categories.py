"""Columns of X that become several inputs: 0 and 1 for each known level or what levels are worth, and a calendar."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.coding import one_hot
from streamgp.table.calendar import AUTO, calendar_columns, calendar_width
from streamgp.table.schema import MAX_LEVELS


@register
@dataclass(frozen=True)
class Categories:
    """Which columns of X hold codes of levels or times, and what inputs these become; no method changes it.

    Codes count up from 0 in the order in which the levels first came, so that the first rows tell which codes are
    known; from some number of levels on they are those of `level_code`. A level that is not known has no column: its
    row is all 0 there. A code that is NaN is unknown, and filled in like any gap. A column of more levels than
    `MAX_LEVELS` becomes the worth of its levels: see `streamgp.stream.level_effects`. Of times the calendar makes
    inputs.

    Attributes
    ----------
    columns
        The columns of codes.
    levels
        How many levels of each are known; 0 for a column of too many.
    statistics
        How many numbers say what a level is worth.
    rows
        From how many rows they are known.
    dates
        The columns of times, in seconds since 1970.
    calendar
        What is made of each: see `streamgp.table.calendar`. With `AUTO`, of which nothing is made, it is chosen by
        the first column at the end of the warm-up: see `streamgp.stream.calendar_choice`.
    too_long
        Cycles that were not tried when it was chosen, as the warm-up was shorter.
    """

    columns: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    statistics: int = 1
    rows: int = 0
    dates: tuple[int, ...] = ()
    calendar: tuple[str, ...] = ()
    too_long: tuple[str, ...] = ()

    @classmethod
    def unknown(
        cls, columns: tuple[int, ...], dates: tuple[int, ...] = (), calendar: tuple[str, ...] = ()
    ) -> "Categories":
        """Return what is known before any row: that there is a level."""
        return cls(columns, (1,) * len(columns), dates=dates, calendar=calendar if dates else ())

    @property
    def is_open(self) -> bool:
        """Whether the calendar has yet to be chosen."""
        return AUTO in self.calendar

    @property
    def entries(self) -> tuple[str, ...]:
        """Those of the calendar that are inputs."""
        return tuple(entry for entry in self.calendar if entry != AUTO)

    @property
    def encoded(self) -> tuple[int, ...]:
        """The columns whose levels are worth numbers."""
        return tuple(i for i, count in zip(self.columns, self.levels, strict=True) if not count)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns each becomes."""
        return tuple(count or self.statistics for count in self.levels)

    def width(self, num_inputs: int) -> int:
        """Return how many columns rows of `num_inputs` columns become."""
        return sum(self.each_width(num_inputs))

    def each_width(self, num_inputs: int) -> list[int]:
        """Return how many columns each of the columns of X becomes."""
        known = dict(zip(self.columns, self.widths, strict=True))
        known |= dict.fromkeys(self.dates, calendar_width(self.entries))
        return [known.get(i, 1) for i in range(num_inputs)]

    def of_calendar(self, width: int) -> Bool[np.ndarray, " w"]:
        """Return which of a model's inputs, of which there are `width`, are of the calendar: all from -1 to 1."""
        return self._become(self.dates, width)

    def are_worth(self, width: int) -> Bool[np.ndarray, " w"]:
        """Return which of them say what levels are worth."""
        return self._become(self.encoded, width)

    def _become(self, columns: tuple[int, ...], width: int) -> Bool[np.ndarray, " w"]:
        """Return which of so many inputs some columns of X become."""
        found = np.zeros(width, bool)
        for i in columns:
            *before, own = self.each_width(i + 1)
            found[sum(before) : sum(before) + own] = True
        return found

    def __call__(self, X: Float[np.ndarray, "n d"], worth: Float[np.ndarray, "n c s"]) -> Float[np.ndarray, "n w"]:
        """Return the rows with 0 and 1, or what levels of `encoded` are worth, for codes; the calendar for times."""
        if not self.columns and not self.dates:
            return X
        known, worths = dict(zip(self.columns, self.levels, strict=True)), iter(np.moveaxis(worth, 1, 0))
        parts = []
        for i in range(X.shape[1]):
            coded = known.get(i)
            if i in self.dates:
                parts.append(calendar_columns(X[:, i], self.entries))
            else:
                parts.append(X[:, i : i + 1] if coded is None else one_hot(X[:, i], coded) if coded else next(worths))
        return np.concatenate(parts, axis=1)

    def after(self, X: Float[np.ndarray, "n d"], statistics: int) -> "Categories":
        """Return what is known after the first rows of a stream."""
        if not self.columns or len(X) <= self.rows:
            return self
        found = [1 + int(np.max(X[:, i], initial=0.0, where=np.isfinite(X[:, i]))) for i in self.columns]
        levels = tuple(count if count <= MAX_LEVELS else 0 for count in found)
        return replace(self, levels=levels, statistics=statistics if 0 in levels else 1, rows=len(X))


NUMBERS = Categories()  # of columns of numbers alone
