"""How many rows of each kind 90% bands held, and how wide they were, by what was known before the target."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.fifths import FIFTHS, Fifths

MAX_COLUMNS = 40
CLOCKS = {"hour": 24, "weekday": 7}  # of UTC; Monday is the first day
_SECONDS = {"hour": 3_600.0, "weekday": 86_400.0}
_THURSDAY = 3  # the weekday of the first of January 1970
_FIRST, _LAST = 4e8, 1e10  # times that are dates, in seconds since 1970
_ENDS = np.cumsum([0, *CLOCKS.values()])


class Bands(NamedTuple):
    """Which 90% bands `held` their targets, of those that are `scored`, and their `width`."""

    held: Bool[np.ndarray, "n e"]
    scored: Bool[np.ndarray, "n e"]
    width: Float[np.ndarray, "n e"]


class Kinds(NamedTuple):
    """Of each kind of row the `coverage` and the mean `width`, None of no rows, and how many `rows` there were."""

    coverage: list[float | None]
    width: list[float | None]
    rows: list[int]


class KindsOfRows:
    """The bands of E targets, by fifths of G values known beforehand, by hour and by weekday.

    A NaN has no fifth, and a time that is no date no hour. Rows may come with fewer of the values, those at their end
    left out, as of rows whose labels come late.
    """

    def __init__(self, targets: int, values: int) -> None:
        self._fifths = Fifths(values)
        # Along the first axis: rows, rows that the band held, and sums of widths.
        self._sums = np.zeros((3, targets, values, FIFTHS))
        self._of_clocks = np.zeros((3, targets, _ENDS[-1]))

    @property
    def values(self) -> int:
        """Return how many values are known of a row."""
        return len(self._fifths.ends)

    def add(
        self, values: Float[np.ndarray, "n g"], bands: Bands, times: Float[np.ndarray, " n"] | None = None
    ) -> None:
        """Count the next rows, which come at these times."""
        place = self._fifths.place(self._widened(values))
        width = np.where(bands.scored, bands.width, 0.0)
        each = np.stack([bands.scored, bands.scored & bands.held, width]).transpose(0, 2, 1)
        for i in range(FIFTHS):
            self._sums[..., i] += each @ (place == i).astype(float)
        if times is not None:
            self._of_clocks += each @ _on_clocks(times)

    def result(self, e: int, g: int) -> Kinds:
        """Return rows, coverage and widths of each fifth of value g, for target e."""
        return _kinds(self._sums[:, e, g])

    def on_clock(self, e: int, name: str) -> Kinds:
        """Return rows, coverage and widths of each part of one of the `CLOCKS`, for target e."""
        at = list(CLOCKS).index(name)
        return _kinds(self._of_clocks[:, e, _ENDS[at] : _ENDS[at + 1]])

    def _widened(self, values: np.ndarray) -> np.ndarray:
        """Return values with NaN for those at their end that are not known of these rows, and take in new ones."""
        n, g = values.shape
        new = g - self.values
        if new > 0:
            self._fifths.widen(new)
            none = np.zeros((*self._sums.shape[:2], new, FIFTHS))
            self._sums = np.concatenate([self._sums, none], axis=2)
        return np.concatenate([values, np.full((n, self.values - g), np.nan)], axis=1)

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint."""
        return {
            "fifths": self._fifths.to_tree(),
            "sums": self._sums.copy(),
            "clocks": self._of_clocks.copy(),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "KindsOfRows":
        """Restore what `to_tree` stored."""
        kinds = cls(1, 1)
        kinds._fifths = Fifths.from_tree(tree["fifths"])
        kinds._sums, kinds._of_clocks = tree["sums"].copy(), tree["clocks"].copy()
        return kinds


def _kinds(sums: Float[np.ndarray, "3 k"]) -> Kinds:
    rows = sums[0].astype(int).tolist()
    coverage, width = ([float(a / n) if n else None for a, n in zip(each, rows, strict=True)] for each in sums[1:])
    return Kinds(coverage, width, rows)


def _on_clocks(times: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
    """Return 1 in the hour and the weekday of each time that is a date."""
    dated = (times >= _FIRST) & (times < _LAST)
    parts = []
    for name, size in CLOCKS.items():
        count = np.where(dated, times, 0.0) // _SECONDS[name] + (_THURSDAY if name == "weekday" else 0)
        parts.append(dated[:, None] & ((count % size)[:, None] == np.arange(size)))
    return np.concatenate(parts, axis=1).astype(float)
