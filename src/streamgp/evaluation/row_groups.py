"""Groups of rows by what is known of them before their targets: levels of a column, or fifths of a number."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.fifths import FIFTHS, Fifths
from streamgp.numerics.formats import number

# More levels than these share the group of all others.
MOST_LEVELS = 50


class GroupColumn(NamedTuple):
    """A column whose values part the rows into groups: one for each level, or fifths, and one for all other rows.

    Attributes
    ----------
    name
        What it is called.
    inputs
        Its columns of X: one of numbers, one of codes of levels, or one for each level; none of a prediction.
    levels
        The names of levels; none: numbers.
    """

    name: str
    inputs: tuple[int, ...] = ()
    levels: tuple[str, ...] = ()
    one_hot: bool = False

    @property
    def groups(self) -> int:
        """Return how many groups there are."""
        return len(self.levels or range(FIFTHS)) + 1


# Fifths of what is predicted.
NOISE, STD = GroupColumn("predicted noise"), GroupColumn("predicted std")
AUTO = (NOISE, STD)


class RowGroups:
    """The groups of rows, one of each column, numbered through."""

    def __init__(self, columns: Sequence[GroupColumn]) -> None:
        self.columns = tuple(columns)
        self._offsets = np.cumsum([0, *(each.groups for each in columns)])
        self._numbers = [i for i, each in enumerate(columns) if not each.levels]
        self._fifths = Fifths(len(self._numbers))

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def place(
        self, X: Float[np.ndarray, "n d"], noise: Float[np.ndarray, " n"], std: Float[np.ndarray, " n"]
    ) -> Int[np.ndarray, "n c"]:
        """Return the groups of the next rows, by ends of fifths that are known before each."""
        found = np.empty((len(X), len(self.columns)), int)
        values = np.empty((len(X), len(self._numbers)))
        for j, i in enumerate(self._numbers):
            column = self.columns[i]
            values[:, j] = X[:, column.inputs[0]] if column.inputs else _rounded(noise if column is NOISE else std)
        found[:, self._numbers] = self._fifths.place(values)
        for i, column in enumerate(self.columns):
            if column.levels:
                found[:, i] = _levels(X[:, column.inputs], column)
        return found + self._offsets[:-1]

    @property
    def are_told(self) -> Bool[np.ndarray, " g"]:
        """Mark the groups that say something: not that of rows of which nothing is predicted."""
        return np.concatenate([(np.arange(c.groups) < FIFTHS) | bool(c.inputs) for c in self.columns])

    def column(self, g: int) -> str:
        """Return the name of the column of a group."""
        return self.columns[self._at(g)].name

    def name(self, g: int, row: int | None = None) -> str:
        """Return what the rows of a group have: ``carat above 2``; now, or at a row of those placed last."""
        at = self._at(g)
        column, place = self.columns[at], int(g - self._offsets[at])
        if column.levels:
            return f"{column.name} {column.levels[place]}" if place < len(column.levels) else f"another {column.name}"
        if place == FIFTHS:
            return f"no known fifth of {column.name}"
        if not column.inputs:
            return f"{column.name} in its {_WORDS[place]} fifth"
        known = self._fifths.ends if row is None else self._fifths.ends_at(row)
        ends = [number(float(end)) for end in known[self._numbers.index(at)]]
        if place == 0:
            return f"{column.name} up to {ends[0]}"
        return f"{column.name} above {ends[place - 1]}" + ("" if place == FIFTHS - 1 else f", up to {ends[place]}")

    def _at(self, g: int) -> int:
        return int(np.searchsorted(self._offsets, g, side="right")) - 1

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint."""
        columns = [[c.name, list(c.inputs), list(c.levels), c.one_hot] for c in self.columns]
        return {"columns": columns, "fifths": self._fifths.to_tree()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "RowGroups":
        """Restore what `to_tree` stored."""
        given = [
            GroupColumn(name, tuple(inputs), tuple(levels), hot) for name, inputs, levels, hot in tree["columns"]
        ]
        own = {each.name: each for each in AUTO}
        groups = cls([each if each.inputs else own[each.name] for each in given])
        groups._fifths = Fifths.from_tree(tree["fifths"])
        return groups


_WORDS = ("lowest", "second", "middle", "fourth", "highest")


def _rounded(predicted: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return predictions to seven digits: what else depends on how rows are chunked is not to choose a fifth."""
    mantissa, exponent = np.frexp(predicted)
    return np.ldexp(np.round(mantissa, 7), exponent)


def _levels(X: Float[np.ndarray, "n d"], column: GroupColumn) -> Int[np.ndarray, " n"]:
    """Return which level each row has, the number of levels if none of them."""
    known = len(column.levels)
    if column.one_hot:
        hot = np.nan_to_num(X[:, :known]) > 0.5
        return np.where(hot.any(axis=1), hot.argmax(axis=1), known)
    codes = np.where(np.isfinite(X[:, 0]), X[:, 0], known)
    return np.where((codes >= 0) & (codes < known), codes, known).astype(int)
