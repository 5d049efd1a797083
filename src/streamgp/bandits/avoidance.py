"""Avoidance of points that gave no reward: the more often they fail, the longer they are not asked for.

A skipped reward teaches nothing, so that the same point would come out best again, and again.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.checkpoint.encoding import register

# A point this close, in every unit coordinate, to one that failed counts as that one.
_NEAR = 0.03
# So many of the last points that failed are kept.
_MAX_POINTS = 100


@register
@dataclass(frozen=True, eq=False)
class Failures:
    """Points whose rewards were missing, in which step last, and for how many steps to stay away: 1, 2, 4, ..."""

    U: Float[np.ndarray, "n d"]
    at_step: Int[np.ndarray, " n"]
    wait: Int[np.ndarray, " n"]

    @classmethod
    def none(cls, width: int) -> "Failures":
        """Return the state before the first failure."""
        return cls(np.zeros((0, width)), np.zeros(0, int), np.zeros(0, int))

    def add(self, u: Float[np.ndarray, " d"], step: int) -> "Failures":
        """Add a point that failed in a step; if it had failed before, the wait is twice as long."""
        same = self._near(u[None])[0]
        wait = 2 * int(self.wait[same].max()) if same.any() else 1
        kept = np.flatnonzero(~same)[-(_MAX_POINTS - 1) :]
        return Failures(
            np.concatenate([self.U[kept], u[None]]),
            np.append(self.at_step[kept], step),
            np.append(self.wait[kept], wait),
        )

    def remove(self, u: Float[np.ndarray, " d"]) -> "Failures":
        """Remove the point that a reward came from after all."""
        kept = ~self._near(u[None])[0]
        return self if kept.all() else Failures(self.U[kept], self.at_step[kept], self.wait[kept])

    def allows(self, U: Float[np.ndarray, "m d"], step: int) -> Bool[np.ndarray, " m"]:
        """Mark the points that may be asked for after so many steps."""
        waiting = step - self.at_step < self.wait
        return np.asarray(~self._near(U)[:, waiting].any(axis=1))

    def _near(self, U: Float[np.ndarray, "m d"]) -> Bool[np.ndarray, "m n"]:
        if not len(self.U):
            return np.zeros((len(U), 0), dtype=bool)
        return np.abs(U[:, None] - self.U[None]).max(axis=2) < _NEAR
