"""The state that a stream has learnt from its log: the model, its scores, the rows that wait, and counts."""

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.service import scores
from streamgp.service.answers import as_iso, predicted_columns, stacked, step_answer, waiting_row, with_repeated
from streamgp.service.challengers import Challengers
from streamgp.service.checkpoints import Return
from streamgp.service.config import CHANGEABLE, StreamConfig
from streamgp.service.fields import MODEL_OPTIONS
from streamgp.service.history import History, take
from streamgp.service.kinds import kind_of
from streamgp.service.predictions import as_rows, flat_rows
from streamgp.service.problems import Problem
from streamgp.service.requests import AGAIN, CHALLENGER, EPOCH, Request
from streamgp.service.single_model import SingleModel
from streamgp.service.staleness import ROWS, stale_after
from streamgp.service.unlearnt import LATE, SKIPPED, Unlearnt
from streamgp.service.work import Applied

# So many times at which rows came are remembered.
MOMENTS = 500
# Rows that came one by one are scored in groups of so many.
SETTLE_ROWS = 64
# The most rows of steps that are learnt in one batch.
GROUP_ROWS = 4_096

# A checkpoint's stream must be the same in these.
_OF_MODEL = ("features", "categories", "calendar", "holidays", "key", "task", "classes", "timed", *MODEL_OPTIONS)

Notify = Callable[[str, dict[str, Any]], None]


class Knowledge:
    """All that a stream knows at a position of its log; a function of the entries up to there, and of nothing else.

    Parameters
    ----------
    config
        The stream.
    directory
        Of its history.
    notify
        Called with the name of an event and what it says.
    checkpoint
        To go on from; None: from the beginning.
    """

    def __init__(
        self,
        config: StreamConfig,
        directory: Path,
        notify: Notify,
        checkpoint: tuple[Any, dict[str, Any]] | None = None,
    ) -> None:
        self.config = config
        self._notify = notify
        self.history = History(directory, config.history_rows)
        self.position = 0
        # The link of the log's chain at this position.
        self.chain = b""
        # The number of rows whose label was learnt.
        self.learned = 0
        # How often a standby had become the leader by then.
        self.epoch = 0
        self.last_at: float | None = None
        self._acknowledged: set[int] = set()
        self._alarm_times: dict[int, float] = {}
        # The times at which the rows came that are still to be scored.
        self._single_ats: list[float] = []
        # The returns to earlier checkpoints.
        self.returns: list[Return] = []
        self._unlearnt = Unlearnt()
        # The times at which rows came, a second apart or more.
        self._moments: deque[float] = deque(maxlen=MOMENTS)
        # The number of rows of the history, and the limit computed from them.
        self._stale: tuple[int, float | None] = (-1, None)
        if checkpoint is None:
            self.model: Any = kind_of(config)(config, config)
            self.challengers = Challengers(config)
            return
        self.model, tree = checkpoint
        self.challengers = tree["challengers"]
        self.history.restore(tree["history"])
        self.position, self.learned, self.last_at = tree["position"], tree["learned"], tree["last_at"]
        self.chain = bytes.fromhex(tree["chain"])
        self.epoch = tree.get("epoch", 0)
        self._acknowledged = set(tree["acknowledged"])
        self._alarm_times = {int(number): at for number, at in tree["alarm_times"]}
        self.returns = [Return(*each) for each in tree["returns"]]
        self._unlearnt.restore(tree["unlearnt"])

    def begin_anew(self, back: Return, chain: bytes, history: History | None = None) -> None:
        """Go on from here at a later position, whose `history` has rows that no longer count."""
        self.position, self.chain = back.position, chain
        self.returns.append(back)
        self.history.begin_anew(back.position, history)

    @staticmethod
    def read(config: StreamConfig, path: Path) -> tuple[Any, dict[str, Any]]:
        """Read a checkpoint, as `__init__` takes it.

        Raises
        ------
        CheckpointError
            If it is damaged, or of a stream with other inputs or targets.
        """
        model, tree = kind_of(config).load(path, config)
        before, now = tree["config"], config.document()
        may_differ = CHANGEABLE if tree["challengers"]["promotion"] is not None else ()
        other = [name for name in _OF_MODEL if before.get(name) != now.get(name) and name not in may_differ]
        if other:
            raise CheckpointError(
                f"{path}: expected a checkpoint of {config.name}, got one of a stream with other {', '.join(other)}; "
                f"use a copy of its own directory"
            )
        return model, tree | {"challengers": Challengers.load(path, config, tree["challengers"])}

    def about(self, at: float) -> dict[str, Any]:
        """Return what is noted beside a checkpoint, with its time."""
        return {"at": at, "rows": self.model.next_row, "learned": self.learned, "chain": self.chain.hex()}

    def save(self, path: Path, written_at: float) -> None:
        """Write a checkpoint."""
        self.score_singly()
        tree = {
            "position": self.position,
            "chain": self.chain.hex(),
            "written_at": written_at,
            "last_at": self.last_at,
            "learned": self.learned,
            "epoch": self.epoch,
            "history": self.history.to_tree(),
            "acknowledged": sorted(self._acknowledged),
            "alarm_times": [list(each) for each in self._alarm_times.items()],
            "returns": [list(each) for each in self.returns],
            "unlearnt": self._unlearnt.to_tree(),
            "challengers": self.challengers.to_tree(),
        }
        self.model.save(path, tree)
        self.challengers.save(path)

    # What comes

    def apply(self, requests: list[Request]) -> list[Any]:
        """Change the model as the requests ask, one after the other; return the answers."""
        answers: list[Any] = []
        steps: list[Request] = []
        rows = 0
        for request in requests:
            joins = request.kind in ("step", "learn") and request.labels is None and request.rows is not None
            if steps and (not joins or rows + request.size > GROUP_ROWS):
                answers += self._step_together(steps)
                steps, rows = [], 0
            if joins:
                steps.append(request)
                rows += request.size
            else:
                answers.append(self._apply_one(request))
        answers += self._step_together(steps) if steps else []
        self.chain = requests[-1].chain
        return answers

    def _step_together(self, requests: list[Request]) -> list[Any]:
        """Learn the rows of several requests as one: the numbers are the same, and it is faster."""
        each = [request.rows for request in requests if request.rows is not None]
        rows = each[0] if len(each) == 1 else stacked(each)
        ats = np.repeat([request.at for request in requests], [len(one.X) for one in each])
        if self.model.steps_singly(rows):
            applied = self.model.stepped_singly(rows)
            self.challengers.take(rows)
            self._single_ats += ats.tolist()
            self.position = requests[-1].position
            if self.model.unscored >= SETTLE_ROWS:
                self.score_singly()
        else:
            self.score_singly()
            applied = self.model.stepped(rows)
            self.challengers.take(rows)
            first = self.model.next_row - len(rows.X)
            at_row = partial(_at_rows, ats, first)
            self._note(applied, at_row, requests[-1].position, requests[-1].at)
        self.learned += applied.learned
        self._unlearnt.add((rows.ids[i] for i in applied.skipped), SKIPPED)
        answers, at = [], 0
        for request, one in zip(requests, each, strict=True):
            where = slice(at, at + len(one.X))
            at = where.stop
            resent = self._unlearnt.sort(request.repeated)
            answers.append(step_answer(request, one, applied, where, self.labels, resent))
        return answers

    def _apply_one(self, request: Request) -> Any:
        model, position = self.model, request.position
        if request.kind == AGAIN:
            return self._again(request)
        self.position = max(self.position, position)
        if request.kind == "acknowledge":
            # The stream has returned to a time before the alarm.
            if request.number >= model.alarm_count:
                return Problem(404, f"alarms: expected a number below {model.alarm_count}, got {request.number}")
            self._acknowledged.add(request.number)
            return {"acknowledged": True, "position": position}
        if request.kind == EPOCH:
            self.epoch = request.number
            return {"epoch": self.epoch, "position": position}
        if request.kind == CHALLENGER:
            self.score_singly()
            answer, self.model = self.challengers.apply(request, model)
            return answer
        if request.kind == "predict":
            assert request.rows is not None and request.prediction is not None
            model.predicted(request.rows, request.at, request.prediction)
            self.challengers.take(request.rows, request.at)
            return {"position": position}
        resent = self._unlearnt.sort(request.repeated)
        learned, late, skipped = 0, list(resent.late), len(resent.skipped)
        self.score_singly()
        if request.labels is not None and request.labels.ids:
            applied = model.labelled(request.labels.ids, request.labels.y)
            self.challengers.take_labels(request.labels.ids, request.labels.y)
            at = request.at
            self._note(applied, lambda columns: np.full(len(columns["row"]), at), position, at, came_late=True)
            learned, late, skipped = applied.learned, [*applied.late, *late], len(applied.skipped) + skipped
            self._unlearnt.add(applied.late, LATE)
            self._unlearnt.add((request.labels.ids[i] for i in applied.skipped), SKIPPED)
            self.learned += learned
        if request.rows is not None:
            more = self._step_together([replace(request, repeated=[])])[0]
            learned, skipped = learned + more["learned"], skipped + more.get("skipped", 0)
        answer = {"learned": learned, "repeated": len(resent.learnt), "position": position}
        # All rows had come before.
        if request.kind == "step":
            answer["rows"] = with_repeated([], [], request.repeated, resent)
        return answer | ({"late": late} if late else {}) | ({"skipped": skipped} if skipped else {})

    def _again(self, request: Request) -> Any:
        """Answer what was asked for before: a prediction by what was said then."""
        if request.rows is None:
            return {"restored": request.number, "position": request.position}
        waiting = [self.model.waiting[name] for name in request.rows.ids if name in self.model.waiting]
        if len(waiting) < len(request.rows.ids):
            return Problem(409, "id: the rows were predicted too long ago to wait for their labels; use other ids")
        return {
            "position": request.position,
            "rows": [as_rows(predicted_columns(each), self.labels)[0] for each in waiting],
        }

    def score_singly(self) -> None:
        """Score the rows that came singly."""
        scored = self.model.score_singly()
        if scored:
            ats, self._single_ats = np.array(self._single_ats), []
            self._note(Applied(0, scored=scored), lambda _: ats, self.position, float(ats[-1]))

    def settle(self) -> None:
        """Learn what is left to learn, and write what fills a file.

        Raises
        ------
        OSError
            If the disk refuses the file; the rows stay in memory.
        """
        self.model.settle()
        self.history.seal()

    def _note(
        self,
        applied: Applied,
        at: Callable[[dict[str, Any]], np.ndarray],
        position: int,
        last_at: float,
        came_late: bool = False,
    ) -> None:
        """Keep what was scored, with the times at which it came, and tell of new alarms."""
        self.position, self.last_at = max(self.position, position), last_at
        if not self._moments or last_at - self._moments[-1] >= 1.0:
            self._moments.append(last_at)
        for columns in applied.scored:
            if len(columns["row"]):
                self.history.add(columns | {"at": at(columns)})
                waited = self.model.next_row - 1 - int(np.min(columns["row"])) if came_late else 0
                self.challengers.take_scores(columns, waited)
        for number in range(len(self._alarm_times), self.model.alarm_count):
            self._alarm_times[number] = last_at
            kept = max(number - self.model.alarm_count, -len(self.model.alarms))
            told = {name: getattr(self.model.alarms[kept], name) for name in ("kind", "row", "time", "sentence")}
            self._notify("alarm", {"number": number, **told})

    # What is shown

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels or grades known; empty of numbers."""
        return self.model.live.labels if isinstance(self.model, SingleModel) else ()

    @property
    def open_alarms(self) -> int:
        """Count the alarms that nobody has acknowledged."""
        return self.model.alarm_count - len(self._acknowledged)

    def scores(self) -> dict[str, Any]:
        """Return the scores over all rows, and the latest; those of the warm-up only while there are no others."""
        columns = self.history.latest(scores.RECENT)
        after = np.flatnonzero(~np.asarray(columns.get("warmup", []), dtype=bool))
        latest = scores.recent(take(columns, after) if len(after) else columns)
        return self.model.scores() | {"recent": latest, "position": self.position}

    def alarms(self) -> list[dict[str, Any]]:
        """Return the latest alarms."""
        found = list(self.model.alarms)
        first = self.model.alarm_count - len(found)
        return [
            {"number": first + i}
            | asdict(alarm)
            | {"target": self.config.target}
            | {"at": as_iso(self._alarm_times.get(first + i)), "acknowledged": first + i in self._acknowledged}
            for i, alarm in enumerate(found)
        ]

    def pending(self, limit: int) -> dict[str, Any]:
        """Return the rows that wait for their labels, the oldest first."""
        waiting = list(self.model.waiting.items())
        return {
            "count": len(waiting),
            "oldest_at": as_iso(waiting[0][1].at) if waiting else None,
            "pending": [waiting_row(name, each) for name, each in waiting[:limit]],
        }

    def stale_after(self, key: str | None = None) -> float | None:
        """Return the seconds without a row after which the stream, or a key, is stale; None where not known."""
        if key is None and self._stale[0] == self.history.rows:
            return self._stale[1]
        limit = stale_after(self.history.latest(ROWS, key=key), () if key is not None else list(self._moments))
        if key is None:
            self._stale = (self.history.rows, limit)
        return limit

    def recent(self, rows: int, after: int, key: str | None) -> dict[str, Any]:
        """Return the latest scored rows, and those that wait, with what was predicted of them."""
        columns = self.history.latest(rows, after, key)
        found = flat_rows(columns)
        waiting = [
            waiting_row(name, each) | flat_rows(predicted_columns(each))[0]
            for name, each in list(self.model.waiting.items())[-rows:]
            if key is None or each.key == key
        ]
        limit = self.stale_after(key)
        shown = [row | {"at": as_iso(row["at"])} for row in found]
        return {"rows": shown, "waiting": waiting, "stale_after": limit}


def _at_rows(ats: np.ndarray, first: int, columns: dict[str, Any]) -> np.ndarray:
    return ats[np.asarray(columns["row"]) - first]
