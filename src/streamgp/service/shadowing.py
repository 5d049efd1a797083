"""The thread in which a stream's challengers learn, so that no answer of the stream waits for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from time import monotonic

from streamgp.service.challenger import Challenger
from streamgp.service.challengers import MOST_BEHIND, Challengers
from streamgp.service.requests import CHALLENGER, Request

# From so many rows on that one is behind, they learn also while the stream has something to do.
POLITE_ROWS = 1_000
# For so many seconds nothing new is begun, once somebody has asked for a rest.
ASKED_SECONDS = 2.0


class Shadowing:
    """Has the challengers learn what came, a piece at a time; a thread is begun when there are some.

    Parameters
    ----------
    name
        Of the stream.
    changed
        Of the stream: tells of what it has done.
    find
        Returns the challengers, which others replace when the stream is set back.
    is_busy
        Returns whether the stream has anything to do.
    """

    def __init__(
        self, name: str, changed: Condition, find: Callable[[], Challengers], is_busy: Callable[[], bool]
    ) -> None:
        self._name = name
        self._changed = changed
        self._find = find
        self._is_busy = is_busy
        self._thread: Thread | None = None
        self._at_work = False
        self._is_stopping = False
        # So many want it to rest, and until when it begins nothing as somebody may.
        self._resters = 0
        self._asked_until = 0.0
        # Those whose end was asked for.
        self._late: set[Challenger] = set()

    def wake(self) -> None:
        """Go on, if there is something to do."""
        if not self._find().has_work:
            return
        with self._changed:
            if self._thread is None and not self._is_stopping:
                self._thread = Thread(target=self._run, name=f"streamgp-{self._name}-challengers", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def stop(self) -> None:
        """End; what is left to learn is kept."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def rests(self) -> bool:
        """Return whether nothing is being learnt just now; if not, it soon will be so."""
        with self._changed:
            self._asked_until = monotonic() + ASKED_SECONDS
            return not self._at_work

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let nothing be learnt during the body of a ``with`` statement."""
        with self._changed:
            self._resters += 1
            self._changed.wait_for(lambda: not self._at_work)
        try:
            yield
        finally:
            with self._changed:
                self._resters, self._asked_until = self._resters - 1, 0.0
                self._changed.notify_all()

    def limit(self, leads: bool) -> list[Request]:
        """Return what ends those that are too far behind; a service that does not lead has them catch up instead."""
        late = [each for each in self._find().all() if each.behind > MOST_BEHIND and each not in self._late]
        if late and not leads:
            with self.resting():
                self._find().catch_up(MOST_BEHIND)
            return []
        self._late.update(late)
        why = f"it was more than {MOST_BEHIND:,} rows behind the stream: its model is too slow for it"
        return [Request(CHALLENGER, challenger={"do": "fail", "name": each.name, "why": why}) for each in late]

    def _may_work(self) -> bool:
        """Return whether there is something to do and nobody in the way."""
        challengers = self._find()
        if self._resters or monotonic() < self._asked_until or not challengers.has_work:
            return False
        return not self._is_busy() or challengers.behind > POLITE_ROWS

    def _run(self) -> None:
        while True:
            with self._changed:
                self._at_work = False
                self._changed.notify_all()
                while not (self._is_stopping or self._may_work()):
                    self._changed.wait(timeout=1.0)
                if self._is_stopping:
                    return
                self._at_work = True
            self._find().work()
