"""Rows that were given up: a label that comes all the same is learnt in today's beliefs, with more noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.numerics.threads import one_blas_thread
from streamgp.precision import in_float64
from streamgp.stream.gains import fill_next
from streamgp.stream.outlook import WaitingRow
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

LIFE = 10  # times as long as its label is waited for, a row that was given up is kept


class OldRow(NamedTuple):
    """A row that was given up.

    Attributes
    ----------
    x, time
        Its inputs and its time.
    place
        How many rows had been learnt before it.
    y
        Its label, on the scale that is learnt, once it has come.
    """

    x: np.ndarray
    time: float
    place: int
    y: np.ndarray | None = None


def learns_old(state: StreamState) -> bool:
    """Return whether labels of rows that were given up can be learnt: not where past targets are inputs."""
    parts = state.apart or (state,)
    return not state.is_warmed_up or all(part.model.learns_old and not part.inputs.lags.lags for part in parts)


@in_float64
def learn_old(settings: StreamSettings, state: StreamState, rows: Sequence[OldRow]) -> StreamState:
    """Return the state whose experts have learnt labels of rows from before; nothing else changes.

    Weights, noise and recalibration learn from predictions that were made when a row came, of which none is kept.
    """
    X, y = np.stack([row.x for row in rows]), np.stack([np.asarray(row.y) for row in rows])
    ages = np.array([max(state.rows - row.place, 0) for row in rows], dtype=float)
    times = np.array([row.time for row in rows]) if settings.timed else None
    if not state.apart:
        return _learnt(settings, state, X, y, ages, times)
    one = settings.of_one_target
    parts = [_learnt(one, part, X, y[:, [e]], ages, times) for e, part in enumerate(state.apart)]
    return replace(state, apart=tuple(parts))


def _learnt(
    settings: StreamSettings,
    state: StreamState,
    X: np.ndarray,
    y: np.ndarray,
    ages: np.ndarray,
    times: np.ndarray | None,
) -> StreamState:
    X, extra = fill_next(settings, state, X)
    with one_blas_thread():
        inputs, targets = state.inputs.standardised(X), (y - state.targets.mean) / state.targets.scale
        learnt = state.model.learn_old(state.model_state, inputs, targets, ages, times, extra)
    return replace(state, model_state=learnt)


def given_up_rows(
    rows: Mapping[int, WaitingRow], oldest: tuple[int, StreamState], first: int, end: int
) -> dict[int, OldRow]:
    """Return the rows between `first` and `end` without a label; `oldest` is what is known before some of `rows`."""
    at, state = oldest
    place, found = state.rows, {}
    for number in range(at, end):
        row = rows[number]
        if row.y is None and number >= first:
            found[number] = OldRow(row.x, row.time, place)
        place += row.is_labelled
    return found


@dataclass(frozen=True)
class OldRows:
    """The rows that were given up; no method changes it.

    Attributes
    ----------
    rows
        By their numbers, in ascending order.
    labelled
        Those whose label has come, and is to be learnt.
    learnt
        How many labels were.
    """

    rows: Mapping[int, OldRow] = field(default_factory=dict)
    labelled: tuple[int, ...] = ()
    learnt: int = 0

    def waits(self, number: int) -> bool:
        """Return whether the label of a row may come."""
        row = self.rows.get(number)
        return row is not None and row.y is None

    def with_rows(self, more: Mapping[int, OldRow]) -> "OldRows":
        """Return these rows and some that came after them."""
        return replace(self, rows={**self.rows, **more}) if more else self

    def with_label(self, number: int, y: np.ndarray) -> "OldRows":
        """Return the rows with the label of one."""
        labelled = {number: self.rows[number]._replace(y=y)}
        return replace(self, rows={**self.rows, **labelled}, labelled=(*self.labelled, number))

    def without(self, number: int) -> "OldRows":
        """Return the rows but for one, whose label will never come."""
        return replace(self, rows={each: row for each, row in self.rows.items() if each != number})

    def since(self, number: int) -> "OldRows":
        """Return the rows from a number on, and those that are to be learnt."""
        if not self.rows or next(iter(self.rows)) >= number:
            return self
        return replace(self, rows={n: row for n, row in self.rows.items() if n >= number or row.y is not None})

    def learn(self, settings: StreamSettings, state: StreamState) -> tuple[StreamState, "OldRows"]:
        """Return the state after the labels that have come, and the rows without them."""
        numbers = sorted(self.labelled)
        rows = {number: row for number, row in self.rows.items() if row.y is None}
        if not learns_old(state):
            return state, replace(self, rows=rows, labelled=())
        state = learn_old(settings, state, [self.rows[number] for number in numbers])
        return state, OldRows(rows, (), self.learnt + len(numbers))

    def to_tree(self, width: int, outputs: int) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        rows, absent = list(self.rows.values()), np.full(outputs, np.nan)
        return {
            "numbers": np.array(list(self.rows), dtype=np.int64),
            "X": np.array([row.x for row in rows]).reshape(len(rows), width),
            "times": np.array([row.time for row in rows]),
            "places": np.array([row.place for row in rows], dtype=np.int64),
            "y": np.array([absent if row.y is None else row.y for row in rows]).reshape(len(rows), outputs),
            "learnt": self.learnt,
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "OldRows":
        """Return what `to_tree` was given."""
        columns = zip(tree["X"], tree["times"].tolist(), tree["places"].tolist(), tree["y"], strict=True)
        each = [OldRow(x, time, place, None if np.isnan(y).any() else y) for x, time, place, y in columns]
        rows = dict(zip(tree["numbers"].tolist(), each, strict=True))
        return cls(rows, tuple(number for number, row in rows.items() if row.y is not None), tree["learnt"])
