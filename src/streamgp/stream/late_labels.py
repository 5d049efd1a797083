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

from streamgp.likelihoods import AnyPredictive
from streamgp.models.contract import Info
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream.late_weights import LateWeights, learnt
from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import (
    Outlook,
    StandIn,
    WaitingRow,
    as_raw,
    check_horizon,
    rows_from_tree,
    rows_to_tree,
)
from streamgp.stream.replay import BLOCK, Known, due_fit, thinned, to_learn

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
        # The learner knows all labels that have come of the rows before this one, unless it is to return first, as a
        # label of one of them came that it does not know.
        self._learnt = 0
        self._is_to_return = False
        # The same for some rows before that one, in ascending order. Of the first of all none waits for a label.
        self._states: list[Known] = []

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
            info, standing = self._outlook_of(self.learner).leading(X[at:], None if times is None else times[at:])
            rows = slice(at, at + len(standing))
            yield self._append(X[rows], None if times is None else times[rows], standing), info
            at = rows.stop

    def outlook(self) -> Outlook:
        """Return what is known of the next row, as of the last `refresh`; it stays as it is."""
        return self._outlook_of(self._copied())

    def _outlook_of(self, learner: StreamLearner) -> Outlook:
        return Outlook(learner, self._unlearnt(), self.weights)

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
        return self._outlook_of(self.learner).each(X, times)

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
            self._rows, self._states, self._learnt, self._is_to_return = {}, [], self.next_row, False
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
        if self._open == self.next_row:  # others may have taught the learner since
            return np.empty((0, self.learner.num_outputs))
        has_lags = bool(self.learner.latest_fit.inputs.lags)
        after = (self._rows[number] for number in range(self._learnt, self.next_row))
        as_lags = self.learner.settings.task.as_lags
        stand = [
            row.predicted.mean if row.y is None or not row.is_labelled else as_lags(row.y[None], row.x[None])[0]
            for row in after
            if row.y is None or has_lags or row.is_labelled
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
                self.weights = learnt(self.weights, self.learner.latest_fit, predicted.made, target)
        if labelled:
            first, self.latest = min(labelled), max(self.latest, *labelled)
            self._is_to_return |= self._learnt > first
            self._states = [(end, state) for end, state in self._states if end <= first]

    def refresh(self) -> None:
        """Learn what has come, each label in its row's place, and set the learner's state to what is known then.

        What ends this early, such as an interrupted fit, leaves what was not learnt yet to be learnt.
        """
        if self._open == self.next_row:  # others may have taught the learner since
            return
        if self._is_to_return:
            (self._learnt, self.learner.state), self._is_to_return = self._states.pop(), False
        at, known = self._states[0] if self._states else (self._learnt, self.learner)
        fit, self._enough = due_fit(self.learner.settings, self._rows, at, known, self.next_row, self._enough)
        now, given_up = self._open, 0
        while now < self.next_row:
            waits = self._rows[now].y is None
            if waits and self.next_row - now <= self.limit and now >= fit:
                break
            given_up += waits
            now += 1
        if self._learnt < now:  # rows of the warm-up that are given up may still get a label if its fit ends early
            self._learn_until(now, keeps=not self.learner.is_warmed_up)
        if self._states and now - self._states[0][0] > self.limit:  # the rows kept are bounded
            self._states[0] = self._known_later(self._states[0], now)
        while self._states and (self._states[1][0] if len(self._states) > 1 else self._learnt) <= now:
            del self._states[0]
        oldest = self._states[0][0] if self._states else self._learnt
        self._rows = {number: row for number, row in self._rows.items() if number >= oldest}
        # The fit at the end of the warm-up is made once, from rows of which none waits any more.
        self._learn_until(self.latest + 1, keeps=True, warming_up=False)
        self._open, self.given_up = now, self.given_up + given_up

    def _learn_until(self, end: int, *, keeps: bool, warming_up: bool = True) -> None:
        """Learn the rows up to `end`; unless `warming_up`, before the warm-up's last.

        If it `keeps` states, there is one to go back to from each block of rows.
        """
        learner = self.learner
        new = to_learn(learner.settings, self._rows, self._learnt, end)
        while new:
            is_free = warming_up or learner.is_warmed_up
            part = new[: BLOCK if is_free else min(BLOCK, learner.warmup - 1 - learner.rows)]
            if not part:
                return
            if keeps:
                self._states = thinned([*self._states, (self._learnt, learner.state)], self.next_row)
            before, block = learner.rows, as_raw([self._rows[each] for each in part], learner.timed)
            try:
                n = len(learner.learn_leading(block, predicts=False).outside)
            except BaseException:
                if learner.rows > before:  # by a single row, after which new experts were being fitted
                    self._learnt = part[0] + 1
                raise
            self._learnt, new = part[n - 1] + 1, new[n:]
        self._learnt = max(self._learnt, end)

    def _known_later(self, known: Known, end: int) -> Known:
        """Return what is known after the rows up to `end`, of what was known before some of them."""
        fork = self.fork()
        fork._learnt, fork.learner.state = known
        fork._learn_until(end, keeps=False)
        return end, fork.learner.state

    # Checkpoints

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the learner, as plain values and arrays."""
        rows, states, learnt = list(self._rows.values()), self._states, self._learnt
        if self._open == self.next_row:  # others may have taught the learner since
            rows, states, learnt = [], [], self.next_row
        end, oldest = states[0] if states else (learnt, None)
        width, outputs = self.learner.num_inputs, self.learner.num_outputs
        return {
            "limit": self.limit,
            "counts": [self.next_row, self.never, self.given_up, self._open, self.latest],
            "enough": self._enough,
            "weights": list(self.weights),
            **rows_to_tree(rows, width, outputs),
            "first": end,
            "oldest": None if oldest is None else oldest.to_tree(self.learner.settings),
            "learnt_until": None if self._is_to_return else learnt,
        }

    @classmethod
    def from_tree(cls, learner: StreamLearner, tree: dict[str, Any]) -> "LateLabels":
        """Return what `to_tree` gave `tree`, for the learner that was saved with it."""
        late = cls(learner, tree["limit"])
        late.next_row, late.never, late.given_up, late._open, late.latest = tree["counts"]
        late._enough = tree["enough"]
        late.weights = tuple(tree["weights"])
        first, oldest, until = tree["first"], tree["oldest"], tree["learnt_until"]
        late._states = [] if oldest is None else [(first, learner.from_tree(oldest).state)]
        late._learnt, late._is_to_return = (late.next_row, True) if until is None else (until, False)
        late._rows = dict(enumerate(rows_from_tree(tree), first))
        return late

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the tree, as the learner does."""
        tree = encode(self.to_tree())
        return _put_together, (self.learner, *tree)


def inputs_of(late: LateLabels, numbers: Sequence[int]) -> np.ndarray:
    """Return the inputs (n, D) of rows that wait for their labels."""
    return np.array([late._rows[number].x for number in numbers]).reshape(len(numbers), late.learner.num_inputs)


def _put_together(learner: StreamLearner, node: Any, arrays: dict[str, np.ndarray]) -> LateLabels:
    return LateLabels.from_tree(learner, decode(node, arrays, {}))
