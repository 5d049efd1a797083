"""Conformal bands of one target by groups of rows: thresholds, counts, and tests of the model's own band."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.coverage_tests import RATE, CoverageTests, Miscovered
from streamgp.evaluation.group_thresholds import GroupThresholds
from streamgp.evaluation.row_groups import GroupColumn, RowGroups


class GroupBands:
    """Thresholds for groups of rows, how many rows of each were held, and what is known of the model's own band.

    Parameters
    ----------
    columns
        What parts the rows into groups.
    level
        The share of targets that bands are to hold.
    horizon
        How many rows ahead forecasts are made, at least 1. Tests look at every so many-th row alone, since errors
        less than that apart depend on each other.
    targets
        How many targets share the rate of false discoveries.
    at_least
        Whether the model's own band may hold more, as those of whole numbers do.
    counts
        How many numbers are summed for each row.
    """

    def __init__(
        self,
        columns: Sequence[GroupColumn],
        level: float,
        horizon: int,
        targets: int = 1,
        at_least: bool = False,
        counts: int = 6,
    ) -> None:
        self.groups = RowGroups(columns)
        self.thresholds = GroupThresholds(level, len(self.groups), horizon)
        self.tests = CoverageTests(level, self.groups.are_told, RATE / targets, at_least)
        self.sums = np.zeros((len(self.groups), counts))
        self.found: list[Miscovered] = []
        self._every, self._seen, self._at_least = horizon, 0, at_least

    def count(
        self,
        places: Int[np.ndarray, "n c"],
        each: Float[np.ndarray, "n s"],
        missed: Bool[np.ndarray, " n"],
        numbers: Int[np.ndarray, " n"],
    ) -> list[Miscovered]:
        """Count scored rows of groups, and test where the model's own bands missed; return what is found."""
        for column in places.T:
            np.add.at(self.sums, column, each)
        tested = (self._seen + np.arange(len(missed))) % self._every == 0
        self._seen += len(missed)
        new = self.tests.update(missed[tested], places[tested], numbers[tested])
        self.found += new
        return new

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint."""
        return {
            "groups": self.groups.to_tree(),
            "thresholds": self.thresholds.to_tree(),
            "tests": self.tests.to_tree(),
            "sums": self.sums.copy(),
            "found": [asdict(each) for each in self.found],
            "every": self._every,
            "seen": self._seen,
            "at_least": self._at_least,
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], level: float, targets: int) -> "GroupBands":
        """Restore what `to_tree` stored."""
        groups = RowGroups.from_tree(tree["groups"])
        bands = cls(groups.columns, level, tree["every"], targets, tree["at_least"])
        bands.groups, bands.sums, bands._seen = groups, tree["sums"].copy(), tree["seen"]
        bands.thresholds.restore(tree["thresholds"])
        bands.tests.restore(tree["tests"])
        bands.found = [Miscovered(**each) for each in tree["found"]]
        return bands
