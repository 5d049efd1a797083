"""Sums over a stream from which scores come: counts, means, squared deviations, errors."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np


class ScoresInSums:
    """Counts the rows of a stream, of which the first with a target, those of the warm-up, are not scored.

    Class attributes
    ----------------
    plain, copied
        Fields that a checkpoint holds as they are, and those that it copies: arrays and lists.
    """

    plain: ClassVar[tuple[str, ...]] = ()
    copied: ClassVar[tuple[str, ...]] = ()

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.rows = 0
        # The number of these rows without a target, or with some of several targets alone.
        self.unlabelled_rows = 0

    @property
    def labelled_rows(self) -> int:
        """Count the rows whose targets all came."""
        return self.rows - self.unlabelled_rows

    @property
    def scored_rows(self) -> int:
        """Count the labelled rows after the warm-up."""
        return max(0, self.labelled_rows - self.warmup)

    def counts(self) -> dict[str, int]:
        """Return how many rows there were of each kind, as results have them."""
        names = ("rows", "warmup", "scored_rows", "unlabelled_rows")
        return {name: getattr(self, name) for name in names}

    def pass_over(self, rows: int) -> None:
        """Count rows without a target, which are not scored."""
        self.rows += rows
        self.unlabelled_rows += rows

    def to_tree(self) -> dict[str, Any]:
        """Return the running sums for a checkpoint."""
        tree = {name: getattr(self, name) for name in ("warmup", "rows", "unlabelled_rows", *self.plain)}
        return tree | {name: getattr(self, name).copy() for name in self.copied}

    def _restored(self, tree: Mapping[str, Any]) -> Self:
        """Take over the fields of a checkpoint, and return this."""
        for name in ("warmup", "rows", "unlabelled_rows", *self.plain):
            setattr(self, name, tree[name])
        for name in self.copied:
            setattr(self, name, tree[name].copy())
        return self


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations: a variance that survives large offsets."""

    count: float = 0.0
    mean: float = 0.0
    m2: float = 0.0

    def add(self, values: np.ndarray) -> "Moments":
        """Merge a batch (Chan, Golub and LeVeque 1983)."""
        n = float(len(values))
        if n == 0:
            return self
        mean = float(np.mean(values))
        total = self.count + n
        shift = mean - self.mean
        m2 = self.m2 + float(np.sum((values - mean) ** 2)) + shift**2 * self.count * n / total
        return Moments(total, self.mean + shift * n / total, m2)


class PointErrors:
    """nMSE, RMSE and MAE of point predictions, as running sums."""

    def __init__(self) -> None:
        self.count = 0
        self.squared = 0.0
        self.absolute = 0.0

    def add(self, error: np.ndarray) -> None:
        """Add the errors of a batch of rows; those that are NaN (no prediction) do not count."""
        error = error[np.isfinite(error)]
        self.count += len(error)
        self.squared += float(np.sum(error**2))
        self.absolute += float(np.sum(np.abs(error)))

    def result(self, variance: float) -> dict[str, float | None]:
        """Return the scores; nMSE is the mean squared error over the variance of the scored targets."""
        if not self.count:
            return {"nmse": None, "rmse": None, "mae": None}
        mse = self.squared / self.count
        return {
            "nmse": mse / variance if variance > 0.0 else None,
            "rmse": float(np.sqrt(mse)),
            "mae": self.absolute / self.count,
        }
