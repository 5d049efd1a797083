"""Rows that were given up: a label that comes all the same is learnt in today's beliefs, with more noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from streamgp.numerics.threads import one_blas_thread
from streamgp.precision import in_float64
from streamgp.stream.gains import fill_next
from streamgp.stream.outlook import StandIn, WaitingRow, as_raw, rows_from_tree, rows_to_tree
from streamgp.stream.replay import Known
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

LIFE = 10  # times as long as its label is waited for, a row that was given up is kept


class OldRow(NamedTuple):
    """A row that was given up.

    Attributes
    ----------
    row
        As it waited; with its label once that has come.
    place
        How many rows had been learnt before it.
    """

    row: WaitingRow
    place: int


def learns_old(state: StreamState) -> bool:
    """Return whether labels of rows that were given up can be learnt: not where past targets are inputs."""
    parts = state.apart or (state,)
    return not state.is_warmed_up or all(part.model.learns_old and not part.inputs.lags.lags for part in parts)


@in_float64
def learn_old(settings: StreamSettings, state: StreamState, old: Sequence[OldRow]) -> StreamState:
    """Return the state whose experts have learnt labels of rows from before; nothing else changes.

    Weights, noise and recalibration learn from predictions that were made when a row came, of which none is kept.
    """
    rows = as_raw([each.row for each in old], settings.timed)
    ages = np.array([max(state.rows - each.place, 0) for each in old], dtype=float)
    if not state.apart:
        return _learnt(settings, state, rows, ages)
    one = settings.of_one_target
    parts = [_learnt(one, part, rows._replace(y=rows.y[:, [e]]), ages) for e, part in enumerate(state.apart)]
    return replace(state, apart=tuple(parts))


def _learnt(settings: StreamSettings, state: StreamState, rows: RawRows, ages: np.ndarray) -> StreamState:
    X, extra = fill_next(settings, state, rows.X)
    with one_blas_thread():
        inputs, targets = state.inputs.standardised(X), (rows.y - state.targets.mean) / state.targets.scale
        learnt = state.model.learn_old(state.model_state, inputs, targets, ages, rows.times, extra)
    return replace(state, model_state=learnt)


def given_up_rows(rows: Mapping[int, WaitingRow], oldest: Known, first: int, end: int) -> dict[int, OldRow]:
    """Return the rows between `first` and `end` without a label; `oldest` is what is known before some of `rows`."""
    at, state = oldest
    place, found = state.rows, {}
    for number in range(at, end):
        row = rows[number]
        if row.y is None and number >= first:
            found[number] = OldRow(replace(row, predicted=StandIn(row.predicted.mean)), place)
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
        old = self.rows.get(number)
        return old is not None and old.row.y is None

    def with_rows(self, more: Mapping[int, OldRow]) -> "OldRows":
        """Return these rows and some that came after them."""
        return replace(self, rows={**self.rows, **more}) if more else self

    def with_label(self, number: int, y: np.ndarray) -> "OldRows":
        """Return the rows with the label of one."""
        row, place = self.rows[number]
        rows = {**self.rows, number: OldRow(replace(row, y=y), place)}
        return replace(self, rows=rows, labelled=(*self.labelled, number))

    def without(self, number: int) -> "OldRows":
        """Return the rows but for one, whose label will never come."""
        return replace(self, rows={each: old for each, old in self.rows.items() if each != number})

    def since(self, number: int) -> "OldRows":
        """Return the rows from a number on, and those that are to be learnt."""
        if not self.rows or next(iter(self.rows)) >= number:
            return self
        labelled = set(self.labelled)
        return replace(self, rows={n: old for n, old in self.rows.items() if n >= number or n in labelled})

    def learn(self, settings: StreamSettings, state: StreamState) -> tuple[StreamState, "OldRows"]:
        """Return the state after the labels that have come, and the rows without them."""
        numbers = sorted(self.labelled)
        rows = {number: old for number, old in self.rows.items() if old.row.y is None}
        if not learns_old(state):
            return state, replace(self, rows=rows, labelled=())
        state = learn_old(settings, state, [self.rows[number] for number in numbers])
        return state, OldRows(rows, (), self.learnt + len(numbers))

    def to_tree(self, width: int, outputs: int) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {
            "numbers": np.array(list(self.rows), dtype=np.int64),
            "places": np.array([old.place for old in self.rows.values()], dtype=np.int64),
            "learnt": self.learnt,
            **rows_to_tree([old.row for old in self.rows.values()], width, outputs),
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "OldRows":
        """Return what `to_tree` was given."""
        each = map(OldRow, rows_from_tree(tree), tree["places"].tolist())
        rows = dict(zip(tree["numbers"].tolist(), each, strict=True))
        return cls(rows, tuple(number for number, old in rows.items() if old.row.y is not None), tree["learnt"])
