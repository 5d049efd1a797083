"""Filters of equal shape, whatever their bases, as one stack that works a row at a time; without those that rest.

Every call into NumPy takes time, so that few stacks are better than many groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.rowfilter import PENDING, RowFilter, RowPrediction
from streamgp.filters.kalman import ExpertVariances, FilterState
from streamgp.numerics import tree


class RowStack:
    """The filters of some groups with equally many features and dynamics.

    Parameters
    ----------
    groups
        The numbers of the groups.
    parts
        Beliefs, dynamics and variances of each group, (G, R) each.
    places
        The position of every filter in the user's order.
    awake
        Which of them work.
    turn
        The place of this stack among all, as a share in (0, 1]: each folds its buffers at rows of its own.
    """

    def __init__(
        self,
        groups: Sequence[int],
        parts: Sequence[tuple[FilterState, Dynamics, ExpertVariances]],
        places: Int[np.ndarray, " n"],
        awake: Bool[np.ndarray, " n"],
        turn: float,
    ) -> None:
        self._copies = [part[0].mean.shape[0] for part in parts]
        joined = tree.map(lambda *a: np.concatenate(a), *parts)
        self._beliefs: FilterState = joined[0]
        here = awake.reshape(self._beliefs.mean.shape[:2])
        self._some = None if here.all() else np.nonzero(here)
        self.places = places[awake]
        self.groups = list(groups)
        if self._some is not None:
            joined = tree.map(lambda a: a[self._some][:, None], joined)
            works = np.split(here.any(1), np.cumsum(self._copies)[:-1])
            self.groups = [i for i, any_of in zip(groups, works, strict=True) if any_of.any()]
        self._all_groups = groups
        ends = np.cumsum(self._copies).tolist()
        self._slices = list(zip([0, *ends[:-1]], ends, strict=True))
        self._phi = np.empty((ends[-1], self._beliefs.mean.shape[2]))
        self.filters = RowFilter(*joined, first=max(1, int(turn * PENDING)))

    @property
    def is_empty(self) -> bool:
        """Whether all of them rest."""
        return not len(self.places)

    def predict(self, phis: Mapping[int, Float[np.ndarray, "..."]], tau: float, extra: float) -> RowPrediction:
        """Predict a row from its features by group; those of groups that rest are not needed."""
        return self.filters.predict(self._features(phis), tau, extra)

    def _features(self, phis: Mapping[int, Float[np.ndarray, "..."]]) -> Float[np.ndarray, "..."]:
        """Join the features of several groups; a basis without parameters gives one row for all copies."""
        if self._some is None and len(self._all_groups) == 1:
            return phis[self._all_groups[0]]
        for i, (begin, end) in zip(self._all_groups, self._slices, strict=True):
            self._phi[begin:end] = phis.get(i, 0.0)
        return self._phi if self._some is None else self._phi[self._some[0]]

    def flush(self) -> list[FilterState]:
        """Return the beliefs of each group."""
        whole: Any = self._beliefs
        if self._some is None:
            whole = self.filters.flush()
        elif not self.is_empty:
            some, learnt = self._some, self.filters.flush()

            def put(a: np.ndarray, new: np.ndarray) -> np.ndarray:
                changed = np.array(a)
                changed[some] = new[:, 0]
                return changed

            whole = tree.map(put, whole, learnt)
        ends = np.cumsum(self._copies)
        return [
            tree.map(lambda a, n=n, end=end: a[end - n : end], whole)
            for n, end in zip(self._copies, ends, strict=True)
        ]
