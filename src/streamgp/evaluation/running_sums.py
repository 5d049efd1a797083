"""Sums over a stream from which scores come: counts, means, squared deviations, errors."""

from typing import NamedTuple

import numpy as np


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
