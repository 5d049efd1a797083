"""Points that were asked for and not reported yet."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

# A point given back is the same within this distance, in unit coordinates.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Pending:
    """Points under evaluation, in the order in which they were asked for.

    Attributes
    ----------
    latest
        The point that `ask` gives again until something is reported; None: it has to choose one.
    earlier
        Those asked for before it (k, d).
    retry
        A point whose reward was too good to count in full, and which is to be evaluated again.
    stale
        Whether answers came after `latest` was chosen.
    """

    latest: Float[np.ndarray, " d"] | None
    earlier: Float[np.ndarray, "k d"]
    retry: Float[np.ndarray, " d"] | None = None
    stale: bool = False

    @classmethod
    def none(cls, width: int) -> "Pending":
        """Return the state in which nothing was asked for."""
        return cls(None, np.zeros((0, width)))

    @property
    def points(self) -> Float[np.ndarray, "k d"]:
        """Return all points, in the order in which they were asked for."""
        return self.earlier if self.latest is None else np.concatenate([self.earlier, self.latest[None]])

    def without(self, u: Float[np.ndarray, " d"]) -> "Pending":
        """Return the state after the report of a point.

        A single point that is pending goes as well where another was reported: that was evaluated instead.
        """
        points, reported = self.points, among(self.points, u[None])
        if reported.any():
            points = np.delete(points, int(np.argmax(reported)), axis=0)
        elif len(points) == 1:
            points = points[:0]
        return Pending(None, points)


def among(U: Float[np.ndarray, "n d"], points: Float[np.ndarray, "k d"]) -> Bool[np.ndarray, " n"]:
    """Mark the points that are one of the others."""
    return (np.abs(U[:, None] - points[None]).max(axis=2) < _SAME).any(axis=1)
