"""Sets of labels, and intervals of grades, with guaranteed coverage on any stream.

A set holds the classes that a model finds most probable, as many as it takes: those with no more than a threshold of
probability on classes before them (Romano, Sesia and Candes 2020, without randomisation). Of grades, the order
begins at the most probable one and goes on to whichever neighbour is more probable, so that a set is an interval (Lu,
Angelopoulos and Pomerantz 2022). The threshold adapts to the labels observed, as that of conformal bands does. A set
is never empty: where the most probable class is right more often than was asked for, sets of one hold more than their
share.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.conformal import AdaptiveThreshold
from streamgp.evaluation.metrics.shares import share
from streamgp.evaluation.ordinal import OrdinalScores

# The score of a label that no row had before: other labels have all probability.
UNKNOWN = 1.0
_SUMS = ("rows", "inside", "size", "inside own", "size of own")


def mass_before(probabilities: Float[np.ndarray, "n j"], ordered: bool = False) -> Float[np.ndarray, "n j"]:
    """Return how much probability is on the classes that come before each one; 0 for the most probable.

    Parameters
    ----------
    probabilities
        Of each class.
    ordered
        Whether classes are grades in their order, whose sets are to be intervals.
    """
    order = _outward(probabilities) if ordered else np.argsort(-probabilities, axis=1, kind="stable")
    sorted_ = np.take_along_axis(probabilities, order, axis=1)
    before = np.empty_like(sorted_)
    np.put_along_axis(before, order, np.cumsum(sorted_, axis=1) - sorted_, axis=1)
    return before


def _outward(probabilities: Float[np.ndarray, "n j"]) -> Int[np.ndarray, "n j"]:
    """Return the grades in the order in which an interval grows from the most probable one."""
    n, grades = probabilities.shape
    rows, order = np.arange(n), np.empty((n, grades), int)
    order[:, 0] = low = high = probabilities.argmax(axis=1)
    # Both ends are padded, since there are no grades beyond them.
    walled = np.pad(probabilities, ((0, 0), (1, 1)), constant_values=-1.0)
    for k in range(1, grades):
        up = walled[rows, high + 2] > walled[rows, low]
        low, high = np.where(up, low, low - 1), np.where(up, high + 1, high)
        order[:, k] = np.where(up, high, low)
    return order


class ConformalSets:
    """Conformal sets on a stream of labels or grades, and the scores of these and of the model's own sets.

    Parameters
    ----------
    level
        The share of labels that sets are to hold, such as 0.9.
    warmup
        Labelled rows that come first and are not scored; sets learn from them all the same.
    horizon
        How many rows ahead forecasts are made; 0 and 1: the label of the next row.

    Raises
    ------
    ValueError
        If `level` is not between 0 and 1.
    """

    def __init__(self, level: float, warmup: int = 0, horizon: int = 0) -> None:
        self.level = share("conformal", level)
        self.warmup = warmup
        self.rows = 0
        self._threshold = AdaptiveThreshold(level, max(horizon, 1))
        self._sums = np.zeros(len(_SUMS))

    def of_rows(self, predictive: Any, scores: Any) -> Bool[np.ndarray, "n j"]:
        """Return which classes the sets of the next rows hold, each from the rows before it, then learn from them.

        `scores` are those of the rows, of `ClassificationMetrics` or `OrdinalMetrics`; rows without a label, of code
        -1, have a set and teach nothing.
        """
        before = mass_before(scores.probabilities, isinstance(scores, OrdinalScores))
        if (scores.y < 0).any():
            return before <= self._threshold.next
        n, known = before.shape
        own_code = np.minimum(scores.y, known - 1)[:, None]
        score = np.where(scores.y < known, np.take_along_axis(before, own_code, axis=1)[:, 0], UNKNOWN)
        sets, own = before <= self._threshold.update(score)[:, None], before < self.level
        inside, inside_own = (
            (scores.y < known) & np.take_along_axis(each, own_code, axis=1)[:, 0] for each in (sets, own)
        )
        scored = slice(max(0, self.warmup - self.rows), None)
        each = (np.ones(n), inside, sets.sum(axis=1), inside_own, own.sum(axis=1))
        self._sums += [float(np.sum(values[scored])) for values in each]
        self.rows += n
        return sets

    def result(self) -> dict[str, Any]:
        """Return coverage and mean size of the conformal sets, and of the least sets of this share by the model."""
        rows, inside, size, own_inside, own_size = self._sums.tolist()
        return {
            "level": self.level,
            "coverage": inside / rows if rows else None,
            "size": size / rows if rows else None,
            "own": {
                "coverage": own_inside / rows if rows else None,
                "size": own_size / rows if rows else None,
            },
        }

    def to_tree(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "level": self.level,
            "warmup": self.warmup,
            "rows": self.rows,
            "threshold": self._threshold.to_tree(),
            "sums": self._sums.copy(),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "ConformalSets":
        """Restore the sets that `to_tree` stored."""
        sets = cls(tree["level"], tree["warmup"])
        sets.rows, sets._sums = tree["rows"], tree["sums"].copy()
        sets._threshold.restore(tree["threshold"])
        return sets
