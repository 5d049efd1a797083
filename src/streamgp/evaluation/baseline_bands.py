"""Error bars for naive predictions, so that the model's have something to stand beside: by their own last errors.

A baseline says a number. Its distribution is that number and the errors of the last rows, each as likely; its 90%
band reaches from their 5% to their 95% quantile. So a band holds its share where errors go on as they were, whatever
they are like: a split-conformal band (Papadopoulos et al. 2002) whose calibration rows are the latest. Errors are
taken in after every 64 rows, as far as they were known when the next row was predicted.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.evaluation.metrics.bands import interval_score

KEPT = 512  # the latest errors that the bands rest on
# Errors are taken in every 64 rows; at first when there are 16, and when there are twice as many.
EVERY, FIRST = 64, 16
LEVEL = 0.9


class BaselineBands:
    """Width, interval score and CRPS of one baseline of one target, as running sums in constant memory.

    Parameters
    ----------
    late
        For so many rows after its own an error is not known when a row is predicted.
    """

    def __init__(self, late: int = 0) -> None:
        self._late = late
        self._rows = 0
        self._recent = np.empty(0)  # the latest errors
        self._law: _Law | None = None  # the law of the errors that were taken in
        self._scored, self._width, self._interval, self._crps = 0, 0.0, 0.0, 0.0

    def add(self, error: Float[np.ndarray, " n"], scored: Bool[np.ndarray, " n"]) -> None:
        """Take in the next rows: by how much the target was above what was predicted, and which are scored."""
        known = np.isfinite(error)
        error, scored = error[known], scored[known]
        at = 0
        while at < len(error):
            step = self._until_next()
            self._score(error[at : at + step][scored[at : at + step]])
            self._recent = np.concatenate([self._recent, error[at : at + step]])[-KEPT - self._late :]
            self._rows += len(error[at : at + step])
            if not self._rows % EVERY or (self._rows < EVERY and self._rows.bit_count() == 1):
                self._law = _Law.of(self._recent[: max(len(self._recent) - self._late, 0)][-KEPT:])
            at += step

    def _until_next(self) -> int:
        """Return after how many rows errors are taken in next."""
        if self._rows < EVERY:
            return max(FIRST, 1 << self._rows.bit_length()) - self._rows
        return EVERY - self._rows % EVERY

    def _score(self, y: Float[np.ndarray, " n"]) -> None:
        """Score errors by those that were known before them."""
        if self._law is None or not len(y):
            return
        low, high = self._law.low, self._law.high
        self._scored += len(y)
        self._width += len(y) * (high - low)
        self._interval += float(np.sum(interval_score(np.full_like(y, low), np.full_like(y, high), y, LEVEL)))
        self._crps += float(np.sum(self._law.crps(y)))

    def result(self) -> dict[str, float | None]:
        """Return the means over the scored rows, None of no rows."""
        n = self._scored
        sums = {"crps": self._crps, "width": self._width, "interval_score": self._interval}
        return {name: value / n if n else None for name, value in sums.items()}

    def to_tree(self) -> dict[str, Any]:
        """Return everything for a checkpoint."""
        law = None if self._law is None else self._law.errors
        return vars(self) | {"_law": law}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "BaselineBands":
        """Restore what `to_tree` stored."""
        bands = cls()
        vars(bands).update(tree)
        bands._law = None if tree["_law"] is None else _Law.of(tree["_law"])
        return bands


class _Law(NamedTuple):
    """The law that gives some errors the same probability: they are sorted, with sums, and its 90% interval."""

    errors: Float[np.ndarray, " n"]
    sums: Float[np.ndarray, " m"]
    apart: float
    low: float
    high: float

    @classmethod
    def of(cls, errors: Float[np.ndarray, " n"]) -> "_Law | None":
        """Return the law of some errors; None where there is no error."""
        n = len(errors)
        if not n:
            return None
        errors = np.sort(errors)
        apart = float(errors @ (2.0 * np.arange(1, n + 1) - n - 1.0)) / n**2
        low, high = np.quantile(errors, [0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0]).tolist()
        return cls(errors, np.append(0.0, np.cumsum(errors)), apart, low, high)

    def crps(self, y: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Return the mean distance to the errors, less half of that of two (Gneiting and Raftery 2007, Eq. 21)."""
        n, below = len(self.errors), np.searchsorted(self.errors, y)
        return (y * (2.0 * below - n) + self.sums[-1] - 2.0 * self.sums[below]) / n - self.apart
