"""Labels that come late, in any order or never: a row waits for its own, and a prediction knows all that have come.

What a learner knows is a function of the rows whose label is known, in the order in which the rows came, whenever
their labels did. A label of a row before others that were learnt already is therefore learnt in its place: the
learner goes back to a state from before that row, and learns it and the rows after it anew. So when all labels are
in, all is as if they had come in time: weights, noise, lags and renewals included. What is remembered for that has
an end: a row beyond it is given up, and a label of it that comes all the same is refused. Only what weighs the
experts in rows that are predicted while others wait is learnt label by label, by `late_weights`.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.core import Info
from streamgp.likelihoods import AnyPredictive
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream.late_weights import LateWeights, learnt
from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import Outlook, StandIn, WaitingRow, check_horizon, rows_from_tree, rows_to_tree
from streamgp.stream.replay import BLOCK, Known, due_fit, replayed, thinned

LIMIT = 1_000  # rows after which a row is given up; twice as many are kept at most


class LateLabels:
    """Predicts rows when they come and learns their labels when these do, by a learner whose state it sets.

    Rows are numbered from 0 as they come; a row's number is its token. A row whose label has not come when `limit`
    more rows have is given up, so that memory has an end: the rows kept are at most twice as many, the states at most
    `KEPT_STATES` and two. The warm-up counts rows with a label, and the fit at its end is made once: when none of its
    rows waits any more or, if there are enough with a label, half as many rows later than that; its rows that wait
    then are given up.

    A prediction is made from all labels that have come, and is for as many steps ahead as rows at the end of the
    stream wait, itself included. Where past targets are inputs, what was predicted of those rows stands for them.

    Parameters
    ----------
    learner
        Without a horizon. While rows wait, nothing else may teach it.
    limit
        For so many rows a label is waited for.

    Raises
    ------
    ValueError
        If the learner has a horizon.
    """

    def __init__(self, learner: StreamLearner, limit: int = LIMIT) -> None:
        check_horizon(learner.settings.horizon)
        self.learner = learner
        self.limit = limit
        self.next_row = 0  # the number of the next row
        self.never = 0  # labels that came as missing
        self.given_up = 0  # rows whose label did not come in time
        self.latest = -1  # the last row with a label
        self._open = 0  # the first row that waits, or `next_row`
        self._enough: int | None = None  # how many rows had come when there were enough labels for the fit
        self._rows: dict[int, WaitingRow] = {}  # from the oldest state on
        self.weights: tuple[LateWeights, ...] = ()  # of rows that are predicted while others wait
        # What is known when all labels that have come of the rows before one are learnt, for some rows in ascending
        # order; of the first of them none waits for a label.
        self._states: list[Known] = [(0, learner.state)]

    @property
    def waiting(self) -> int:
        """Count the rows that wait for their label, and were not given up."""
        return sum(map(self.waits, self._rows))

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row that came."""
        return self._rows[self.next_row - 1].time if self._rows else self.learner.last_time

    # Rows

    def predict(self, X: np.ndarray, times: np.ndarray | None = None) -> Iterator[tuple[range, Info]]:
        """Take in the next rows, which wait from now on; yield the numbers and the predictions of consecutive ones.

        Nothing happens until the iterator is advanced.

        Raises
        ------
        ValueError
            If a time is before that of the last row that came; nothing is changed then.
        """
        self._check_order(times)
        at = 0
        while at < len(X):
            self.refresh()
            info, standing = self.outlook().leading(X[at:], None if times is None else times[at:])
            rows = slice(at, at + len(standing))
            yield self._append(X[rows], None if times is None else times[rows], standing), info
            at = rows.stop

    def outlook(self) -> "Outlook":
        """Return what is known of the next row, as of the last `refresh`; it stays as it is."""
        return Outlook(self._copied(), self._unlearnt(), self.weights)

    def fork(self) -> "LateLabels":
        """Return what goes on by itself from here, with a learner of its own: to look ahead by a `refresh`."""
        fork = LateLabels(self._copied(), self.limit)
        vars(fork).update({name: copy(value) for name, value in vars(self).items() if name != "learner"})
        return fork

    def _copied(self) -> StreamLearner:
        """Return a learner that knows what is known now, and goes on by itself."""
        return self.learner.at(self.learner.settings, self.learner.state, self.learner.progress)

    def adopt(self, fork: "LateLabels") -> None:
        """Take over what a fork has learnt, while neither took in a row or a label."""
        self.learner.state = fork.learner.state
        vars(self).update({name: value for name, value in vars(fork).items() if name != "learner"})

    def append(self, X: np.ndarray, times: np.ndarray | None, standing: Sequence[StandIn]) -> range:
        """Take in rows that an `Outlook` predicted, with what stands for each; return their numbers.

        Errors are those of `predict`.
        """
        self._check_order(times)
        return self._append(X, times, standing)

    def predict_next(self, X: np.ndarray, times: np.ndarray | None = None) -> AnyPredictive:
        """Predict each row as if it were the next one to come, by what was known at the last `refresh`."""
        return self.outlook().each(X, times)

    def take(self, X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None) -> None:
        """Take in rows whose labels come with them, while others wait.

        Raises
        ------
        ValueError
            As `predict` does.
        """
        self._check_order(times)
        y = self.learner.settings.target_map.learnt(y)
        for at in range(0, len(X), BLOCK):
            rows = slice(at, at + BLOCK)
            standing = [StandIn(target) for target in y[rows]]
            numbers = self._append(X[rows], None if times is None else times[rows], standing, list(y[rows].copy()))
            self.latest = max([self.latest, *(number for number in numbers if self._rows[number].is_labelled)])
            self.refresh()

    def _append(
        self,
        X: np.ndarray,
        times: np.ndarray | None,
        standing: Sequence[StandIn],
        y: Sequence[np.ndarray | None] | None = None,
    ) -> range:
        if self._open == self.next_row:  # none waits, and others may have taught the learner since
            self._rows, self._states = {}, [(self.next_row, self.learner.state)]
        numbers = range(self.next_row, self.next_row + len(X))
        for i, number in enumerate(numbers):
            time = np.nan if times is None else float(times[i])
            self._rows[number] = WaitingRow(X[i].copy(), time, standing[i], None if y is None else y[i])
        self.next_row = numbers.stop
        return numbers

    def _check_order(self, times: np.ndarray | None) -> None:
        last = self.last_time
        if times is not None and last is not None and len(times) and times[0] < last:
            raise ValueError(
                f"times: expected none before {last}, that of the last row that came, got {times[0]}; give the rows "
                f"in the order in which they came"
            )

    def _unlearnt(self) -> np.ndarray:
        """Return what stands for the targets (n, E) of the rows after the last one learnt.

        Those that will never have a label count where past targets are inputs, as there a row keeps its distance.
        """
        taught = self._open == self.next_row  # perhaps by others
        after = [] if taught else [self._rows[number] for number in range(self._states[-1][0], self.next_row)]
        as_lags = self.learner.settings.task.as_lags
        stand = [
            row.predicted.mean if row.y is None or not row.is_labelled else as_lags(row.y[None], row.x[None])[0]
            for row in after
            if row.y is None or row.is_labelled or self.learner.state.inputs.lags.lags
        ]
        return np.array(stand).reshape(-1, self.learner.num_outputs)

    # Labels

    def waits(self, number: int) -> bool:
        """Return whether the label of a row may come."""
        row = self._rows.get(number) if number >= max(self._open, self.next_row - self.limit) else None
        return row is not None and row.y is None

    def check(self, number: int) -> None:
        """Raise ValueError if a row does not wait for its label: it never came, has one, or was given up."""
        if not 0 <= number < self.next_row:
            raise ValueError(
                f"token: expected that of one of the {self.next_row:,} rows that came, got {number}; give what "
                f"predict_later returned"
            )
        if self.next_row - number > self.limit:
            raise ValueError(
                f"token: expected that of one of the last {self.limit:,} rows, got row {number} of {self.next_row:,}"
                f"; a label that comes later is not learnt"
            )
        if not self.waits(number):
            raise ValueError(
                f"token: expected that of a row that waits, but row {number} has its label, or was given up with the "
                f"warm-up"
            )

    def learn(self, numbers: Sequence[int], y: np.ndarray) -> None:
        """Take in the labels (n, E) of rows that wait, in any order; of a NaN it is known that it will never come.

        They are learnt by the next prediction, or by `refresh`.

        Raises
        ------
        ValueError
            If a row does not wait; no label is taken in then.
        """
        for number in numbers:
            self.check(number)
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"token: expected each row once, got the rows {list(numbers)}")
        labelled = []
        for number, target in zip(numbers, self.learner.settings.target_map.learnt(y), strict=True):
            target = np.array(target, dtype=np.float64)
            is_missing = bool(np.isnan(target).any())
            self.never += is_missing
            predicted = self._rows[number].predicted
            self._rows[number] = replace(self._rows[number], y=target, predicted=StandIn(predicted.mean))
            if not is_missing:
                labelled.append(number)
                self.weights = learnt(self.weights, self.learner.state, predicted.made, target)
        if labelled:
            self.latest = max(self.latest, *labelled)
            self._states = [(end, state) for end, state in self._states if end <= min(labelled)]

    def refresh(self) -> None:
        """Learn what has come, each label in its row's place, and set the learner's state to what is known then.

        What ends this early, such as an interrupted fit, leaves the learner as it was, and the labels to be learnt.
        """
        if self._open == self.next_row:  # others may have taught the learner since
            return
        fit, self._enough = due_fit(self.learner.settings, self._rows, self._states[0], self.next_row, self._enough)
        now, given_up = self._open, 0
        while now < self.next_row:
            waits = self._rows[now].y is None
            if waits and self.next_row - now <= self.limit and now >= fit:
                break
            given_up += waits
            now += 1
        if self._states[-1][0] < now:
            self._keep(self._replayed(self._states[-1], now))
        if now - self._states[0][0] > self.limit:  # the rows kept are bounded
            self._states[0] = self._replayed(self._states[0], now)[-1]
        while len(self._states) > 1 and self._states[1][0] <= now:
            del self._states[0]
        self._rows = {number: row for number, row in self._rows.items() if number >= self._states[0][0]}
        # The fit at the end of the warm-up is made once, from rows of which none waits any more.
        self._keep(self._replayed(self._states[-1], self.latest + 1, warming_up=False))
        self.learner.state = self._states[-1][1]
        self._open, self.given_up = now, self.given_up + given_up

    def _keep(self, states: Sequence[Known]) -> None:
        self._states = thinned([*self._states, *states], self.next_row)

    def _replayed(self, begin: Known, end: int, *, warming_up: bool = True) -> list[Known]:
        return replayed(self.learner, self._rows, begin, end, warming_up=warming_up)

    # Checkpoints

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the learner, as plain values and arrays."""
        rows, known = list(self._rows.values()), self._states
        if self._open == self.next_row:  # others may have taught the learner since
            rows, known = [], [(self.next_row, self.learner.state)]
        (end, oldest), (until, last) = known[0], known[-1]
        width, outputs = self.learner.num_inputs, self.learner.num_outputs
        return {
            "limit": self.limit,
            "counts": [self.next_row, self.never, self.given_up, self._open, self.latest],
            "enough": self._enough,
            "weights": list(self.weights),
            **rows_to_tree(rows, width, outputs),
            "first": end,
            "oldest": None if oldest is self.learner.state else oldest.to_tree(self.learner.settings),
            "learnt_until": until if last is self.learner.state else None,
        }

    @classmethod
    def from_tree(cls, learner: StreamLearner, tree: dict[str, Any]) -> "LateLabels":
        """Return what `to_tree` gave `tree`, for the learner that was saved with it."""
        late = cls(learner, tree["limit"])
        late.next_row, late.never, late.given_up, late._open, late.latest = tree["counts"]
        late._enough = tree["enough"]
        late.weights = tuple(tree["weights"])
        first, oldest, until = tree["first"], tree["oldest"], tree["learnt_until"]
        late._states = [(first, learner.state if oldest is None else learner.from_tree(oldest).state)]
        if oldest is not None and until is not None:
            late._states.append((until, learner.state))
        late._rows = dict(enumerate(rows_from_tree(tree), first))
        return late

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the tree, as the learner does."""
        tree = encode(self.to_tree())
        return _put_together, (self.learner, *tree)


def _put_together(learner: StreamLearner, node: Any, arrays: dict[str, np.ndarray]) -> LateLabels:
    return LateLabels.from_tree(learner, decode(node, arrays, {}))
