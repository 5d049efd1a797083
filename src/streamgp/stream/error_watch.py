"""Whether predictions have become worse than they were: the stream has left what the experts were fitted to."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

BLOCK = 256  # rows whose mean absolute error is compared
MIN_BLOCKS = 4
DEVIATIONS = 4.0  # of the blocks before, by which a mean has to be larger
SHARE = 0.25  # and the share of itself


@register
@dataclass(frozen=True)
class ErrorWatch:
    """Mean absolute errors by blocks of 256 rows, and the row of the last change; no method changes it.

    A change is a block whose mean is larger than that of the blocks before by 4 of their standard deviations, and by
    a quarter. Then the count begins again.

    Attributes
    ----------
    rows, total
        Of the block that is not full: its rows, and the sum of their errors.
    blocks, mean, m2
        Of full blocks since the last change: how many, their mean, and the sum of squared deviations from it.
    changed_at
        The number of rows at the end of the block that was a change; 0 where none was.
    """

    rows: int = 0
    total: float = 0.0
    blocks: int = 0
    mean: float = 0.0
    m2: float = 0.0
    changed_at: int = 0

    def learn(self, errors: Float[np.ndarray, " n"], at: int) -> "ErrorWatch":
        """Return it after rows with these absolute errors, the first of which has the number `at` from 0.

        An error that is not finite, as that of an outlier, is not counted; its row is.
        """
        watch = self
        while len(errors):
            n = min(BLOCK - at % BLOCK, len(errors))
            counted = errors[:n][np.isfinite(errors[:n])]
            total = sum(counted.tolist(), watch.total)  # one by one, so that sums do not depend on the cuts
            watch = replace(watch, rows=watch.rows + len(counted), total=total)
            at, errors = at + n, errors[n:]
            if at % BLOCK == 0:
                watch = watch._closed(at)
        return watch

    def _closed(self, at: int) -> "ErrorWatch":
        """Return it with the block at its end."""
        if not self.rows:
            return self
        value = self.total / self.rows
        spread = np.sqrt(self.m2 / max(self.blocks - 1, 1))
        if self.blocks >= MIN_BLOCKS and value > self.mean + max(DEVIATIONS * spread, SHARE * self.mean):
            return ErrorWatch(changed_at=at)
        mean = self.mean + (value - self.mean) / (self.blocks + 1)
        m2 = self.m2 + (value - self.mean) * (value - mean)
        return replace(self, rows=0, total=0.0, blocks=self.blocks + 1, mean=mean, m2=m2)
