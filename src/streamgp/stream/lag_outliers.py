"""What stands for an outlier among past targets: what was predicted of it, or the outlier itself."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

MEMORY = 0.8  # discount of the share of outliers that the row after confirmed
CONFIRMED = 0.5  # part of an outlier's way from its prediction that the next target has to be off as well
MAX_GROWTH = 2.0  # times as far out as the furthest of those confirmed: what is further out is not believed


@register
@dataclass(frozen=True)
class OutlierMemory:
    """What the rows after outliers said of these, for each of E targets; no method changes it.

    After a glitch the next target is an ordinary one, and as its lag the glitch would be as absurd as it was itself.
    After the first row of a burst or of a step it is not, and then the value is what the next row needs to know.

    Attributes
    ----------
    share
        Discounted share of outliers that the target after them confirmed.
    reach
        How far the furthest of these was from its prediction.
    predicted, target
        Of the last row, if that was an outlier; else NaN.
    """

    share: Float[np.ndarray, " e"]
    reach: Float[np.ndarray, " e"]
    predicted: Float[np.ndarray, " e"]
    target: Float[np.ndarray, " e"]

    @classmethod
    def empty(cls, num_targets: int) -> "OutlierMemory":
        """Return what is known before any row."""
        return cls(np.zeros(num_targets), np.zeros(num_targets), *np.full((2, num_targets), np.nan))

    def learn(self, y: Float[np.ndarray, " e"]) -> "OutlierMemory":
        """Learn the targets of the next row."""
        if np.isnan(self.target).all():
            return self
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            away = self.target - self.predicted
            part = (y - self.predicted) / away
        known, confirmed = ~np.isnan(part), part > CONFIRMED
        share = np.where(known, MEMORY * self.share + (1.0 - MEMORY) * confirmed, self.share)
        reach = np.where(known & confirmed, np.maximum(self.reach, np.abs(away)), self.reach)
        return OutlierMemory(share, reach, *np.full((2, len(y)), np.nan))

    def learn_outlier(
        self, predicted: Float[np.ndarray, " e"], y: Float[np.ndarray, " e"]
    ) -> tuple["OutlierMemory", Float[np.ndarray, " e"]]:
        """Learn the targets of the next row, an outlier; return what stands for them in the rows to come as well."""
        after = self.learn(y)
        away = y - predicted
        like_others = np.abs(away) <= MAX_GROWTH * after.reach
        stands = predicted + after.share * np.where(like_others, away, 0.0)
        return OutlierMemory(after.share, after.reach, predicted, y), stands
