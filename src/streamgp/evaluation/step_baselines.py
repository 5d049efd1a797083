"""The naive forecasts of the next rows from an origin."""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.seasonal import carried_on, seasonal_name, usual_change, with_missed
from streamgp.stream.passed_rows import SHORTEST_SEASON
from streamgp.stream.timetable import Timetable

# So many past targets are kept.
LONGEST_SEASON = 1_000


class StepBaselines:
    """The last target, and that of a season before, of each season, as forecasts of the next rows.

    For a missing target, or a step of the clock without a row, stands that of a season before it; where there is none
    either, the last one known.

    Parameters
    ----------
    steps, targets
        How many rows are forecast, H, and how many targets there are, E.
    """

    def __init__(self, steps: int, targets: int) -> None:
        self.seasons: tuple[int, ...] = ()
        # Of each target the mean absolute change over the shortest season in the rows before the first origin.
        self.scales = np.full(targets, np.nan)
        self._past = np.full((LONGEST_SEASON, targets), np.nan)
        self._times = np.full(LONGEST_SEASON, np.nan)  # of these rows by the clock, until its timetable is known
        self._timetable: Timetable | None = None
        # By baseline, step and target; none before the first origin.
        self._forecasts = np.full((0, steps, targets), np.nan)

    @property
    def names(self) -> tuple[str, ...]:
        """The baselines, in the order of `naive`."""
        return names_of(self.seasons)

    def take_in(self, y: Float[np.ndarray, "n e"], times: Float[np.ndarray, " n"] | None = None) -> None:
        """Take in the targets of the next rows, NaN where missing, and their times by the clock, if there is one."""
        times = np.full(len(y), np.nan) if times is None else times
        if not len(self._forecasts):
            self._times = np.concatenate([self._times, times])[-LONGEST_SEASON:]
        if self._timetable is not None:
            missed, self._timetable = self._timetable.along(times)
            y, _ = with_missed(y, missed)
        self._past = np.concatenate([self._past, y])[-LONGEST_SEASON:]

    def missed(self, times: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return how many steps of the clock have no row before each of the next rows."""
        return np.zeros(len(times), np.int64) if self._timetable is None else self._timetable.along(times)[0]

    def forecast(self, seasons: Sequence[int], timetable: Timetable | None = None) -> None:
        """Forecast the next rows from here; the first call decides which seasons are compared, by which timetable."""
        steps, targets = self._forecasts.shape[1:]
        if not len(self._forecasts):
            if timetable is not None:
                missed, self._timetable = timetable.restarted().along(self._times)
                self._past = with_missed(self._past, missed)[0][-LONGEST_SEASON:]
            self.seasons = tuple(sorted(each for each in seasons if SHORTEST_SEASON <= each <= LONGEST_SEASON))
            self.scales = usual_change(self._past, min(self.seasons, default=1))
        last = _last_known(self._past)
        found = [np.broadcast_to(last, (steps, targets))]
        for season in self.seasons:
            before = carried_on(self._past, season)[LONGEST_SEASON - season + np.arange(steps) % season]
            found.append(np.where(np.isnan(before), last, before))
        self._forecasts = np.stack(found)

    def naive(self, steps: slice | Int[np.ndarray, " n"]) -> Float[np.ndarray, "b n e"]:
        """Return what each baseline forecast of some steps, counted from 0."""
        return self._forecasts[:, steps]

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "seasons": list(self.seasons),
            "scales": self.scales.copy(),
            "past": self._past.copy(),
            "times": self._times.copy(),
            "timetable": self._timetable,
            "forecasts": self._forecasts.copy(),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "StepBaselines":
        """Restore the state that `to_tree` returned."""
        found = cls(tree["forecasts"].shape[1], len(tree["scales"]))
        found.seasons, found.scales = tuple(tree["seasons"]), tree["scales"].copy()
        found._past, found._forecasts = tree["past"].copy(), tree["forecasts"].copy()
        found._times, found._timetable = tree["times"].copy(), tree["timetable"]
        return found


def names_of(seasons: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the baselines: the last target, then one for each season."""
    return ("persistence", *map(seasonal_name, seasons))


def rows_between_origins(steps: int, seasons: Sequence[int]) -> int:
    """Return how far apart origins are: the least number of rows, from `steps` on, that goes through every season.

    With 48 steps of half hours and an origin every 48 rows, a step would always be of one hour of the day.
    """
    every = steps
    while any(season > 1 and gcd(every, season) > 1 for season in seasons):
        every += 1
    return every


def _last_known(past: Float[np.ndarray, "n e"]) -> Float[np.ndarray, " e"]:
    """Return the last target that is known, of each column; NaN where none is."""
    found = np.full(past.shape[1], np.nan)
    for e, column in enumerate(past.T):
        known = np.flatnonzero(np.isfinite(column))
        if len(known):
            found[e] = column[known[-1]]
    return found
