"""The seasonal naive forecasts of a stream: each target as it was a season before, in constant memory.

What one would use instead of a model where targets have seasons (Hyndman and Athanasopoulos 2021, section 5.2).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.running_sums import PointErrors
from streamgp.stream.timetable import Timetable

SEASONAL = "seasonal_"  # with a number of rows, the name of the baseline that repeats the target so far back


def seasonal_name(season: int) -> str:
    """Return the name of the baseline of a season of so many rows."""
    return f"{SEASONAL}{season}"


class Clock(NamedTuple):
    """The times (n,) of rows by a stream's clock, where it has one, and its timetable, once that is known."""

    times: np.ndarray | None = None
    timetable: Timetable | None = None


NO_CLOCK = Clock()


def with_missed(
    y: Float[np.ndarray, "n e"], missed: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "m e"], Int[np.ndarray, " n"]]:
    """Return targets with NaN for the steps of the clock that were missed before each, and where they are then."""
    places = np.arange(len(y)) + np.cumsum(missed)
    found = np.full((len(y) + int(missed.sum()), y.shape[1]), np.nan)
    found[places] = y
    return found, places


def usual_change(past: Float[np.ndarray, "n e"], step: int) -> Float[np.ndarray, " e"]:
    """Return the mean absolute change of each column over so many rows; NaN where none is known."""
    if len(past) <= step:
        return np.full(past.shape[1], np.nan)
    changes = np.abs(past[step:] - past[:-step])
    count = np.isfinite(changes).sum(axis=0)
    return np.where(count, np.nansum(changes, axis=0) / np.maximum(count, 1), np.nan)


def carried_on(y: Float[np.ndarray, "n e"], season: int) -> Float[np.ndarray, "n e"]:
    """Return targets with those a season before in place of missing ones; NaN where there is none either."""
    found = y.copy()
    for row in np.flatnonzero(np.isnan(y[season:]).any(axis=1)) + season:
        found[row] = np.where(np.isnan(found[row]), found[row - season], found[row])
    return found


class SeasonalNaive:
    """The last targets, what they were a season before each row, and how far off that was.

    With a horizon h, or labels h rows late, the targets of the last h rows are not known: then it is as many seasons
    before as it takes. For a missing target stands that of a season before it, and so it does for a step of the clock
    without a row. Where there is none, or before the stream began, the last one known stands in.

    Parameters
    ----------
    targets
        How many there are.
    kept
        How many rows to keep while the seasons are not known: those of the warm-up, from which they come.
    """

    def __init__(self, targets: int, kept: int) -> None:
        self.seasons: tuple[int, ...] | None = None
        # For each target the mean absolute change over the shortest season, or a row, in the rows that were kept.
        self.scales = np.full(targets, np.nan)
        self.errors: dict[str, list[PointErrors]] = {}
        self.unflagged: dict[str, list[PointErrors]] = {}
        self._kept = max(kept, 1)
        # The last targets that each season needs; until the seasons are known, one array of all that are kept.
        self._pasts = [np.full((0, targets), np.nan)]
        # When the rows that are kept came; afterwards nothing.
        self._times = np.zeros(0)
        # Which of the last steps had a row; until the seasons are known, all.
        self._came = np.zeros(0, bool)
        self._timetable: Timetable | None = None

    def begin(self, seasons: Iterable[int] | None, timetable: Timetable | None = None) -> bool:
        """Take in which seasons there are, each of so many rows, and the timetable by which these are counted.

        The first call that knows the seasons counts. Return whether it was that one, and there are some: the
        baselines to compare with are others from here on.
        """
        if seasons is None or self.seasons is not None:
            return False
        self.seasons = seasons = tuple(seasons)
        names, (past,) = [seasonal_name(season) for season in seasons], self._pasts
        targets = past.shape[1]
        self._timetable = None if timetable is None else timetable.restarted()
        past, places = with_missed(past, self._missed(self._times))
        self._came, self._times = _flags(places, len(past)), np.zeros(0)
        self.errors, self.unflagged = (
            {name: [PointErrors() for _ in range(targets)] for name in names} for _ in range(2)
        )
        self.scales = usual_change(past, min(seasons, default=1))
        self._pasts = [carried_on(past, season) for season in seasons]
        return bool(seasons)

    def next(
        self,
        y: Float[np.ndarray, "n e"],
        persistence: Float[np.ndarray, "n e"],
        horizon: int,
        times: Float[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, "s n e"]:
        """Return what each season says of the next rows, and take in their targets, NaN where missing.

        `times` are those of the rows by the stream's clock, where it has one.
        """
        times = np.full(len(y), np.nan) if times is None else times
        if self.seasons is None:
            self._pasts = [np.concatenate([self._pasts[0], y])[-self._kept :]]
            self._times = np.concatenate([self._times, times])[-self._kept :]
            return np.empty((0, *y.shape))
        found = np.empty((len(self.seasons), *y.shape))
        y, places = with_missed(y, self._missed(times))
        came = np.concatenate([self._came, _flags(places, len(y))])
        # A target is known so many rows later.
        number = np.cumsum(came)
        known = np.searchsorted(number, number[len(self._came) + places] - horizon, side="right") - 1
        for which, season in enumerate(self.seasons):
            past = self._pasts[which]
            every = carried_on(np.concatenate([past, y]), season)
            at, latest = len(past) + places, known + len(past) - len(self._came)
            at = at - season * -(-(at - latest) // season)
            before = np.where((at >= 0)[:, None], every[np.maximum(at, 0)], np.nan)
            found[which] = np.where(np.isnan(before), persistence, before)
            self._pasts[which] = every[-self._reach(season, horizon) :].copy()
        self._came = came[-max((self._reach(season, horizon) for season in self.seasons), default=1) :].copy()
        return found

    def _missed(self, times: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Return how many steps of the clock had no row before each of the next rows, and note these."""
        if self._timetable is None:
            return np.zeros(len(times), np.int64)
        missed, self._timetable = self._timetable.along(times)
        return missed

    def _reach(self, season: int, horizon: int) -> int:
        """Return how many of the last steps are kept: one season more where a clock may have missed steps."""
        return season * -(-horizon // season) + (season if horizon > 1 and self._timetable is not None else 0)

    def add(self, e: int, errors: Float[np.ndarray, "s n"], usual: Bool[np.ndarray, " n"]) -> None:
        """Count the errors of scored rows of a target; `usual` are not flagged as outliers."""
        for own, rest, error in zip(self.errors.values(), self.unflagged.values(), errors, strict=True):
            own[e].add(error)
            rest[e].add(error[usual])

    def result(self, e: int, variance: float, *, unflagged: bool = False) -> dict[str, Any]:
        """Return the scores of each season's baseline for a target."""
        errors = self.unflagged if unflagged else self.errors
        return {name: each[e].result(variance) for name, each in errors.items()}

    def scaled(self, e: int, mae: float | None) -> float | None:
        """Return the mean absolute scaled error (Hyndman and Koehler 2006): the warm-up's naive forecasts have 1."""
        scale = float(self.scales[e])
        return mae / scale if mae is not None and scale > 0.0 else None

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        sums = {
            which: {name: [dict(vars(each)) for each in errors] for name, errors in getattr(self, which).items()}
            for which in ("errors", "unflagged")
        }
        seasons = None if self.seasons is None else list(self.seasons)
        return {
            "seasons": seasons,
            "scales": self.scales.copy(),
            "kept": self._kept,
            "pasts": [past.copy() for past in self._pasts],
            "times": self._times.copy(),
            "came": self._came.copy(),
            "timetable": self._timetable,
            **sums,
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "SeasonalNaive":
        """Restore the state that `to_tree` returned."""
        found = cls(len(tree["scales"]), tree["kept"])
        found.begin(tree["seasons"])
        found.scales, found._pasts = tree["scales"].copy(), [past.copy() for past in tree["pasts"]]
        found._times, found._came, found._timetable = tree["times"].copy(), tree["came"].copy(), tree["timetable"]
        for which in ("errors", "unflagged"):
            for name, errors in tree[which].items():
                for each, stored in zip(getattr(found, which)[name], errors, strict=True):
                    vars(each).update(stored)
        return found


def _flags(places: Int[np.ndarray, " n"], steps: int) -> Bool[np.ndarray, " m"]:
    """Return which of so many steps are at these places."""
    found = np.zeros(steps, bool)
    found[places] = True
    return found
