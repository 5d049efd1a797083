"""The seasonal naive forecasts of a stream: each target as it was a season before, in constant memory.

What one would use instead of a model where targets have seasons (Hyndman and Athanasopoulos 2021, section 5.2).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.running_sums import PointErrors

SEASONAL = "seasonal_"  # with a number of rows, the name of the baseline that repeats the target so far back


def seasonal_name(season: int) -> str:
    """Return the name of the baseline of a season of so many rows."""
    return f"{SEASONAL}{season}"


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
    before as it takes. For a missing target stands that of a season before it. Where there is none, or before the
    stream began, the last one known stands in.

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

    def begin(self, seasons: Iterable[int] | None) -> bool:
        """Take in which seasons there are, each of so many rows; the first call that knows them counts.

        Return whether it was that one, and there are some: the baselines to compare with are others from here on.
        """
        if seasons is None or self.seasons is not None:
            return False
        self.seasons = seasons = tuple(seasons)
        names, (past,) = [seasonal_name(season) for season in seasons], self._pasts
        targets = past.shape[1]
        self.errors, self.unflagged = (
            {name: [PointErrors() for _ in range(targets)] for name in names} for _ in range(2)
        )
        self.scales = usual_change(past, min(seasons, default=1))
        self._pasts = [carried_on(past, season) for season in seasons]
        return bool(seasons)

    def next(
        self, y: Float[np.ndarray, "n e"], persistence: Float[np.ndarray, "n e"], horizon: int
    ) -> Float[np.ndarray, "s n e"]:
        """Return what each season says of the next rows, and take in their targets, NaN where missing."""
        if self.seasons is None:
            self._pasts = [np.concatenate([self._pasts[0], y])[-self._kept :]]
            return np.empty((0, *y.shape))
        found = np.empty((len(self.seasons), *y.shape))
        for which, season in enumerate(self.seasons):
            lag = season * -(-horizon // season)
            past = self._pasts[which]
            every = carried_on(np.concatenate([past, y]), season)
            at = len(past) - lag + np.arange(len(y))
            before = np.where((at >= 0)[:, None], every[np.maximum(at, 0)], np.nan)
            found[which] = np.where(np.isnan(before), persistence, before)
            self._pasts[which] = every[-lag:].copy()
        return found

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
            **sums,
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "SeasonalNaive":
        """Restore the state that `to_tree` returned."""
        found = cls(len(tree["scales"]), tree["kept"])
        found.begin(tree["seasons"])
        found.scales, found._pasts = tree["scales"].copy(), [past.copy() for past in tree["pasts"]]
        for which in ("errors", "unflagged"):
            for name, errors in tree[which].items():
                for each, stored in zip(getattr(found, which)[name], errors, strict=True):
                    vars(each).update(stored)
        return found
