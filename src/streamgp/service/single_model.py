"""A stream of one model: its answers, and the effect of each accepted entry."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np

from streamgp.estimators import (
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPOrdinal,
    StreamingGPRegressor,
)
from streamgp.estimators.forecasts import usual_step
from streamgp.estimators.live import HeldPrediction, LiveModel
from streamgp.evaluation import ScoredRows
from streamgp.evaluation.description import expert_table
from streamgp.likelihoods import MappedPredictive
from streamgp.numerics import tree
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint import reading, register
from streamgp.numerics.threads import one_blas_thread
from streamgp.service.config import StreamConfig
from streamgp.service.inputs import input_names
from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns, columns_ahead, columns_of, joined, judged_columns
from streamgp.service.scores import NaiveScore, overall
from streamgp.service.work import Applied, Prediction, Waiting, shared_predictions
from streamgp.stream.outlook import Outlook, StandIn
from streamgp.table.calendar import calendar_columns

for _class in (HeldPrediction, MappedPredictive):
    register(_class)

# Up to so many rows are learnt one by one, not as a block.
MAX_SINGLE_ROWS = 16

_ESTIMATORS: dict[str, Any] = {
    "regression": StreamingGPRegressor,
    "classification": StreamingGPClassifier,
    "count": StreamingGPCountRegressor,
    "ordinal": StreamingGPOrdinal,
}


@dataclass(frozen=True)
class SingleView:
    """What is known at a position of the log: any thread may predict from it."""

    config: StreamConfig
    sent: StreamConfig
    outlook: Outlook
    labels: tuple[Any, ...]
    score: Any

    def inputs(self, rows: Rows) -> Rows:
        """Return rows that were sent with the inputs of the model."""
        return with_cycles(rows, self.sent, self.config)

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows, which follow each other."""
        rows = self.inputs(rows)
        parts, standing, outlook, at = [], [], self.outlook, 0
        times = rows.times if self.config.timed else None
        with one_blas_thread():
            while at < len(rows.X):
                info, new = outlook.leading(rows.X[at:], None if times is None else times[at:])
                parts.append(tree.map(np.asarray, info.predictive))
                outlook = outlook.after(new)
                standing += new
                at += len(new)
            predictive = concatenate(parts)
            columns = columns_ahead(predictive, self.score, self.labels)
        in_time = np.zeros(at, bool)
        in_time[0] = not len(self.outlook.unlearnt)
        held = HeldPrediction(predictive, self.outlook.learner.is_warmed_up, in_time)
        return Prediction(held, standing, columns)

    def after(self, standing: Sequence[StandIn]) -> "SingleView":
        """Return what is known after rows that wait."""
        return replace(self, outlook=self.outlook.after(standing))


class SingleModel:
    """The model of a stream; one thread applies entries, in their order.

    Parameters
    ----------
    config
        The stream.
    sent
        The stream whose rows it gets; another than its own where that had another model when it was made.
    live
        The model, if it has been at work.
    """

    def __init__(self, config: StreamConfig, sent: StreamConfig, live: LiveModel | None = None) -> None:
        self.config = config
        self.sent = sent
        self.live = self._begin() if live is None else live
        self.next_row = 0
        self.waiting: dict[str, Waiting] = {}
        self.naive = NaiveScore()
        # The rows that came one by one and are not scored yet.
        self._unscored: list[tuple[Any, np.ndarray, np.ndarray, bool, int, str | None, float]] = []

    def _begin(self) -> LiveModel:
        c = self.config
        model = _ESTIMATORS[c.task](c.model, warmup=c.warmup, random_state=c.seed, **c.options)
        names = {"classification": "classes", "ordinal": "grades"}
        more = {names[c.task]: list(c.classes)} if c.task in names else {}
        return LiveModel.begin(model, c.inputs, c.timed, c.classes, c.open_levels, **more)

    # What is known

    def view(self) -> SingleView:
        """Return what is known now."""
        score = self.live.session.metrics.score
        return SingleView(self.config, self.sent, self.live.outlook(), self.live.labels, score)

    @property
    def rows(self) -> int:
        """Rows learnt."""
        return self.live.session.learner.rows

    @property
    def is_warmed_up(self) -> bool:
        """Whether the fitted model is at work."""
        return self.live.session.learner.is_warmed_up

    @property
    def last_time(self) -> float | None:
        """The time of the last row that came, of a timed stream."""
        return self.live.late.last_time

    @property
    def usual_step(self) -> float | None:
        """How far apart the rows of a timed stream usually are, once that is known."""
        return usual_step(self.live.session.learner)

    def scores(self) -> dict[str, Any]:
        """Return the scores over all rows after the warm-up."""
        return overall(self.live.session.results())

    def experts(self) -> list[dict[str, Any]]:
        """Return the experts with their weights."""
        return expert_table(self.live.session.learner)

    @property
    def alarms(self) -> list[Any]:
        """The latest alarms."""
        alarms = self.live.session.alarms
        return [] if alarms is None else list(alarms.found)

    @property
    def alarm_count(self) -> int:
        """Count all alarms so far."""
        alarms = self.live.session.alarms
        return 0 if alarms is None else alarms.count

    # What comes

    def predicted(self, rows: Rows, at: float, prediction: Prediction) -> None:
        """Take in rows that were predicted by a view, and wait for their labels from now on."""
        rows = with_cycles(rows, self.sent, self.config)
        numbers = self.live.append(rows.X, rows.times if self.config.timed else None, prediction.standing)
        for i, (number, name) in enumerate(zip(numbers, rows.ids, strict=True)):
            assert name is not None
            row = self.next_row + i
            self.waiting[name] = Waiting(
                number, row, None, float(rows.times[i]), at, prediction.held, i, prediction.columns
            )
        self.next_row += len(numbers)

    def labelled(self, ids: Sequence[str], y: Any) -> Applied:
        """Learn labels of rows that wait; those of others come too late."""
        late = [name for name in ids if not self.waits(name)]
        gone = set(late)
        found = [
            (name, self.waiting.pop(name), label) for name, label in zip(ids, y, strict=True) if name not in gone
        ]
        if not found:
            return Applied(0, late)
        targets = self.live.encode([label for *_, label in found])
        scored = []
        for group in _alike([(name, w, y) for (name, w, _), y in zip(found, targets, strict=True) if np.isfinite(y)]):
            rows = np.array([w.row for _, w, _ in group])
            held = [(w.held, w.place) for _, w, _ in group]
            times = np.array([w.time for _, w, _ in group])
            known = times if self.config.timed else None
            part = self.live.score_late(held, np.array([y for *_, y in group]), rows, known)
            columns = {"row": rows, "id": [name for name, *_ in group], "key": [None] * len(group)}
            scored.append(columns | {"time": times} | self._judged(part))
        self.live.learn_late([w.number for _, w, _ in found], targets)
        return Applied(int(np.isfinite(targets).sum()), late, scored)

    def waits(self, name: str) -> bool:
        """Return whether the label of a row may come."""
        return name in self.waiting and self.live.late.waits(self.waiting[name].number)

    def stepped(self, rows: Rows) -> Applied:
        """Predict, score and learn rows that come with their labels."""
        rows = with_cycles(rows, self.sent, self.config)
        y = self.live.encode(rows.y)
        times = rows.times if self.config.timed else None
        scored, shown, at = [], [], 0
        for part in self.live.step(rows.X, y, times, self.next_row):
            n = len(part.scores.y)
            where = slice(at, at + n)
            shown.append(columns_of(part.scores, self.live.labels))
            if np.isfinite(y[where, 0]).all():
                columns = {
                    "row": self.next_row + np.arange(at, at + n),
                    "id": rows.ids[where],
                    "key": [None] * n,
                    "time": rows.times[where],
                }
                scored.append(columns | self._judged(part))
            at += n
        self.next_row += at
        return Applied(int(np.isfinite(y).sum()), [], scored, joined(shown))

    def steps_singly(self, rows: Rows) -> bool:
        """Return whether so few rows may be given to `stepped_singly`."""
        if len(rows.X) > MAX_SINGLE_ROWS or not self.config.can_forecast:
            return False
        return all(self.live.steps_singly(x, np.array([y])) for x, y in zip(rows.X, rows.y, strict=True))

    def stepped_singly(self, rows: Rows) -> Applied:
        """Predict and learn rows one by one; `score_singly` scores them later, many at a time."""
        rows = with_cycles(rows, self.sent, self.config)
        predictives = []
        with one_blas_thread():
            for x, y, time, name in zip(rows.X, rows.y, rows.times, rows.ids, strict=True):
                target = np.array([y])
                stamp = float(time) if self.config.timed else np.nan
                predictive, flagged = self.live.session.learner.step_one(x, target, stamp)
                self._unscored.append((predictive, x, target, flagged, self.next_row, name, float(time)))
                predictives.append(predictive)
                self.next_row += 1
        shown = columns_ahead(concatenate(predictives), self.live.session.metrics.score, ())
        return Applied(len(predictives), [], [], shown)

    @property
    def unscored(self) -> int:
        """Count the rows that are still to be scored."""
        return len(self._unscored)

    def score_singly(self) -> list[Columns]:
        """Score the rows that came singly."""
        if not self._unscored:
            return []
        predictives, X, y, flagged, rows, ids, times = zip(*self._unscored, strict=True)
        self._unscored = []
        came = np.array(times)
        known = came if self.config.timed else None
        whole = concatenate(list(predictives))
        part = self.live.score(whole, np.array(X), np.array(y), np.array(flagged), rows[0], known)
        columns = {"row": np.array(rows), "id": list(ids), "key": [None] * len(ids), "time": came}
        return [columns | self._judged(part)]

    def settle(self) -> None:
        """Learn labels that have come, and let go of rows whose labels are waited for no longer."""
        if self.is_warmed_up:
            self.live.refresh()
        if self.live.late.waiting < len(self.waiting):
            for name in [name for name in self.waiting if not self.waits(name)]:
                del self.waiting[name]

    def _judged(self, part: ScoredRows) -> Columns:
        n = len(part.scores.y)
        columns = columns_of(part.scores, self.live.labels) | judged_columns(part.scores, self.live.labels)
        if self.config.has_numbers:
            columns |= {"log_density_baseline": self.naive.add(columns["y"])}
            columns |= {"persistence": _column(part.persistence), "running_mean": _column(part.running_mean)}
        flagged = np.zeros(n, bool) if part.flagged is None else part.flagged
        return columns | {"warmup": np.full(n, not part.by_experts), "flagged": flagged}

    # Keeping

    def save(self, path: Path, more: dict[str, Any]) -> None:
        """Write a checkpoint that the estimator's `load` reads as well."""
        held, which = shared_predictions(self.waiting.values())
        tree = {
            "config": self.config.document(),
            "next_row": self.next_row,
            "metrics": self.live.session.metrics.to_tree(),
            "naive": self.naive.to_tree(),
            "held": held,
            "waiting": {
                name: [w.number, w.row, w.time, w.at, i, w.place]
                for (name, w), i in zip(self.waiting.items(), which, strict=True)
            },
        }
        self.live.model.save_with(path, {"service": tree | more})

    @classmethod
    def load(cls, path: Path, sent: StreamConfig) -> tuple[Self, dict[str, Any]]:
        """Read a checkpoint of what got the rows of a stream; return also what `save` was given as `more`."""
        model, whole = _ESTIMATORS[sent.task].load_with(path)
        with reading(path):
            tree = whole["service"]
            single = cls(StreamConfig.from_document(tree["config"]), sent, LiveModel(model, tree["metrics"]))
            single.next_row = tree["next_row"]
            single.naive.restore(tree["naive"])
            for name, (number, row, time, at, which, place) in tree["waiting"].items():
                held, columns = tree["held"][which]
                single.waiting[name] = Waiting(number, row, None, time, at, held, place, columns)
            return single, tree


def with_cycles(rows: Rows, theirs: StreamConfig, own: StreamConfig) -> Rows:
    """Return rows that have some cycles of the time with others, where these are others."""
    if theirs.input_cycles == own.input_cycles:
        return rows
    columns = len(input_names(own.features, own.categories, ()))
    return rows._replace(X=np.hstack([rows.X[:, :columns], calendar_columns(rows.times, own.input_cycles)]))


def _column(a: Any) -> np.ndarray:
    return np.asarray(a, dtype=float).reshape(len(a), -1)[:, 0]


def _alike(rows: Sequence[tuple[str, Waiting, np.ndarray]]) -> Iterator[list[tuple[str, Waiting, np.ndarray]]]:
    """Yield runs of rows whose predictions have the same parts."""
    for _, run in groupby(rows, key=lambda row: (row[1].held.by_experts, tree.form_of_rows(row[1].held.predictive))):
        yield list(run)
