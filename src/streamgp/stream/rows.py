"""Rows of a stream as they come."""

from typing import NamedTuple

import numpy as np

from streamgp.numerics.checkpoint.encoding import register


@register
class RawRows(NamedTuple):
    """Rows as they come: X (n, D) with its gaps, y (n, E), and times (n,), None where rows have none."""

    X: np.ndarray
    y: np.ndarray
    times: np.ndarray | None

    def copy(self) -> "RawRows":
        """Return them in arrays of their own."""
        return RawRows(self.X.copy(), self.y.copy(), None if self.times is None else self.times.copy())

    def part(self, rows: slice | np.ndarray) -> "RawRows":
        """Return some of the rows."""
        return RawRows(self.X[rows], self.y[rows], None if self.times is None else self.times[rows])
