"""One stream at work: requests in, answers out, and everything on disk that these rest on.

A request is predicted, if it asks for that, by what is known at the moment (the view); then the sequencer writes it;
then the learner's thread applies it, in the order of the log, and publishes a new view. What a stream knows is a
function of its log alone, so that after a crash the latest checkpoint and the entries after it give the same numbers.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Condition, Lock, Thread
from time import monotonic, time
from typing import Any
from uuid import uuid4

import numpy as np

from streamgp.checkpoint import CheckpointError
from streamgp.service import scores
from streamgp.service.checkpoints import Checkpoints
from streamgp.service.config import StreamConfig
from streamgp.service.history import History
from streamgp.service.keyed_model import KeyedModel
from streamgp.service.log import EventLog
from streamgp.service.packing import unpack
from streamgp.service.payload import Labels, Rows
from streamgp.service.predictions import as_rows
from streamgp.service.problems import Problem
from streamgp.service.sequencer import AGAIN, Request, Sequencer, promise, restored
from streamgp.service.single_model import MAX_SINGLE_ROWS, Applied, Prediction, SingleModel

MAX_QUEUED_ROWS = 200_000
CHECKPOINT_SECONDS = 30.0  # at least between two checkpoints
CHECKPOINT_SHARE = 0.1  # of the time that may go into them
SETTLE_SECONDS = 0.02  # without a request, after which rows that came singly are scored
SETTLE_ROWS = 64  # rows that came singly, after which they are
SETTLE_PATIENCE = 0.25  # that a reader waits for them
GROUP_ROWS = 4_096  # of steps that are learnt in one go


class LiveStream:
    """A stream of a directory, with two threads of its own.

    Parameters
    ----------
    directory
        Of the stream; it holds ``log``, ``checkpoints`` and ``history``.
    config
        What it is.
    notify
        Called with the name of an event and what it says, for those who listen.

    Raises
    ------
    Problem
        If log or checkpoints cannot be read.
    """

    def __init__(
        self, directory: Path, config: StreamConfig, notify: Callable[[str, dict[str, Any]], None] = lambda *_: None
    ) -> None:
        self.directory = directory
        self.config = config
        self._notify = notify
        self._log = EventLog(directory / "log")
        self._checkpoints = Checkpoints(directory / "checkpoints")
        self.history = History(directory / "history", config.history_rows)
        self._kind = KeyedModel if config.is_keyed else SingleModel
        found = self._checkpoints.load(self._log.position, lambda path: self._kind.load(path, config))
        self.checkpoint_position, loaded = (0, None) if found is None else found
        self.checkpoint_at: float | None = None
        self._acknowledged: set[int] = set()
        self._alarm_times: dict[int, float] = {}
        self.last_at: float | None = None
        self._single_ats: list[float] = []  # when the rows came that are still to be scored
        if loaded is None:
            self.model: Any = self._kind(config)
        else:
            self.model, tree = loaded
            self.history.restore(tree["history"])
            self._acknowledged = set(tree["acknowledged"])
            self._alarm_times = {int(number): at for number, at in tree["alarm_times"]}
            self.last_at, self.checkpoint_at = tree["last_at"], tree["written_at"]
        if self._log.first > self.checkpoint_position + 1:
            raise Problem(
                500,
                f"{directory}: expected the log from {self.checkpoint_position + 1:,} on, got it from "
                f"{self._log.first:,}; use a copy of the directory",
            )
        self.position = self.checkpoint_position  # applied
        self._last_position = self._log.position  # accepted
        self.failure: str | None = None
        self.is_full = False
        self.is_ready = False
        self.replayed = 0.0
        self.seconds_per_entry = 0.0
        self._lock = Lock()  # of the model
        self._view = self.model.view()
        self._is_stale = False  # the view; rows that come singly do not renew it
        self._changed = Condition()
        self._accepted: deque[Request] = deque()
        self._queued_rows = 0
        self._stopping = False
        self._last_checkpoint = monotonic()
        self._checkpoint_seconds = 0.0
        self._wanted: list[Future[Any]] = []  # checkpoints that were asked for
        self._sequencer: Sequencer | None = None
        self._thread = Thread(target=self._run, name=f"streamgp-{config.name}", daemon=True)

    # Life

    def start(self) -> None:
        """Replay what came after the checkpoint, then begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted, write a checkpoint, and end."""
        if self._sequencer is not None:
            self._sequencer.stop()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._log.close()

    # Requests, by any thread

    @property
    def view(self) -> Any:
        """What is known by now; it is waited for while a few rows are learnt, not while many are."""
        if self._is_stale:
            with self._lock:
                if self._is_stale:
                    self._publish()
        return self._view

    def predict(self, rows: Rows, keep: bool = True) -> tuple[Prediction, "Future[Any] | None", Rows]:
        """Predict rows from what is known, and hand them in, so that they wait for their labels."""
        self.check_ready(learning=False)
        prediction = self.view.predict(rows)
        if not keep or self.failure is not None:
            return prediction, None, rows
        rows = rows._replace(ids=[uuid4().hex if name is None else name for name in rows.ids])
        return prediction, self._hand_in(Request("predict", rows, prediction=prediction)), rows

    def learn(self, rows: Rows | None, labels: Labels | None) -> "Future[Any]":
        """Hand in labels of rows that were predicted, and rows with their labels."""
        self.check_ready(learning=True)
        return self._hand_in(Request("learn", rows, labels))

    def step(self, rows: Rows) -> "Future[Any]":
        """Hand in rows that are predicted in their turn, then learnt."""
        self.check_ready(learning=True)
        return self._hand_in(Request("step", rows))

    def acknowledge(self, number: int) -> "Future[Any]":
        """Note that somebody has seen an alarm."""
        self.check_ready(learning=True)
        if not 0 <= number < self.model.alarm_count:
            raise Problem(404, f"alarms: expected a number below {self.model.alarm_count}, got {number}")
        return self._hand_in(Request("acknowledge", number=number))

    def write_checkpoint(self) -> "Future[Any]":
        """Write a checkpoint after what was accepted by now."""
        self.check_ready(learning=True)
        future = promise()
        with self._changed:
            self._wanted.append(future)
            self._changed.notify_all()
        return future

    def check_ready(self, learning: bool) -> None:
        """Raise `Problem` if the stream cannot predict now, or not learn."""
        name = self.config.name
        if not self.is_ready:
            raise Problem(
                503, f"{name} is being restored, {self.replayed:.0%} are done; try again soon", retry_after=2
            )
        if self._stopping:
            raise Problem(503, f"{name} is being stopped; try again soon", retry_after=5)
        if learning and self.failure is not None:
            raise Problem(500, f"{name} learns no longer: {self.failure}; it still predicts. Restart the service")

    def _hand_in(self, request: Request) -> "Future[Any]":
        assert self._sequencer is not None
        with self._changed:
            if self._queued_rows + request.size > MAX_QUEUED_ROWS:
                raise Problem(
                    429,
                    f"{self.config.name}: {self._queued_rows:,} rows are waiting to be learnt; send them more slowly",
                    retry_after=5,
                )
            self._queued_rows += request.size
        size = request.size

        def done(_: Any) -> None:
            with self._changed:
                self._queued_rows -= size

        request.future.add_done_callback(done)
        self._sequencer.put(request)
        return request.future

    # What is on disk, in order, by the sequencer's thread

    def _accept(self, request: Request) -> None:
        with self._changed:
            self._accepted.append(request)
            self._last_position = request.position
            if request.kind == "predict" and request.prediction is not None:
                self._view = self._view.after(request.prediction.standing)
            self._changed.notify_all()

    def _set_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self.is_full = is_full
            self._notify("disk", {"full": is_full})

    # What is learnt, by the stream's own thread

    def _run(self) -> None:
        try:
            self._replay()
        except Exception as error:
            self.failure = f"what the log holds could not be learnt again ({error})"
        last_time = None
        if self.config.timed and not self.config.is_keyed:
            last_time = self.model.last_time
            last_time = -np.inf if last_time is None else last_time
        self._sequencer = Sequencer(self._log, self._accept, self._set_full, last_time)
        self._sequencer.start()
        self.is_ready = True
        self._notify("ready", {"position": self.position})
        while True:
            with self._changed:
                while not (self._accepted or self._stopping or self._wanted or self._is_checkpoint_due()):
                    if not self._changed.wait(timeout=SETTLE_SECONDS if self.model.unscored else 1.0):
                        break
                requests, wanted = list(self._accepted), list(self._wanted)
                self._wanted.clear()
            if not requests:
                self.settled()
            if requests and self.failure is None:
                self._apply_all(requests)
            elif requests:
                self._drop(requests, Problem(500, f"{self.config.name} learns no longer: {self.failure}"))
            if wanted or self._stopping or self._is_checkpoint_due():
                self._checkpoint(wanted)
            if self._stopping and not self._accepted:
                return

    def _replay(self) -> None:
        last, begun = self._log.position, self.position
        for entry in self._log.after(begun):
            request = restored(entry.kind, entry.position, entry.at, unpack(entry.body))
            with self._lock:  # who looks meanwhile has rows scored that came singly
                self._apply([request])
            self.replayed = (entry.position - begun) / max(last - begun, 1)
        self._settle()
        self._publish()
        self.replayed = 1.0

    def _apply_all(self, requests: list[Request]) -> None:
        """Apply requests and publish what is known then; answer them."""
        began = monotonic()
        try:
            with self._lock:
                answers = self._apply_and_publish(requests)
        except Exception as error:
            self.failure = f"entry {self.position + 1:,} of its log could not be learnt ({error})"
            self._notify("failure", {"detail": self.failure})
            self._drop(requests, Problem(500, f"{self.config.name}: {self.failure}"))
            return
        self.seconds_per_entry += 0.1 * ((monotonic() - began) / len(requests) - self.seconds_per_entry)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Problem):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)

    def _apply_and_publish(self, requests: list[Request]) -> list[Any]:
        rows = [request.rows for request in requests if request.kind == "step" and request.labels is None]
        few = len(rows) == len(requests) and sum(request.size for request in requests) <= MAX_SINGLE_ROWS
        if self._is_stale and not few:  # who predicts shall not wait for many rows
            self._publish()
        answers = self._apply(requests)
        self._settle()
        with self._changed:
            for _ in requests:
                self._accepted.popleft()
        if few:
            self._is_stale = True
        else:
            self._publish()
        return answers

    def _publish(self) -> None:
        """Let predictions be made from what is known now."""
        view = self.model.view()
        with self._changed:
            for request in self._accepted:
                if request.kind == "predict" and request.prediction is not None:
                    view = view.after(request.prediction.standing)
            self._view, self._is_stale = view, False

    def settled(self) -> None:
        """Score the rows that came singly, unless many rows are being learnt just now."""
        if self.model.unscored and self._lock.acquire(timeout=SETTLE_PATIENCE):
            try:
                self._score_singly()
            finally:
                self._lock.release()

    def _score_singly(self) -> None:
        scored = self.model.score_singly()
        if scored:
            ats, self._single_ats = np.array(self._single_ats), []
            self._note(Applied(0, scored=scored), lambda _: ats, self.position, float(ats[-1]))

    def _drop(self, requests: list[Request], problem: Problem) -> None:
        with self._changed:
            for _ in requests:
                self._accepted.popleft()
        for request in requests:
            request.future.set_exception(problem)

    def _apply(self, requests: list[Request]) -> list[Any]:
        """Change the model as the requests ask, one after the other; return the answers."""
        answers: list[Any] = []
        steps: list[Request] = []
        rows = 0
        for request in requests:
            joins = request.kind in ("step", "learn") and request.labels is None and request.rows is not None
            if steps and (not joins or rows + request.size > GROUP_ROWS):
                answers += self._step_together(steps)
                self.model.settle()
                steps, rows = [], 0
            if joins:
                steps.append(request)
                rows += request.size
            else:
                answers.append(self._apply_one(request))
                self.model.settle()  # after each: what a row teaches does not depend on how entries were grouped
        if steps:
            answers += self._step_together(steps)
            self.model.settle()
        return answers

    def _step_together(self, requests: list[Request]) -> list[Any]:
        """Learn the rows of several requests as one: the numbers are the same, and it is faster."""
        each = [request.rows for request in requests if request.rows is not None]
        rows = each[0] if len(each) == 1 else _stacked(each)
        ats = np.repeat([request.at for request in requests], [len(one.X) for one in each])
        if self.model.steps_singly(rows):
            applied = self.model.stepped_singly(rows)
            self._single_ats += ats.tolist()
            self.position = requests[-1].position
            if self.model.unscored >= SETTLE_ROWS:
                self._score_singly()
        else:
            self._score_singly()
            applied = self.model.stepped(rows)
            first = self.model.next_row - len(rows.X)
            at_row = partial(_at_rows, ats, first)
            self._note(applied, at_row, requests[-1].position, requests[-1].at)
        answers, at = [], 0
        for request, one in zip(requests, each, strict=True):
            where = slice(at, at + len(one.X))
            at = where.stop
            answers.append(self._step_answer(request, one, applied, where))
        return answers

    def _step_answer(self, request: Request, rows: Rows, applied: Applied, where: slice) -> dict[str, Any]:
        learned = sum(each is not None and each == each for each in _plain(rows.y))
        answer: dict[str, Any] = {"learned": learned, "repeated": len(request.repeated), "position": request.position}
        if applied.skipped:
            answer["skipped"] = applied.skipped
        if request.kind == "step" and applied.shown is not None:
            shown = {name: column[where] for name, column in applied.shown.items()}
            found = as_rows(shown, self.labels)
            answer["rows"] = [{"id": name} | row for name, row in zip(rows.ids, found, strict=True)]
            if request.places is not None:
                answer["rows"] = _with_repeated(answer["rows"], request.places, request.repeated)
        return answer

    def _apply_one(self, request: Request) -> Any:
        model, position = self.model, request.position
        if request.kind == AGAIN:
            return self._again(request)
        self.position = max(self.position, position)
        if request.kind == "acknowledge":
            self._acknowledged.add(request.number)
            return {"acknowledged": True, "position": position}
        if request.kind == "predict":
            assert request.rows is not None and request.prediction is not None
            model.predicted(request.rows, request.at, request.prediction)
            return {"position": position}
        learned, late, skipped = 0, [], 0
        self._score_singly()
        if request.labels is not None and request.labels.ids:
            applied = model.labelled(request.labels.ids, request.labels.y)
            at = request.at
            self._note(applied, lambda columns: np.full(len(columns["row"]), at), position, at)
            learned, late, skipped = applied.learned, applied.late, applied.skipped
        if request.rows is not None:
            learned += self._step_together([request])[0]["learned"]
        answer = {"learned": learned, "repeated": len(request.repeated), "position": position}
        if request.kind == "step":  # all rows were learnt before
            answer["rows"] = _with_repeated([], [], request.repeated)
        return answer | ({"late": late} if late else {}) | ({"skipped": skipped} if skipped else {})

    def _again(self, request: Request) -> Any:
        """Answer a prediction that was asked for before by what was said then."""
        assert request.rows is not None
        waiting = [self.model.waiting.get(name) for name in request.rows.ids]
        if any(each is None for each in waiting):
            return Problem(409, "id: the rows were predicted too long ago to wait for their labels; use other ids")
        shown = [
            as_rows({name: c[w.place : w.place + 1] for name, c in w.columns.items()}, self.labels)[0]
            for w in waiting
        ]
        return {"position": self._last_position, "rows": shown}

    def _note(
        self, applied: Applied, at: Callable[[dict[str, Any]], np.ndarray], position: int, last_at: float
    ) -> None:
        """Keep what was scored, with the times at which it came, and tell of new alarms."""
        self.position, self.last_at = max(self.position, position), last_at
        for columns in applied.scored:
            if len(columns["row"]):
                self.history.add(columns | {"at": at(columns)})
        for number in range(len(self._alarm_times), self.model.alarm_count):
            self._alarm_times[number] = last_at
            self._notify("alarm", {"number": number, "sentence": self.model.alarms[-1].sentence})

    def _settle(self) -> None:
        try:
            self.history.seal()
        except OSError:
            self._set_full(True)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels or grades known; empty of numbers."""
        return self.model.live.labels if isinstance(self.model, SingleModel) else ()

    # Checkpoints

    def _is_checkpoint_due(self) -> bool:
        pause = max(CHECKPOINT_SECONDS, self._checkpoint_seconds / CHECKPOINT_SHARE)
        is_new = self.failure is None and self.position > self.checkpoint_position
        return is_new and monotonic() - self._last_checkpoint >= pause

    def _checkpoint(self, wanted: list["Future[Any]"]) -> None:
        if self.failure is not None:  # the model may have learnt half of an entry
            for future in wanted:
                future.set_exception(Problem(500, f"{self.config.name}: {self.failure}"))
            return
        with self._lock:
            self._score_singly()
        began, now, position = monotonic(), time(), self.position
        tree = {
            "position": position,
            "written_at": now,
            "last_at": self.last_at,
            "history": self.history.to_tree(),
            "acknowledged": sorted(self._acknowledged),
            "alarm_times": [list(each) for each in self._alarm_times.items()],
        }
        error: Exception | None = None
        try:
            if position > self.checkpoint_position or not self._checkpoints.positions():
                oldest = self._checkpoints.write(position, lambda path: self.model.save(path, tree))
                self.checkpoint_position, self.checkpoint_at = position, now
                if self._sequencer is not None and not self._stopping:
                    self._sequencer.call(lambda log: (log.forget(oldest), log.renew_if_large()))
        except (CheckpointError, OSError) as caught:
            error = caught
            self._set_full(True)
        except Exception as caught:  # the stream lives on: its log has everything
            error = caught
            self._notify("failure", {"detail": f"the checkpoint could not be written ({caught})"})
        self._last_checkpoint = monotonic()
        self._checkpoint_seconds = self._last_checkpoint - began
        for future in wanted:
            if error is None:
                future.set_result({"position": self.checkpoint_position})
            else:
                status = 507 if isinstance(error, CheckpointError | OSError) else 500
                future.set_exception(Problem(status, f"the checkpoint could not be written: {error}", retry_after=30))

    # What is shown

    def status(self) -> dict[str, Any]:
        """Return what the stream is and how it is."""
        self.settled()
        c = self.config
        return {
            "name": c.name,
            "kind": "keyed" if c.is_keyed else "single",
            "task": c.task,
            "model": c.model,
            "target": c.target,
            "features": list(c.features),
            "key": c.key,
            "timed": c.timed,
            "rows": self.model.next_row,
            "learned": self.model.rows,
            "scored_rows": self.model.scores()["scored_rows"],
            "position": self._last_position,
            "pending": len(self.model.waiting),
            "last_at": as_iso(self.last_at),
            "state": "failed" if self.failure else "ready" if self.is_ready else "replaying",
            "warmed_up": self.model.is_warmed_up,
            "warmup": c.warmup,
            "open_alarms": self.model.alarm_count - len(self._acknowledged),
            "keys": len(self.model.live.fleet.keys_) if isinstance(self.model, KeyedModel) else None,
        }

    def durability(self) -> dict[str, Any]:
        """Return what is on disk, and how long a restart would take."""
        behind = self._last_position - self.checkpoint_position
        return {
            "position": self._last_position,
            "applied": self.position,
            "checkpoint_position": self.checkpoint_position,
            "checkpoint_at": as_iso(self.checkpoint_at),
            "log_bytes": self._log.bytes,
            "recovery_seconds": round(1.0 + behind * self.seconds_per_entry, 1),
            "replayed": self.replayed,
            "disk_full": self.is_full,
            "failure": self.failure,
        }

    def scores(self) -> dict[str, Any]:
        """Return the scores over all rows, and over the latest."""
        self.settled()
        latest = scores.recent(self.history.latest(scores.RECENT))
        return self.model.scores() | {"recent": latest, "position": self.position}

    def alarms(self) -> list[dict[str, Any]]:
        """Return the latest alarms."""
        self.settled()
        found = list(self.model.alarms)
        first = self.model.alarm_count - len(found)
        return [
            {"number": first + i}
            | asdict(alarm)
            | {"at": as_iso(self._alarm_times.get(first + i)), "acknowledged": first + i in self._acknowledged}
            for i, alarm in enumerate(found)
        ]

    def pending(self, limit: int) -> dict[str, Any]:
        """Return the rows that wait for their labels, the oldest first."""
        waiting = list(self.model.waiting.items())
        return {
            "count": len(waiting),
            "oldest_at": as_iso(waiting[0][1].at) if waiting else None,
            "pending": [
                {"id": name, "row": w.row, "key": w.key, "time": _finite(w.time), "at": as_iso(w.at)}
                for name, w in waiting[:limit]
            ],
        }

    def recent(self, rows: int, after: int, key: str | None) -> dict[str, Any]:
        """Return the latest scored rows, and those that wait, with what was predicted of them."""
        self.settled()
        columns = self.history.latest(rows, after, key)
        found = [_flat(row) for row in as_rows(columns, self.labels)] if columns else []
        waiting = []
        for name, w in list(self.model.waiting.items())[-rows:]:
            if key is None or w.key == key:
                (shown,) = as_rows({n: c[w.place : w.place + 1] for n, c in w.columns.items()}, self.labels)
                own = {"row": w.row, "id": name, "key": w.key, "time": _finite(w.time), "at": as_iso(w.at)}
                waiting.append(own | _flat(shown))
        return {"rows": [row | {"at": as_iso(row["at"])} for row in found], "waiting": waiting}


def _at_rows(ats: np.ndarray, first: int, columns: dict[str, Any]) -> np.ndarray:
    return ats[np.asarray(columns["row"]) - first]


def as_iso(at: float | None) -> str | None:
    """Return seconds since 1970 as a date."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its quantiles beside the rest."""
    quantiles = row.pop("quantiles", None)
    row.pop("probabilities", None)
    return row if quantiles is None else row | dict(zip(("q05", "q50", "q95"), quantiles.values(), strict=True))


def _with_repeated(rows: list[dict[str, Any]], places: list[int], repeated: list[str]) -> list[dict[str, Any]]:
    """Return the answers for all rows of a request, of which some were learnt before."""
    new, old, own = iter(rows), iter(repeated), set(places)
    return [next(new) if i in own else {"id": next(old), "repeated": True} for i in range(len(rows) + len(repeated))]


def _plain(y: Any) -> list[Any]:
    return y if isinstance(y, list) else y.tolist()


def _stacked(each: list[Rows]) -> Rows:
    y = [value for rows in each for value in _plain(rows.y)]
    return Rows(
        [name for rows in each for name in rows.ids],
        [key for rows in each for key in rows.keys],
        np.concatenate([rows.times for rows in each]),
        np.concatenate([rows.X for rows in each]),
        y if isinstance(each[0].y, list) else np.array(y),
    )
