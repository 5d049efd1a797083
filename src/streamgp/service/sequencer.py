"""The order of what comes to a stream: checked against what came before, written to disk as a group, acknowledged."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from time import time
from typing import Any

from streamgp.service.log import EventLog, as_text, is_full
from streamgp.service.packing import pack
from streamgp.service.payload import Labels, Rows
from streamgp.service.problems import Problem
from streamgp.service.work import Prediction

AGAIN = "again"  # the kind of a prediction that was made before
_STOP = None


@dataclass
class Request:
    """Something that a client wants done; it is answered by its future.

    Attributes
    ----------
    kind
        ``predict``, ``learn``, ``step`` or ``acknowledge``.
    rows, labels
        Rows with inputs, and labels by id.
    prediction
        What was predicted of the rows, before they are written.
    number
        Of an alarm.
    position
        Of its entry in the log, 0 before it has one.
    repeated
        Ids of rows that were learnt before with the same label.
    places
        Places of the rows that are learnt, where others are repeated.
    """

    kind: str
    rows: Rows | None = None
    labels: Labels | None = None
    prediction: Prediction | None = None
    number: int = 0
    position: int = 0
    at: float = 0.0
    repeated: list[str] = field(default_factory=list)
    places: list[int] | None = None
    future: "Future[Any]" = field(default_factory=lambda: promise())

    @property
    def size(self) -> int:
        """Count its rows."""
        return (0 if self.rows is None else len(self.rows.X)) + (0 if self.labels is None else len(self.labels.ids))

    def body(self) -> bytes:
        """Return what the log keeps of it."""
        tree: dict[str, Any] = {"number": self.number}
        if self.rows is not None:
            tree["rows"] = dict(self.rows._asdict())
        if self.labels is not None:
            tree["labels"] = {"ids": self.labels.ids, "y": self.labels.y}
        if self.prediction is not None:
            tree["prediction"] = dict(self.prediction._asdict())
        return pack(tree)


def promise() -> "Future[Any]":
    """Return a future that cannot be cancelled: who waits for it may give up, and it is fulfilled all the same."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def restored(kind: str, position: int, at: float, tree: dict[str, Any]) -> Request:
    """Return a request from what the log kept of it."""
    rows, labels, prediction = tree.get("rows"), tree.get("labels"), tree.get("prediction")
    return Request(
        kind,
        None if rows is None else Rows(**rows),
        None if labels is None else Labels(**labels),
        None if prediction is None else Prediction(**prediction),
        tree["number"],
        position,
        at,
    )


class Sequencer:
    """Takes requests from many threads, and writes them in one order, as many at a time as have come.

    Parameters
    ----------
    log
        Of the stream; this alone uses it from now on.
    accept
        Called with each request that is on disk, in order.
    full
        Called with whether the disk refuses to take more.
    last_time
        The time of the last row of a stream whose clock it is; None of others.
    """

    def __init__(
        self,
        log: EventLog,
        accept: Callable[[Request], None],
        full: Callable[[bool], None],
        last_time: float | None,
    ) -> None:
        self._log = log
        self._accept = accept
        self._full = full
        self._last_time = last_time
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._stopped = False
        self._thread = Thread(target=self._run, name="streamgp-log", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def put(self, request: Request) -> None:
        """Hand in a request."""
        if self._stopped:
            _refuse(request, Problem(503, "the stream is being stopped; send it again soon", retry_after=5))
        else:
            self._queue.put(request)

    def call(self, work: Callable[[EventLog], Any]) -> None:
        """Do something with the log between two groups."""
        self._queue.put(work)

    def stop(self) -> None:
        """Finish what was handed in, and end."""
        self._stopped = True
        self._queue.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            found = [self._queue.get()]
            while not self._queue.empty():
                found.append(self._queue.get())
            stopping = _STOP in found
            requests = [each for each in found if isinstance(each, Request)]
            if requests:
                self._write(requests)
            for each in found:
                if each is not _STOP and not isinstance(each, Request):
                    try:
                        each(self._log)
                    except Exception as error:
                        self._full(is_full(error))

    def _write(self, requests: list[Request]) -> None:
        before, last_time, now = self._log.position, self._last_time, time()
        written: list[Request] = []
        refused: list[tuple[Request, Problem]] = []
        try:
            self._log.begin()
            for request in requests:
                try:
                    self._check(request)
                except Problem as problem:
                    refused.append((request, problem))
                    continue
                except _Repeated:
                    request.kind = AGAIN
                request.at = now
                if request.kind != AGAIN and (request.size or request.kind == "acknowledge"):
                    self._note(request, self._log.position + 1)
                    request.position = self._log.add(request.kind, now, request.body())
                else:
                    request.position = self._log.position
                written.append(request)
            self._log.commit()
        except Exception as error:
            self._last_time = last_time
            self._log.roll_back(before)
            full = is_full(error)
            self._full(full)
            detail = f"nothing was written ({error}); free some disk space, and send it again"
            for request in requests:
                _refuse(request, Problem(507 if full else 500, detail, retry_after=30))
            return
        self._full(False)
        for request, problem in refused:
            _refuse(request, problem)
        for request in written:
            self._accept(request)

    # What is known of ids

    def _check(self, request: Request) -> None:
        """Hold a request against what came before; leave out what was done before."""
        rows, labels = request.rows, request.labels
        names = [name for name in (rows.ids if rows is not None else []) if name is not None]
        names += [] if labels is None else labels.ids
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise Problem(422, f"id: expected each once in a request, got {name!r} twice", ids=[name])
            seen.add(name)
        known = self._log.find(names)
        if labels is not None:
            request.labels = self._labels_left(labels, known, request.repeated)
        if rows is not None:
            if request.kind == "predict":
                self._check_new(rows, known)
            else:
                self._rows_left(request, rows, known)
            self._check_time(request)

    def _labels_left(self, labels: Labels, known: dict[str, Any], repeated: list[str]) -> Labels:
        unknown = [name for name in labels.ids if name not in known]
        if unknown:
            raise Problem(
                404,
                f"id: expected those of rows that were predicted, got {_listed(unknown)}; send their inputs as "
                f"x with them, to learn such rows",
                ids=unknown[:100],
            )
        left = []
        for i, (name, y) in enumerate(zip(labels.ids, labels.y, strict=True)):
            label = known[name].label
            if label is None:
                left.append(i)
            else:
                _check_label(name, label, y)
                repeated.append(name)
        if len(left) == len(labels.ids):
            return labels
        y = [labels.y[i] for i in left] if isinstance(labels.y, list) else labels.y[left]
        return Labels([labels.ids[i] for i in left], y)

    def _check_new(self, rows: Rows, known: dict[str, Any]) -> None:
        if not known:
            return
        digests = dict(zip(rows.ids, rows.digests(), strict=True))
        other = [name for name in known if known[name].row != digests[name]]
        if other:
            raise Problem(409, f"id: {_listed(other)} came before with other inputs; use another id", ids=other[:100])
        done = [name for name in known if known[name].label is not None]
        if done or len(known) < len(rows.ids):
            which = done or list(known)
            raise Problem(409, f"id: {_listed(which)} came before; use another id", ids=which[:100])
        raise _Repeated

    def _rows_left(self, request: Request, rows: Rows, known: dict[str, Any]) -> None:
        """Leave out rows that were learnt before; those that wait for their label get it, if they may."""
        if not known:
            return
        digests, left, labels = rows.digests(), [], []
        for i, name in enumerate(rows.ids):
            if name is None or name not in known:
                left.append(i)
                continue
            of = known[name]
            if of.row != digests[i]:
                raise Problem(409, f"id: {name!r} came before with other inputs; use another id", ids=[name])
            if of.label is None and request.kind == "learn":
                labels.append(i)
            elif of.label is None:
                raise Problem(409, f"id: {name!r} was predicted, and waits for its label; learn it", ids=[name])
            else:
                _check_label(name, of.label, rows.y[i])
                request.repeated.append(name)
        if labels:
            more = rows.part(labels)
            ids = [name for name in more.ids if name is not None]
            old = request.labels
            y = more.y if old is None else [*old.y, *more.y]
            request.labels = Labels([*(old.ids if old else []), *ids], y)
        request.rows, request.places = rows.part(left) if left else None, left

    def _check_time(self, request: Request) -> None:
        rows = request.rows
        if rows is None or self._last_time is None or not len(rows.times):
            return
        if rows.times[0] < self._last_time:
            raise Problem(
                422,
                f"time: expected none before {self._last_time}, that of the last row of the stream, got "
                f"{rows.times[0]}; send rows in the order of their times",
            )
        self._last_time = float(rows.times[-1])

    def _note(self, request: Request, position: int) -> None:
        rows = request.rows
        if rows is not None:
            named = [i for i, name in enumerate(rows.ids) if name is not None]
            if named:
                digests = rows.digests()
                learnt = request.kind != "predict"
                self._log.note_ids(
                    ((rows.ids[i] or "", digests[i], as_text(rows.y[i]) if learnt else None) for i in named), position
                )
        if request.labels is not None:
            pairs = ((name, as_text(y)) for name, y in zip(request.labels.ids, request.labels.y, strict=True))
            self._log.note_labels(pairs, position)


class _Repeated(Exception):
    """A prediction that was made before."""


def _check_label(name: str, label: str, y: Any) -> None:
    """Raise `Problem` if a label is another one than the row has."""
    if label != as_text(y):
        raise Problem(
            409, f"id: {name!r} has the label {label}, got {as_text(y)}; a label cannot be changed", ids=[name]
        )


def _refuse(request: Request, error: Exception) -> None:
    request.future.set_exception(error)


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
