"""The last rows of a stream with lags or a season, for regressions of targets many rows ahead."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

MOST_ROWS, FEWEST_ROWS = 2_000, 500
MOST_NUMBERS = 100_000  # of wide rows fewer are kept


@register
@dataclass(frozen=True)
class RecentRows:
    """So many rows, all of them but those that were skipped; no method changes them.

    Attributes
    ----------
    X
        Inputs without lags, coded and without gaps; NaN where a row of the warm-up had no target.
    y
        Targets on the scale that is learnt, as lags have them: something stands for outliers and missing ones.
    """

    X: Float[np.ndarray, "n w"]
    y: Float[np.ndarray, "n e"]

    def learn(self, X: Float[np.ndarray, "m w"], y: Float[np.ndarray, "m e"]) -> "RecentRows":
        """Return the last rows once these have come."""
        width = max(self.X.shape[1] + self.y.shape[1], 1)
        most = min(max(MOST_NUMBERS // width, FEWEST_ROWS), MOST_ROWS)
        return RecentRows(*(np.concatenate(each)[-most:] for each in ((self.X, X), (self.y, y))))
