"""How well the probabilities of a class rank rows: from counts in fixed bins of log odds, in constant memory."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

STEP = 1.0 / 32.0  # width of a bin, in log odds: probabilities 3% apart
REACH = 20.0  # log odds at which the outermost bins begin: probabilities of 2e-9
_BINS = 2 * round(REACH / STEP) + 2


class Rankings:
    """The rows of each class, and those of the others, by the probability of the class.

    Rows whose probabilities share a bin count as ties. That moves the area under the ROC curve by no more than half
    the share of pairs, one row of the class and one of another, that are in one bin: some 0.004 where the log odds of
    either spread over a range of four, and less where over more. A class counts the rows since it was known.

    Parameters
    ----------
    classes
        How many are known.
    """

    def __init__(self, classes: int) -> None:
        self._counts = np.zeros((classes, 2, _BINS), np.int64)

    def add(self, probabilities: Float[np.ndarray, "n j"], y: Int[np.ndarray, " n"]) -> None:
        """Count rows by what was predicted of them, and the codes of their labels."""
        n, classes = probabilities.shape
        self._counts = np.pad(self._counts, ((0, max(0, classes - len(self._counts))), (0, 0), (0, 0)))
        with np.errstate(divide="ignore"):
            log_odds = np.log(probabilities) - np.log1p(-probabilities)
        bins = np.floor(np.clip(log_odds / STEP, -REACH / STEP - 1.0, REACH / STEP)).astype(np.int64) + _BINS // 2
        is_own = (y[:, None] == np.arange(classes)).astype(np.int64)
        np.add.at(self._counts, (np.tile(np.arange(classes), (n, 1)), is_own, bins), 1)

    def result(self) -> list[tuple[float | None, float | None]]:
        """Return the area under the ROC curve, and the average precision, of each class.

        None where no row was of the class; of the area, where all were. The first is the share of pairs, a row of the
        class and another, in which the class was given the higher probability, a tie counting half. The second is
        the mean over the rows of the class of the precision, the share of the class among all rows that were given at
        least as much (as scikit-learn has it): the area under the curve of precision and recall, which chance makes
        the share of the class.
        """
        found: list[tuple[float | None, float | None]] = []
        for others, own in self._counts[:, :, ::-1].astype(np.float64):  # the highest probability first
            above, taken = np.cumsum(others) - others, np.cumsum(own)
            if not taken[-1]:
                found.append((None, None))
                continue
            pairs, there = taken[-1] * others.sum(), own > 0.0
            area = 1.0 - float(own @ (above + 0.5 * others)) / pairs if pairs else None
            precision = taken[there] / (taken + np.cumsum(others))[there]
            found.append((area, float(own[there] @ precision / taken[-1])))
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return the counts for a checkpoint."""
        return {"counts": self._counts.copy()}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "Rankings":
        """Return the rankings whose `to_tree` gave `tree`."""
        found = cls(0)
        found._counts = tree["counts"].copy()
        return found
