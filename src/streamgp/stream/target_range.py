"""How far transformed targets have come: the range beyond which predictions are not believed.

An expert that extrapolates a logarithm by ten units is off by a factor of 20,000, and one such row decides the error
of a whole stream. What was learnt vouches for the targets that came, and for as much as twice that in the next row.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Predictive
from streamgp.numerics.checkpoint.encoding import register

RANK = 3  # the target that counts as the largest: two absurd ones that nobody noticed stretch nothing for good
MARGIN = float(np.log(2.0))  # per row ahead, on the scale that is learnt: twice the target, or its odds
FADE = float(np.log(2.0))  # per row: what only the last targets reached is halved

Ends = Float[np.ndarray, "n 2 e"]


@register
@dataclass(frozen=True)
class TargetRange:
    """The range of the targets learnt, on the scale that is learnt; no method changes it.

    Its ends are the targets of rank `RANK`, outliers left out. What goes beyond them, as a flood or a new level does
    in its first rows, counts at once and in full, but fades row by row unless other targets confirm it. So a change
    is followed as it comes, and a glitch is forgotten.

    Attributes
    ----------
    furthest
        Of -z and of z, the `RANK` largest of each target in descending order; -inf where fewer were learnt.
    latest
        Of -z and of z, what is left of the last targets, outliers or not.
    """

    furthest: Float[np.ndarray, "2 r e"]
    latest: Float[np.ndarray, "2 e"]

    @classmethod
    def empty(cls, num_targets: int) -> "TargetRange":
        """Return the range before any row."""
        return cls(np.full((2, RANK, num_targets), -np.inf), np.full((2, num_targets), -np.inf))

    def learn(
        self, z: Float[np.ndarray, "n e"], flagged: Any = None
    ) -> tuple["TargetRange", Float[np.ndarray, "n+1 2 e"]]:
        """Return the range after rows with these targets, and its ends before each row and after the last.

        Rows that are `flagged` are outliers.
        """
        sides = np.stack([-z, z], axis=1)
        rows = np.arange(len(z) + 1.0)[:, None, None] * FADE
        latest = np.maximum.accumulate(np.concatenate([self.latest[None], sides]) + rows) - rows
        left = sides if flagged is None else np.where(np.asarray(flagged)[:, None, None], -np.inf, sides)
        ranks = []
        for rank in range(RANK):  # what is not among the largest so far is left for the next rank
            so_far = np.maximum.accumulate(np.concatenate([self.furthest[None, :, rank], left]))
            left = np.minimum(left, so_far[:-1])
            ranks.append(so_far)
        ends = np.maximum(ranks[-1], latest)
        return TargetRange(np.stack([each[-1] for each in ranks], axis=1), latest[-1]), _as_ends(ends, ranks[-1])

    @property
    def ends(self) -> Ends:
        """The ends for the next row; infinite where fewer than `RANK` targets were learnt."""
        return _as_ends(np.maximum(self.furthest[:, -1], self.latest), self.furthest[:, -1])[None]

    def limit(self, predictive: Predictive, ahead: Float[np.ndarray, " n"] | float = 1.0) -> Predictive:
        """Return a prediction of rows, each so many rows `ahead`, with what is believed of it: see `limited`."""
        return limited(predictive, np.repeat(self.ends, len(predictive.loc), axis=0), ahead)

    def of_target(self, e: int) -> "TargetRange":
        """Return the range of one of several targets."""
        return replace(self, furthest=self.furthest[:, :, [e]], latest=self.latest[:, [e]])


def limited(predictive: Predictive, ends: Ends, ahead: Float[np.ndarray, " n"] | float = 1.0) -> Predictive:
    """Return a prediction whose components lie within the ends and the margin of so many rows `ahead`.

    They keep their spread: what may come beyond has its probability, and `Predictive.limits` cut it off where a
    transformed target's tails would decide its mean.
    """
    margin = MARGIN * np.broadcast_to(ahead, len(ends))[:, None]
    low, high = ends[:, 0] - margin, ends[:, 1] + margin
    loc = np.clip(predictive.loc, low[:, None], high[:, None])
    return replace(predictive, loc=loc, limits=np.stack([low, high], axis=1))


def _as_ends(sides: Float[np.ndarray, "*n 2 e"], known: Float[np.ndarray, "*n 2 e"]) -> Float[np.ndarray, "*n 2 e"]:
    """Return the low and the high end of the range of z, infinite where too little is known."""
    far = np.where(known == -np.inf, np.inf, sides)
    return np.stack([-far[..., 0, :], far[..., 1, :]], axis=-2)
