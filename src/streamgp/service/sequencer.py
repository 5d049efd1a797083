"""The order of a stream's requests: checked against earlier ones, written to disk as a group, acknowledged."""

import logging
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from time import time
from typing import Any, NamedTuple

from streamgp.service.answers import FIRST_DATE, LAST_DATE, time_as_text
from streamgp.service.checkpoints import Return
from streamgp.service.log import EventLog, as_text, is_full
from streamgp.service.log_end import SYNC_SECONDS
from streamgp.service.payload import Labels, Rows
from streamgp.service.problems import Problem
from streamgp.service.requests import AGAIN, CHALLENGER, EPOCH, RETURN, Request, promise
from streamgp.service.upkeep import Upkeep
from streamgp.table.clock import Pace, judge, say_jump
from streamgp.table.summer_time import advise_on_order

LOGGER = logging.getLogger("streamgp.service")
_STOP = None
# The kinds of entries that have no rows.
_WITHOUT_ROWS = ("acknowledge", CHALLENGER, EPOCH, RETURN)


class Standing(NamedTuple):
    """What requests are held against, beside the log.

    Attributes
    ----------
    last_time
        The time of the last row of a stream whose clock it is; None of others.
    back
        The last return to a checkpoint, if there is one.
    era
        How often the model has been replaced: by that of a checkpoint, or by a challenger.
    pace
        How far apart the rows of a stream usually are whose clock they are.
    """

    last_time: float | None
    back: Sequence[Return] = ()
    era: int = 0
    pace: Pace = Pace()


class Sequencer:
    """Takes requests from many threads, and writes them in one order, as many at a time as have come.

    Parameters
    ----------
    log
        Of the stream; this alone uses it from now on.
    accept
        Called with the requests of a group that is on disk, in order.
    full
        Called with whether the disk refuses to take more.
    standing
        What requests are held against at first.
    """

    def __init__(
        self,
        log: EventLog,
        accept: Callable[[list[Request]], None],
        full: Callable[[bool], None],
        standing: Standing,
    ) -> None:
        self._log = log
        self._accept = accept
        self._full = full
        self._standing = standing
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._stopped = False
        self._upkeep = Upkeep()
        self._warned = ""  # of what could not be done beside requests; once
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

    def keep_up(self, kind: str, chore: Callable[[EventLog], Generator[None]]) -> None:
        """Do something with the log a step at a time, between groups; see `Upkeep.add`.

        What is not done when the thread ends is left.
        """
        self.call(lambda log: self._upkeep.add(kind, chore(log)))

    def copy(self, requests: list[Request]) -> "Future[None]":
        """Write requests of another log as they are there; return what is fulfilled when the disk has them."""
        written: Future[None] = promise()

        def work(_: EventLog) -> None:
            try:
                self._copy(requests)
                written.set_result(None)
            except Exception as error:
                written.set_exception(error)

        self.call(work)
        return written

    def stop(self) -> None:
        """Finish what was handed in, and end."""
        self._stopped = True
        self._queue.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            found = self._found()
            stopping = _STOP in found
            requests = [each for each in found if isinstance(each, Request)]
            if requests:
                try:
                    self._write(requests)
                except Exception as error:
                    # The thread goes on, so that requests are answered.
                    for request in requests:
                        if not request.future.done():
                            _refuse(request, Problem(500, f"the log can be neither written nor set back ({error})"))
            for each in found:
                if each is not _STOP and not isinstance(each, Request):
                    self._try(each)
            self._try(lambda _: self._upkeep.step())
        self._upkeep.close()

    def _found(self) -> list[Any]:
        """Return what was handed in; nothing if something else is to be done before anything is."""
        upkeep = self._upkeep.wait
        waits = [upkeep, SYNC_SECONDS if self._log.end_is_behind else None]
        try:
            found = [self._queue.get(timeout=min((each for each in waits if each is not None), default=None))]
        except Empty:
            self._try(lambda log: log.sync_end(0.0 if upkeep is None else SYNC_SECONDS))
            return []
        while not self._queue.empty():
            found.append(self._queue.get())
        return found

    def _try(self, work: Callable[[EventLog], Any]) -> None:
        try:
            work(self._log)
        except Exception as error:
            self._full(is_full(error))
            if str(error) != self._warned:
                self._warned = str(error)
                LOGGER.warning("%s: %s", self._log.directory, error)

    def _write(self, requests: list[Request]) -> None:
        before, standing, now = self._log.position, self._standing, time()
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
                if request.kind != AGAIN and (request.size or request.kind in _WITHOUT_ROWS):
                    self._note(request, self._log.position + 1)
                    request.position = self._log.add(request.kind, now, request.body())
                else:
                    request.position = self._log.position
                request.chain = self._log.chain
                written.append(request)
            self._log.commit()
        except Exception as error:
            self._standing = standing
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
        self._accept(written)

    def _copy(self, requests: list[Request]) -> None:
        before, standing = self._log.position, self._standing
        try:
            self._log.begin()
            for request in requests:
                self._note(request, request.position)
                rows = request.rows
                if rows is not None and self._standing.last_time is not None and len(rows.times):
                    self._standing = self._standing._replace(last_time=float(rows.times[-1]))
                position = self._log.add(request.kind, request.at, request.body())
                if (position, self._log.chain) != (request.position, request.chain):
                    raise Problem(409, f"the log goes on at {position:,} otherwise than the leader's does")
            self._log.commit()
        except Exception as error:
            self._standing = standing
            self._log.roll_back(before)
            self._full(is_full(error))
            raise
        self._full(False)
        self._accept(requests)

    # What is known of ids

    def _check(self, request: Request) -> None:
        """Hold a request against what came before; leave out what was done before."""
        if request.kind == RETURN and self._log.position in (request.number, self._back_at(request.number)):
            raise _Repeated
        if request.kind == "predict" and request.era != self._standing.era:
            raise Problem(503, "the model was replaced while this was predicted; ask again", retry_after=1)
        rows, labels = request.rows, request.labels
        names = [name for name in (rows.ids if rows is not None else []) if name is not None]
        names += [] if labels is None else labels.ids
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise Problem(422, f"id: expected each once in a request, got {name!r} twice", ids=[name])
            seen.add(name)
        known = self._log.ids.find(names)
        if labels is not None:
            request.labels = self._labels_left(labels, known, request.repeated)
        if rows is not None:
            if request.kind == "predict":
                self._check_new(rows, known)
            else:
                self._rows_left(request, rows, known)
            self._check_time(request)

    def _back_at(self, number: int) -> int:
        """Return where the stream returned to a checkpoint, if that was the last return; else -1."""
        return next((each.position for each in self._standing.back if each.to == number), -1)

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
            more = {"learnt": True} if done else {}
            raise Problem(409, f"id: {_listed(which)} came before; use another id", ids=which[:100], **more)
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
        rows, last = request.rows, self._standing.last_time
        if rows is None or last is None or not len(rows.times):
            return
        pace = self._standing.pace
        dated = FIRST_DATE <= last < LAST_DATE
        verdict = judge(rows.times, last, pace, dated=dated, together=True)
        if verdict.first is not None:
            self._standing = self._standing._replace(pace=replace(pace, doubted=verdict.pace.doubted))
            row, said = verdict.first.row, say_jump(verdict.first, dated)
            raise Problem(422, f"row {row}, time: {said}; nothing of this request was done: correct it")
        if rows.times[0] < last:
            advice = advise_on_order(last, rows.times[0], "send rows in the order of their times", dated)
            raise Problem(
                422,
                f"time: expected none before {time_as_text(last)}, that of the last row of the stream, got one "
                f"that is {last - rows.times[0]:.15g} before it; {advice}",
            )
        self._standing = self._standing._replace(last_time=float(rows.times[-1]), pace=verdict.pace)

    def _note(self, request: Request, position: int) -> None:
        rows = request.rows
        if request.kind == CHALLENGER and request.replaces:
            self._standing = self._standing._replace(era=self._standing.era + 1)
        if request.kind == RETURN:
            self._log.ids.set_back(request.number, request.former.waiting)
            back = Return(position, request.number, request.at)
            usual = Pace(self._standing.pace.usual, settled=True)
            self._standing = Standing(request.former.last_time, [back], self._standing.era + 1, usual)
        if rows is not None:
            named = [i for i, name in enumerate(rows.ids) if name is not None]
            if named:
                digests = rows.digests()
                learnt = request.kind != "predict"
                self._log.ids.note(
                    ((rows.ids[i] or "", digests[i], as_text(rows.y[i]) if learnt else None) for i in named), position
                )
        if request.labels is not None:
            pairs = ((name, as_text(y)) for name, y in zip(request.labels.ids, request.labels.y, strict=True))
            self._log.ids.note_labels(pairs, position)


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
