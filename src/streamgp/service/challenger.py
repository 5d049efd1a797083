"""A challenger: a model with other options that gets the rows of a stream, and is scored beside the stream's own.

It is behind the stream by what waits in its queue, in the order of the log. So it may be asked at any time what it
knows, and a checkpoint holds the queue with the model: what it knows in the end is a function of the log alone.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from streamgp.evaluation.metrics.judgement import COVERAGE
from streamgp.evaluation.running_difference import RunningDifference
from streamgp.numerics.checkpoint import CheckpointError, register
from streamgp.service.answers import stacked
from streamgp.service.config import StreamConfig
from streamgp.service.kinds import kind_of
from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns
from streamgp.service.succession import waiting_rows

# The most rows that are learnt in one piece: for so long a checkpoint or a promotion may wait.
PIECE = 256


@register
class Came(NamedTuple):
    """Rows that are learnt, or, at a time, are predicted and wait for their labels."""

    rows: Rows
    at: float | None = None


@register
class Labelled(NamedTuple):
    """Labels of rows that wait."""

    ids: Sequence[str]
    y: Any


@register
class Scored(NamedTuple):
    """The log densities under the stream's own model, NaN before its fit, and how many rows came before a label."""

    rows: np.ndarray
    density: np.ndarray
    waited: int


register(Rows)


class Challenger:
    """A model beside that of a stream; one thread at a time has it learn.

    Parameters
    ----------
    name
        Its own, as that of a stream.
    config
        The stream, with its options.
    since
        The position of the log from which on it gets the rows.
    first
        The number of the first row that is compared: both models predicted it when it came.
    model
        None: it has failed.

    Attributes
    ----------
    failure
        Why it learns no longer; None while it does.
    difference
        Its log densities less those of the stream's own model.
    """

    def __init__(self, name: str, config: StreamConfig, since: int, first: int, model: Any) -> None:
        self.name = name
        self.config = config
        self.since = since
        self.first = first
        self.model: Any = model
        self.failure: str | None = None
        self.difference = RunningDifference()
        self._queue: deque[Any] = deque()
        # Rows that were put into the queue, and that were taken from it: each by one thread.
        self._came = self._done = 0
        self._is_at_work = False
        # Its log densities of rows by their numbers, in the order of their labels, until those of the other come.
        self._ours: dict[int, float] = {}

    @classmethod
    def begin(cls, name: str, config: StreamConfig, since: int, champion: Any) -> Self:
        """Return one that gets the rows that come from now on, and those that wait for their labels.

        Raises
        ------
        ValueError
            If there is no such model.
        """
        model = kind_of(config)(config, champion.sent)
        model.next_row = champion.next_row
        found = cls(name, config, since, champion.next_row, model)
        waiting = waiting_rows(champion)
        if waiting.ids:
            numbers = [champion.waiting[each].row for each in waiting.ids]
            model.predicted(waiting, 0.0, model.view().predict(waiting))
            # They keep the numbers that they have in the stream.
            model.waiting = {
                name: w._replace(row=row) for (name, w), row in zip(model.waiting.items(), numbers, strict=True)
            }
            model.next_row = champion.next_row
        return found

    # What comes

    @property
    def behind(self) -> int:
        """Count the rows that it has still to learn."""
        return self._came - self._done

    @property
    def has_work(self) -> bool:
        """Whether anything waits, or is being learnt."""
        return self._is_at_work or bool(self._queue)

    def take(self, item: Came | Labelled | Scored) -> None:
        """Put what came into the queue."""
        if self.model is None:
            return
        if not isinstance(item, Came) or len(item.rows.X) <= PIECE:
            self._put(item)
            return
        for start in range(0, len(item.rows.X), PIECE):
            self._put(item._replace(rows=item.rows.part(range(start, min(start + PIECE, len(item.rows.X))))))

    def _put(self, item: Came | Labelled | Scored) -> None:
        self._came += _size(item)
        self._queue.append(item)

    def fail(self, why: str) -> None:
        """Learn no longer."""
        self.failure, self.model = why, None
        self._queue.clear()
        self._done = self._came
        self._ours = {}

    def catch_up(self, most: int = 0) -> None:
        """Learn until no more than so many rows wait, and with 0 nothing."""
        while self.behind > most or (not most and self.has_work):
            self.work()

    def work(self) -> None:
        """Do the next piece of what waits; an error makes it fail, and nothing else."""
        self._is_at_work = True
        try:
            items = self._next()
            self._learn(items)
            self._done += sum(map(_size, items))
        except Exception as error:
            self.fail(f"what came could not be learnt ({type(error).__name__}: {error!s:.200})")
        finally:
            self._is_at_work = False

    def _next(self) -> list[Any]:
        """Take the next item from the queue, with those after it that are learnt as one with it."""
        items = [self._queue.popleft()]
        rows = _size(items[0])
        while _is_step(items[0]) and self._queue and _is_step(self._queue[0]):
            rows += _size(self._queue[0])
            if rows > PIECE:
                break
            items.append(self._queue.popleft())
        return items

    def _learn(self, items: list[Any]) -> None:
        model, item = self.model, items[0]
        if isinstance(item, Scored):
            self._note(model.score_singly())
            self._compare(item)
        elif isinstance(item, Labelled):
            self._note(model.score_singly())
            self._note(model.labelled(item.ids, item.y).scored)
        elif item.at is not None:
            self._note(model.score_singly())
            model.predicted(item.rows, item.at, model.view().predict(item.rows))
        else:
            rows = item.rows if len(items) == 1 else stacked([each.rows for each in items])
            if model.steps_singly(rows):
                model.stepped_singly(rows)
            else:
                self._note(model.score_singly())
                self._note(model.stepped(rows).scored)
        model.settle()

    def _note(self, scored: Sequence[Columns]) -> None:
        for columns in scored:
            density = log_densities(columns)
            self._ours |= dict(zip(np.asarray(columns["row"]).tolist(), density.tolist(), strict=True))

    def _compare(self, item: Scored) -> None:
        """Compare the scores of rows that both have scored: in the same order, so that what is left out is known."""
        numbers = [number for number in item.rows.tolist() if number in self._ours]
        if not numbers:
            return
        ours = np.array([self._ours[number] for number in numbers])
        theirs = item.density[np.isin(item.rows, numbers)]
        for number in list(self._ours):
            del self._ours[number]
            if number == numbers[-1]:
                break
        both = (np.array(numbers) >= self.first) & ~(np.isnan(ours) | np.isnan(theirs))
        self.difference = self.difference.add(ours[both], theirs[both], item.waited)

    # What is shown

    @property
    def is_warmed_up(self) -> bool:
        """Whether its fitted model is at work."""
        return self.model is not None and self.model.is_warmed_up

    @property
    def begun(self) -> dict[str, Any]:
        """What it is, and since when, as at its beginning."""
        return {"name": self.name, "options": self.config.changeable, "position": self.since}

    def describe(self) -> dict[str, Any]:
        """Return what it is and how it stands beside the stream's own model."""
        found, model = self.difference, self.model
        low, high = found.interval() or (None, None)
        return {
            "name": self.name,
            "options": self.config.changeable,
            "since": self.since,
            "state": "failed" if self.failure else "ready" if self.is_warmed_up else "warming up",
            "failure": self.failure,
            "behind": self.behind,
            "scored_rows": found.rows,
            "difference": found.mean,
            "low": low,
            "high": high,
            "coverage": COVERAGE,
            "verdict": found.verdict,
            "text": _sentence(found, low, high),
            "scores": None if model is None else model.scores(),
        }

    # Keeping

    def save(self, directory: Path) -> None:
        """Write the model, after `to_tree`."""
        if self.model is not None:
            self.model.save(directory / self.name, {})

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        if self.model is not None:
            self._note(self.model.score_singly())
        return {
            "name": self.name,
            "options": self.config.changeable,
            "since": self.since,
            "first": self.first,
            "failure": self.failure,
            "difference": self.difference,
            "queue": list(self._queue),
            "numbers": np.fromiter(self._ours, np.int64, len(self._ours)),
            "ours": np.fromiter(self._ours.values(), float, len(self._ours)),
        }

    @classmethod
    def load(cls, directory: Path, sent: StreamConfig, tree: dict[str, Any]) -> Self:
        """Return what `save` and `to_tree` have kept; a model that cannot be read has failed."""
        found = cls(tree["name"], sent.with_model(tree["options"]), tree["since"], tree["first"], None)
        found.difference, found.failure = tree["difference"], tree["failure"]
        if found.failure is not None:
            return found
        try:
            found.model, _ = kind_of(sent).load(directory / found.name, sent)
        except (CheckpointError, OSError) as error:
            found.fail(f"its checkpoint cannot be read ({error})")
            return found
        found._queue.extend(tree["queue"])
        found._came = sum(map(_size, tree["queue"]))
        found._ours = dict(zip(tree["numbers"].tolist(), tree["ours"].tolist(), strict=True))
        return found


def log_densities(columns: Columns) -> np.ndarray:
    """Return the log densities of scored rows, NaN of those of a warm-up."""
    return np.where(columns["warmup"], np.nan, np.asarray(columns["log_density"], dtype=float))


def _size(item: Any) -> int:
    return len(item.rows.X) if isinstance(item, Came) else len(item.ids) if isinstance(item, Labelled) else 0


def _is_step(item: Any) -> bool:
    return isinstance(item, Came) and item.at is None


def _sentence(found: RunningDifference, low: float | None, high: float | None) -> str:
    """Return how a challenger stands beside the stream's own model."""
    if found.mean is None or low is None or high is None:
        return "Undecided: no row was scored by both after their warm-ups."
    what = f"the log density of a row is {found.mean:+.3f} nats beside the stream's own ({low:+.3f} to {high:+.3f})"
    return f"{found.verdict.capitalize()}: {what}, on average over {found.rows:,} rows."
