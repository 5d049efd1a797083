"""The schedule of a stream's checkpoints, and the requests that wait for one."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import time
from typing import Any

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.service.checkpoints import Checkpoints
from streamgp.service.knowledge import Knowledge, Notify
from streamgp.service.pace import Pace
from streamgp.service.problems import Problem
from streamgp.service.requests import promise

# The least number of seconds between two checkpoints.
SECONDS = 30.0
# The largest share of the time that checkpoints may take.
SHARE = 0.1


class Checkpointing:
    """Writes checkpoints of what a stream knows, by the stream's own thread.

    Parameters
    ----------
    checkpoints
        All that there are.
    written
        The position of the log at the latest, and when that was written.
    set_full
        Called with whether the disk refuses to take more.
    notify
        Called with the name of an event and what it says.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        written: tuple[int, float | None],
        set_full: Callable[[bool], None],
        notify: Notify,
    ) -> None:
        self.checkpoints = checkpoints
        self.position, self.at = written
        self._pace = Pace(lambda: SECONDS, lambda: SHARE)
        self._set_full = set_full
        self._notify = notify
        self.wanted: list[Future[Any]] = []
        # So many copies are being made of the stream.
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let none become due during the body of a ``with`` statement: the log keeps what goes on from the latest."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def want(self) -> "Future[Any]":
        """Return what is fulfilled with the next one."""
        future = promise()
        self.wanted.append(future)
        return future

    def is_due(self, position: int) -> bool:
        """Return whether a checkpoint of the state at a position is due."""
        return position > self.position and not self._pauses and self._pace.is_over()

    def write(self, knowledge: Knowledge, wanted: list["Future[Any]"]) -> int | None:
        """Write one, and answer those who want it; return from where on the log is needed, None if nothing is new."""
        found: int | Problem | None = None
        if knowledge.position > self.position or not self.checkpoints.positions():
            with self._pace.measured():
                found = self._write(knowledge)
        if wanted and not isinstance(found, Problem):
            try:
                self.checkpoints.ask_for(self.position)
            except OSError as error:
                found = Problem(507, f"the checkpoint could not be noted as wanted: {error}", retry_after=30)
        for future in wanted:
            if isinstance(found, Problem):
                future.set_exception(found)
            else:
                future.set_result({"position": self.position})
        return None if isinstance(found, Problem) else found

    def _write(self, knowledge: Knowledge) -> int | Problem:
        now, position = time(), knowledge.position
        try:
            oldest = self.checkpoints.write(
                position, lambda path: knowledge.save(path, now), knowledge.about(now), knowledge.returns
            )
        except Exception as error:
            # No error is fatal here: accepted requests are in the log.
            is_full = isinstance(error, CheckpointError | OSError)
            self._set_full(is_full)
            self._notify("checkpoint", {"detail": str(error)})
            return Problem(507 if is_full else 500, f"the checkpoint could not be written: {error}", retry_after=30)
        self.position, self.at = position, now
        return oldest
