"""What stands for an outlier among past targets: what was predicted of it, the outlier itself, or between them."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

STEP = 0.3  # of the share after an outlier as far out as any, where the next target is off by all of its way
CONFIRMED = 0.5  # part of an outlier's way from its prediction that the next target has to be off as well
MAX_GROWTH = 2.0  # times the reach: what is further out is not believed, nor does the reach grow by more at once
FAR_MEMORY = 0.8  # discount of the share of those beyond the reach that were confirmed
FAR_START, FAR_ENOUGH = 0.5, 0.5  # that share at the start, and the one above which the reach grows


@register
@dataclass(frozen=True)
class OutlierMemory:
    """What the rows after outliers said of these, for each of E targets; no method changes it.

    After a glitch the next target is an ordinary one, and as its lag the glitch would be as absurd as it was itself.
    After the crest of a flood, or the first row of a step, it is not, and then the value is what the next row needs
    to know. So a share of an outlier's way from its prediction stands for it, and the share takes a step down the
    gradient of the next row's squared error, in units of the reach: up if the target is off to the outlier's side of
    what was predicted from what stood for it, down if it is off to the other. It starts at all of the way.

    Attributes
    ----------
    share
        Part of an outlier's way from its prediction that stands for it.
    reach
        How far from its prediction an outlier is believed, but for `MAX_GROWTH`: half the range of the warm-up's
        targets; it grows with those beyond that the next target confirmed, as long as most of them were.
    far
        Discounted share of those beyond the reach that were confirmed: two glitches in a row confirm each other.
    predicted, target
        Of the last row, if that was an outlier; else NaN.
    """

    share: Float[np.ndarray, " e"]
    reach: Float[np.ndarray, " e"]
    far: Float[np.ndarray, " e"]
    predicted: Float[np.ndarray, " e"]
    target: Float[np.ndarray, " e"]

    @classmethod
    def empty(cls, num_targets: int) -> "OutlierMemory":
        """Return what is known before any row: none is believed, as none was confirmed."""
        nothing = np.full((2, num_targets), np.nan)
        return cls(np.ones(num_targets), np.zeros(num_targets), np.full(num_targets, FAR_START), *nothing)

    @property
    def is_waiting(self) -> bool:
        """Whether the last row was an outlier, of which the next one will tell."""
        return not np.isnan(self.target).all()

    def with_usual(self, y: Float[np.ndarray, "n e"]) -> "OutlierMemory":
        """Return the same once usual targets are known: what would be one of them is believed."""
        return replace(self, reach=np.maximum(self.reach, np.ptp(y, axis=0) / 2.0))

    def learn(self, y: Float[np.ndarray, " e"], expected: Float[np.ndarray, " e"] | None = None) -> "OutlierMemory":
        """Learn the targets of the next row, and what was `expected` of them from what stood for the last ones.

        Without that it is what stood for them itself, as if the targets did not move.
        """
        if not self.is_waiting:
            return self
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            away = self.target - self.predicted
            part = (y - self.predicted) / away
            off = (y - (self._stand() if expected is None else expected)) / away
            size = np.minimum(np.abs(away) / self.reach, 1.0)
        confirmed, beyond = part > CONFIRMED, ~np.isnan(part) & (np.abs(away) > self.reach)
        moved = np.clip(self.share + STEP * size**2 * np.clip(off, -1.0, 1.0), 0.0, 1.0)
        share = np.where(np.isnan(off), self.share, moved)
        far = np.where(beyond, FAR_MEMORY * self.far + (1.0 - FAR_MEMORY) * confirmed, self.far)
        grown = np.where(self.reach > 0.0, np.minimum(np.abs(away), MAX_GROWTH * self.reach), np.abs(away))
        reach = np.where(beyond & confirmed & (far > FAR_ENOUGH), grown, self.reach)
        return OutlierMemory(share, reach, far, *np.full((2, len(y)), np.nan))

    def learn_outlier(
        self,
        predicted: Float[np.ndarray, " e"],
        y: Float[np.ndarray, " e"],
        expected: Float[np.ndarray, " e"] | None = None,
    ) -> tuple["OutlierMemory", Float[np.ndarray, " e"]]:
        """Learn the targets of the next row, an outlier; return what stands for them in the rows to come as well."""
        after = replace(self.learn(y, expected), predicted=predicted, target=y)
        return after, after._stand()

    def _stand(self) -> Float[np.ndarray, " e"]:
        """Return what stands for the last row's targets."""
        away = self.target - self.predicted
        like_others = np.abs(away) <= MAX_GROWTH * self.reach
        return self.predicted + self.share * np.where(like_others, away, 0.0)
