"""What is left of an expert's last error in its next one: a first-order autoregression for each key and expert.

Experts that do not look at the last targets are off alike in rows close to each other. They learn as if errors were
independent, but as if there were `streamgp.fleet.experts.TOGETHER` times fewer rows; what is predicted has the share
of the last error in it.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from streamgp.fleet.scales import REACH
from streamgp.numerics.checkpoint.encoding import register

# The discount of the sums, the square that stands for what is known before any row, and the largest share.
DISCOUNT, BEFORE, MOST = 0.995, 1.0, 0.98


@register
@dataclass(frozen=True)
class CarriedErrors:
    """The last errors of some keys' experts, and how far errors go together with those before.

    Attributes
    ----------
    last
        In the target's unit; 0 where there is none.
    product, square
        Discounted sums of the errors' products with those before, and of the squares of these, in units of the key's
        scale.
    """

    last: Float[np.ndarray, "n e"]
    product: Float[np.ndarray, "n e"]
    square: Float[np.ndarray, "n e"]

    @classmethod
    def none(cls, keys: int, experts: int) -> "CarriedErrors":
        """Return what is known before the first row."""
        return cls(*(np.zeros((keys, experts)) for _ in range(3)))

    @property
    def share(self) -> Float[np.ndarray, "n e"]:
        """Which share of an error the next row is expected to have."""
        return np.clip(self.product / (self.square + BEFORE), 0.0, MOST)

    def going_on(
        self, value: Float[np.ndarray, " n"], expected: Float[np.ndarray, "n e"], scale: Float[np.ndarray, " n"]
    ) -> "CarriedErrors":
        """Return them after rows with these targets, where the experts by themselves `expected` others."""
        off, reach = value[:, None] - expected, REACH * scale[:, None]
        return replace(self, last=np.where(np.isfinite(off), np.clip(off, -reach, reach), 0.0))

    def learn(
        self, value: Float[np.ndarray, " n"], expected: Float[np.ndarray, "n e"], scale: Float[np.ndarray, " n"]
    ) -> "CarriedErrors":
        """Return the same, with what such targets show of the share."""
        new, unit = self.going_on(value, expected, scale), scale[:, None]
        before, now = self.last / unit, new.last / unit
        product, square = (DISCOUNT * each for each in (self.product, self.square))
        return replace(new, product=product + before * now, square=square + before * before)
