"""Columns of categories among the inputs: a column of 0 and 1 for each level that the warm-up has shown."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from streamgp.numerics.coding import one_hot
from streamgp.table.schema import MAX_LEVELS


@dataclass(frozen=True)
class Categories:
    """Which columns of X hold codes of levels, and how many levels of each are known; no method changes it.

    Codes count up from 0 in the order in which the levels first came, so that the first rows tell which codes are
    known. A level that is not known has no column: its row is all 0 there. A code that is NaN is unknown, and filled
    in like any gap.

    Attributes
    ----------
    columns
        The columns of codes.
    levels
        How many levels of each are known; 0 for a column of too many, which is left out.
    rows
        From how many rows they are known.
    """

    columns: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    rows: int = 0

    @classmethod
    def unknown(cls, columns: tuple[int, ...]) -> "Categories":
        """Return what is known before any row: that there is a level."""
        return cls(columns, (1,) * len(columns))

    def width(self, num_inputs: int) -> int:
        """Return how many columns rows of `num_inputs` columns become."""
        return num_inputs - len(self.columns) + sum(self.levels)

    def __call__(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n w"]:
        """Return the rows with columns of 0 and 1 in place of those of codes."""
        if not self.columns:
            return X
        known = dict(zip(self.columns, self.levels, strict=True))
        parts = [one_hot(X[:, i], known[i]) if i in known else X[:, i : i + 1] for i in range(X.shape[1])]
        return np.concatenate(parts, axis=1)

    def after(self, X: Float[np.ndarray, "n d"]) -> "Categories":
        """Return what is known after the first rows of a stream."""
        if not self.columns or len(X) <= self.rows:
            return self
        found = [1 + int(np.max(X[:, i], initial=0.0, where=np.isfinite(X[:, i]))) for i in self.columns]
        levels = [count if count <= MAX_LEVELS else 0 for count in found]
        if not self.width(X.shape[1]) - sum(self.levels) + sum(levels):
            levels[0] = 1  # a model has an input, though it tells nothing
        return replace(self, levels=tuple(levels), rows=len(X))
