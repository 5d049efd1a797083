"""Labels on their way: of rows that came, known from some moment on, and handed over when it is worth the work."""

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner

WORK = 16  # rows learnt anew at most, for each row that comes


class Arrivals:
    """The labels of a stream on their way to those of its rows that wait.

    A label is handed over as soon as it arrives if it is of a later row than all that were. Others, for whose sake
    rows are learnt anew, are held back until that is work of `WORK` rows for each that came since the last time: a
    label of 100 rows ago for 6 rows, say.

    Parameters
    ----------
    late
        The rows that wait.
    delay
        How many rows late every label comes, or the name of the column that says when each one does.
    """

    def __init__(self, late: LateLabels, delay: int | str) -> None:
        self.late = late
        self.delay = delay
        self.never = 0  # labels that are missing, or never arrive
        self.too_late = 0  # labels that arrived when their row had been given up
        self._coming: list[tuple[float, int, tuple[float, ...]]] = []
        self._held: dict[int, tuple[float, ...]] = {}
        self._since = 0  # the number of rows when labels that were held were handed over last

    def clock(
        self, numbers: Int[np.ndarray, " n"], times: Float[np.ndarray, " n"] | None, arrives: np.ndarray | None
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return when rows of these numbers and times come, and when their labels do, on the same clock.

        Labels that come so many rows late go by the numbers, and others by the times, where there are some;
        `arrives` says when these come.
        """
        counted = numbers.astype(np.float64)
        if isinstance(self.delay, int):
            return counted, counted + self.delay + 1
        assert arrives is not None
        return (counted if times is None else times), arrives

    def send(self, numbers: range, when: Float[np.ndarray, " n"], y: Float[np.ndarray, "n e"]) -> None:
        """Send the labels of rows that came, which arrive `when` the clock has got so far; NaN: never."""
        for number, time, label in zip(numbers, when.tolist(), y.tolist(), strict=True):
            self.never += bool(np.isnan(time) or np.isnan(label).any())
            if not np.isnan(time):
                heappush(self._coming, (time, number, tuple(label)))

    def result(self) -> dict[str, Any]:
        """Return how late labels come, how many never arrive, are too late or on their way, and what is too late."""
        self._drop()
        on_the_way = len(self._coming) + len(self._held)
        counts = {"never": self.never, "too_late": self.too_late, "on_the_way": on_the_way}
        return {"delay": self.delay} | counts | {"limit": self.late.limit}

    def _drop(self) -> None:
        """Drop the labels that nothing is learnt from any more."""
        kept = [each for each in self._coming if self.late.waits(each[1])]
        self.too_late += len(self._coming) - len(kept)
        self._coming = kept
        heapify(kept)

    def deliver(self, now: float) -> None:
        """Hand over what has arrived by now and is not held back."""
        if len(self._coming) > 2 * self.late.limit:
            self._drop()
        while self._coming and self._coming[0][0] <= now:
            _, number, label = heappop(self._coming)
            if not self.late.waits(number):
                self.too_late += 1
            elif number > self.late.latest or np.isnan(label).any():
                self.late.learn([number], np.array([label]))
            else:
                self._held[number] = label
        if self._held and self._holds_for() <= 0:
            self._hand_over()

    def deliver_all(self) -> None:
        """Hand over what is still on its way, and let it be learnt."""
        self.deliver(np.inf)
        self._hand_over()
        self.late.refresh()

    def _hand_over(self) -> None:
        in_time = {number: label for number, label in self._held.items() if self.late.waits(number)}
        self.too_late += len(self._held) - len(in_time)
        self.late.learn(list(in_time), np.array([*in_time.values()]))
        self._held, self._since = {}, self.late.next_row

    def _holds_for(self) -> int:
        """Return for how many rows more labels are held back."""
        first, came = min(self._held), self.late.next_row
        worth = self._since - (first - self.late.latest) // WORK  # from this row on it is worth the work
        return min(worth, first + self.late.limit) - came

    def quiet(self, now: Float[np.ndarray, " n"], when: Float[np.ndarray, " n"]) -> int:
        """Return before how many of the next rows nothing is handed over, once it was before the first of them.

        Parameters
        ----------
        now
            The clock at each of these rows.
        when
            When their own labels arrive.
        """
        coming = self._coming[0][0] if self._coming else np.inf
        earliest = np.fmin.accumulate(np.concatenate([[coming], when]))[1:-1]
        due = np.flatnonzero(earliest <= now[1:])
        n = 1 + int(due[0]) if len(due) else len(now)
        return min(n, max(self._holds_for(), 1)) if self._held else n

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the learner."""
        self._drop()
        coming = sorted(self._coming)
        outputs = self.late.learner.num_outputs
        return {
            "late": self.late.to_tree(),
            "delay": self.delay,
            "never": self.never,
            "too_late": self.too_late,
            "since": self._since,
            "when": np.array([when for when, _, _ in coming]),
            "coming": np.array([number for _, number, _ in coming], dtype=np.int64),
            "labels": np.array([label for _, _, label in coming]).reshape(-1, outputs),
            "held": np.array(list(self._held), dtype=np.int64),
            "held_labels": np.array([*self._held.values()]).reshape(-1, outputs),
        }

    @classmethod
    def from_tree(cls, learner: StreamLearner, tree: dict[str, Any]) -> "Arrivals":
        """Return what `to_tree` gave `tree`, for the learner that was saved with it."""
        arrivals = cls(LateLabels.from_tree(learner, tree["late"]), tree["delay"])
        arrivals.never, arrivals.too_late, arrivals._since = tree["never"], tree["too_late"], tree["since"]
        labels = map(tuple, tree["labels"].tolist())
        arrivals._coming = list(zip(tree["when"].tolist(), tree["coming"].tolist(), labels, strict=True))
        heapify(arrivals._coming)
        arrivals._held = dict(zip(tree["held"].tolist(), map(tuple, tree["held_labels"].tolist()), strict=True))
        return arrivals
