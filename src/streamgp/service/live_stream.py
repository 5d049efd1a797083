"""One stream at work: requests in, answers out, and everything on disk that these rest on.

A request is predicted, if it asks for that, by what is known at the moment (the view); then the sequencer writes it;
then the learner's thread applies it, in the order of the log, and publishes a new view. What a stream knows is a
function of its log alone, so that after a crash the latest checkpoint and the entries after it give the same numbers.
"""

import logging
import os
from collections import deque
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import Any
from uuid import uuid4

from streamgp.service.archive import Archive
from streamgp.service.backlog import Backlog
from streamgp.service.challengers import MOST_BEHIND
from streamgp.service.checkpointing import Checkpointing
from streamgp.service.checkpoints import KEPT, Checkpoints, Return
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge, Notify
from streamgp.service.log import EventLog
from streamgp.service.packing import unpack
from streamgp.service.past import Past
from streamgp.service.payload import Labels, Rows
from streamgp.service.problems import Problem
from streamgp.service.requests import EPOCH, RETURN, Request, restored, until_alone
from streamgp.service.restart_time import RestartTime
from streamgp.service.restoring import check_same, last_time_of, latest, pace_of, read_former
from streamgp.service.sequencer import Sequencer, Standing
from streamgp.service.shadowing import Shadowing
from streamgp.service.single_model import MAX_SINGLE_ROWS
from streamgp.service.status import check_ready, describe, describe_durability
from streamgp.service.work import Prediction
from streamgp.service.writer import Writer

LOGGER = logging.getLogger("streamgp.service")
SETTLE_SECONDS = 0.1  # without a request, after which rows that came singly are scored
SETTLE_PATIENCE = 0.25  # that a reader waits for them


class LiveStream:
    """A stream of a directory, with two threads of its own, and a third where it has challengers.

    Parameters
    ----------
    directory
        Of the stream; it holds ``log``, ``checkpoints`` and ``history``.
    config
        What it is.
    notify
        Called with the name of an event and what it says, for those who listen.
    writer
        Says whether rows are taken, and when they are acknowledged.

    Raises
    ------
    Problem
        If log or checkpoints cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        config: StreamConfig,
        notify: Notify = lambda *_: None,
        writer: Writer | None = None,
    ) -> None:
        self.restart_time = RestartTime()
        self.process = os.getpid()  # whose threads do the work
        self.directory = directory
        self.config = config
        self._notify = notify
        self._writer = Writer() if writer is None else writer
        # Of these files as this process has opened them.
        self.token = uuid4().hex
        archive = Archive(directory, config.archive_days, config.archive_megabytes)
        self.log = EventLog(directory / "log", archive=archive)
        self.checkpoints = Checkpoints(directory / "checkpoints", config.archive_days)
        try:
            check_same(directory, config, self.log)
            self.knowledge, written, notices = latest(directory, config, self.log, self.checkpoints, notify)
        except BaseException:
            self.log.close()
            raise
        self.notices = self.log.notices + notices + self.knowledge.history.damage()
        for each in self.notices:
            LOGGER.warning("%s: %s", config.name, each)
        self.checkpointing = Checkpointing(self.checkpoints, written, self._set_full, notify)
        self.last_position = self.log.position  # accepted
        self.failure: str | None = None
        self.is_full = False
        self.is_ready = False
        self.replayed = 0.0
        self._lock = Lock()  # of the model
        self._restoring = Lock()  # one position at a time is learnt again
        self._view = self.model.view()
        self._is_stale = False  # the view; rows that come singly do not renew it
        self._era = 0  # of the view: how often the model has been replaced
        self._changed = Condition()
        self._accepted: deque[Request] = deque()
        self.shadowing = Shadowing(
            config.name, self._changed, lambda: self.knowledge.challengers, lambda: bool(self._accepted)
        )
        self.backlog = Backlog(config.name)
        self.is_stopping = False
        self.sequencer: Sequencer | None = None
        self.has_begun = Event()
        self._thread = Thread(target=self._run, name=f"streamgp-{config.name}", daemon=True)
        self.restart_time.opened()

    # Life

    def start(self) -> None:
        """Replay what came after the checkpoint, then begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted, write a checkpoint, and end."""
        self.has_begun.wait()
        if self.sequencer is not None:
            self.sequencer.stop()
        self.shadowing.stop()
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()
        self._thread.join()
        self.log.close()

    # Requests, by any thread

    @property
    def model(self) -> Any:
        """The model at work."""
        return self.knowledge.model

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
        check_ready(self, learning=False)
        era = self._era
        prediction = self.view.predict(rows)
        if not keep or self.failure is not None:
            return prediction, None, rows
        rows = rows._replace(ids=[uuid4().hex if name is None else name for name in rows.ids])
        return prediction, self.hand_in(Request("predict", rows, prediction=prediction, era=era)), rows

    def learn(self, rows: Rows | None, labels: Labels | None) -> "Future[Any]":
        """Hand in labels of rows that were predicted, and rows with their labels."""
        check_ready(self, learning=True)
        return self.hand_in(Request("learn", rows, labels))

    def step(self, rows: Rows) -> "Future[Any]":
        """Hand in rows that are predicted in their turn, then learnt."""
        check_ready(self, learning=True)
        return self.hand_in(Request("step", rows))

    def acknowledge(self, number: int) -> "Future[Any]":
        """Note that somebody has seen an alarm."""
        check_ready(self, learning=True)
        if not 0 <= number < self.model.alarm_count:
            raise Problem(404, f"alarms: expected a number below {self.model.alarm_count}, got {number}")
        return self.hand_in(Request("acknowledge", number=number))

    def write_checkpoint(self) -> "Future[Any]":
        """Write a checkpoint after what was accepted by now."""
        check_ready(self, learning=True)
        with self._changed:
            future = self.checkpointing.want()
            self._changed.notify_all()
        return future

    def restore(self, position: int) -> "Future[Any]":
        """Return to what was known at a position; also a stream that learns no longer."""
        check_ready(self, learning=False)
        if position > self.last_position:
            raise Problem(404, f"position: expected at most {self.last_position:,}, that of now, got {position:,}")
        request = Request(RETURN, number=position)
        self.find_former(request)
        try:
            return self.hand_in(request)
        except Problem as problem:
            request.future.set_exception(problem)
            raise

    def find_former(self, request: Request) -> None:
        """Read the checkpoint that a request returns to, which is kept until the request is answered."""
        held, position = self.checkpoints.held, request.number
        held.append(position)
        request.future.add_done_callback(lambda _: held.remove(position))
        try:
            with self._restoring:
                if position not in self.checkpoints.offered(self.knowledge.returns):
                    Past(self).add_checkpoint(position)
            request.former = read_former(self.config, self.checkpoints, position)
        except BaseException as error:
            request.future.set_exception(error)
            raise

    def hand_in(self, request: Request) -> "Future[Any]":
        """Have a request written and done."""
        self._writer.check()
        assert self.sequencer is not None
        self.backlog.add(request)
        self.sequencer.put(request)
        return request.future

    # What is on disk, in order, by the sequencer's thread

    def _accept(self, requests: list[Request]) -> None:
        with self._changed:
            for request in requests:
                self._accepted.append(request)
                self.last_position = request.position
                if request.kind == "predict" and request.prediction is not None:
                    self._view = self._view.after(request.prediction.standing)
            self._changed.notify_all()
        self._writer.entered()

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
        standing = Standing(
            last_time_of(self.config, self.model), self.knowledge.returns[-1:], pace=pace_of(self.model)
        )
        self.sequencer = Sequencer(self.log, self._accept, self._set_full, standing)
        self.sequencer.start()
        if self._writer.epoch > self.knowledge.epoch and self._writer.leads:
            self.sequencer.put(Request(EPOCH, number=self._writer.epoch))
        self.is_ready = True
        self.has_begun.set()
        self._notify("ready", {"position": self.knowledge.position})
        while True:
            with self._changed:
                while not (self._accepted or self.is_stopping or self.checkpointing.wanted or self._is_due()):
                    if not self._changed.wait(timeout=SETTLE_SECONDS if self.model.unscored else 1.0):
                        break
                requests, wanted = until_alone(self._accepted), []
                if len(requests) == len(self._accepted):
                    wanted, self.checkpointing.wanted = self.checkpointing.wanted, []
            try:
                self._turn(requests, wanted)
            except Exception as error:  # the thread goes on, to answer whoever asks
                self._fail(f"what was learnt could not be scored or kept ({error})", list(self._accepted), wanted)
            if self.is_stopping and not self._accepted:
                return

    def _turn(self, requests: list[Request], wanted: list["Future[Any]"]) -> None:
        """Do what was asked for."""
        if not requests:
            self.settled()
        elif requests[0].kind == RETURN:
            self._return(requests[0])
        elif self.failure is None:
            self._apply_all(requests)
        else:
            self._drop(requests, Problem(500, f"{self.config.name} learns no longer: {self.failure}"))
        if wanted or self.is_stopping or self._is_due():
            with self.shadowing.resting():
                self._checkpoint(wanted)
        self.shadowing.wake()

    def _fail(self, failure: str, requests: list[Request], wanted: list["Future[Any]"]) -> None:
        """Learn no longer, say why, and answer those who wait."""
        self.failure = failure
        self._notify("failure", {"detail": failure})
        problem = Problem(500, f"{self.config.name}: {failure}")
        self._drop(requests, problem)
        for future in wanted:
            if not future.done():
                future.set_exception(problem)

    def _replay(self) -> None:
        last, begun = self.log.position, self.knowledge.position
        for entry in self.log.after(begun):
            request = restored(entry.kind, entry.position, entry.at, unpack(entry.body))
            request.chain = self.log.chain_at(entry.position) or b""
            # Who looks meanwhile has rows scored that came singly.
            with self._lock, self.restart_time.measured(self.checkpointing.position, 1):
                self.knowledge.apply([request])
            self.knowledge.challengers.catch_up(MOST_BEHIND)
            self.replayed = (entry.position - begun) / max(last - begun, 1)
        self._settle()
        self._publish()
        self.replayed = 1.0

    def _apply_all(self, requests: list[Request]) -> None:
        """Apply requests and publish what is known then; answer them."""
        try:
            with self._lock, self.restart_time.measured(self.checkpointing.position, len(requests)):
                answers = self._apply_and_publish(requests)
        except Exception as error:
            self._fail(
                f"entry {self.knowledge.position + 1:,} of its log could not be learnt ({error})", requests, []
            )
            return
        for request, answer in zip(requests, answers, strict=True):
            self._writer.acknowledge(self.token, request.position, partial(_answer, request, answer))
        for request in self.shadowing.limit(self._writer.leads):
            assert self.sequencer is not None
            self.sequencer.put(request)

    def _apply_and_publish(self, requests: list[Request]) -> list[Any]:
        steps_alone = all(request.kind == "step" and request.labels is None for request in requests)
        few = steps_alone and sum(request.size for request in requests) <= MAX_SINGLE_ROWS
        if self._is_stale and not few:  # who predicts shall not wait for many rows
            self._publish()
        if requests[0].replaces:
            with self.shadowing.resting():
                answers = self.knowledge.apply(requests)
        else:
            answers = self.knowledge.apply(requests)
        self._settle()
        with self._changed:
            for _ in requests:
                self._accepted.popleft()
        if few:
            self._is_stale = True
        else:
            self._publish(self._era + requests[0].replaces)
        return answers

    def _publish(self, era: int | None = None) -> None:
        """Let predictions be made from what is known now."""
        view = self.model.view()
        with self._changed:
            for request in self._accepted:
                if request.kind == "predict" and request.prediction is not None:
                    view = view.after(request.prediction.standing)
            self._view, self._is_stale = view, False
            self._era = self._era if era is None else era

    def settled(self) -> Knowledge:
        """Return what is known, with rows that came singly scored, unless many rows are being learnt just now."""
        if self.model.unscored and self._lock.acquire(timeout=SETTLE_PATIENCE):
            try:
                self.knowledge.score_singly()
            finally:
                self._lock.release()
        return self.knowledge

    def _drop(self, requests: list[Request], problem: Problem) -> None:
        with self._changed:
            gone = {id(request) for request in requests}
            self._accepted = deque(each for each in self._accepted if id(each) not in gone)
        for request in requests:
            if not request.future.done():
                request.future.set_exception(problem)

    def _settle(self) -> None:
        try:
            self.knowledge.settle()
        except OSError:
            self._set_full(True)

    def _return(self, request: Request) -> None:
        """Know what a checkpoint knows from here on; what was learnt since is in the history alone."""
        known = Knowledge(self.config, self.directory / "history", self._notify, request.former.loaded)
        try:
            with self._lock:
                if self.failure is None:
                    self.knowledge.score_singly()
                known.begin_anew(
                    Return(request.position, request.number, request.at), request.chain, self.knowledge.history
                )
                with self._changed:
                    self._accepted.popleft()
                self.knowledge, self.failure = known, None
                self._settle()
                self._publish(self._era + 1)
        except Exception as error:
            self.failure = f"the return to {request.number:,} failed ({error})"
            self._drop([request], Problem(500, f"{self.config.name}: {self.failure}"))
            return
        answer = {"restored": request.number, "position": request.position}
        self._notify("restored", answer)
        with self.shadowing.resting():
            self._checkpoint([])
        self._writer.acknowledge(self.token, request.position, partial(_answer, request, answer))

    # Checkpoints

    def _is_due(self) -> bool:
        is_due = self.failure is None and self.checkpointing.is_due(self.knowledge.position)
        return is_due and self.shadowing.rests()

    def _checkpoint(self, wanted: list["Future[Any]"]) -> None:
        """Write a checkpoint, unless the model may have learnt half of an entry, and answer those who want it."""
        if self.failure is not None:
            for future in wanted:
                future.set_exception(Problem(500, f"{self.config.name}: {self.failure}"))
            return
        with self._lock:
            self.knowledge.score_singly()
        oldest = self.checkpointing.write(self.knowledge, wanted)
        if oldest is not None and self.sequencer is not None and not self.is_stopping:
            checkpoints = self.checkpoints.positions()
            oldest = oldest if len(checkpoints) >= KEPT else 0  # one that is alone may be damaged
            self.sequencer.keep_up("forget", lambda log: log.forgetting(oldest, checkpoints))
            self.sequencer.keep_up("renew", lambda log: log.renewing())

    # What is shown

    def status(self) -> dict[str, Any]:
        """Return what the stream is and how it is."""
        self.settled()
        return describe(self)

    def durability(self) -> dict[str, Any]:
        """Return what is on disk, and how long a restart would take."""
        return describe_durability(self)


def _answer(request: Request, answer: Any, problem: Problem | None) -> None:
    """Give a request its answer, or say why it gets none."""
    problem = answer if isinstance(answer, Problem) else problem
    if problem is not None:
        request.future.set_exception(problem)
    else:
        request.future.set_result(answer)
