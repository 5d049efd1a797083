"""When a leader may acknowledge: what its standby has on disk, and for how long it waits for that."""

from collections import deque
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

from streamgp.service.problems import Problem
from streamgp.service.standby.epoch import FENCED, LEADER, STANDBY, Epoch, EpochFile
from streamgp.service.writer import Writer

# The seconds for which a leader waits for its standby before it goes on alone.
TIMEOUT = 10.0
# A standby that is so many entries behind is waited for.
NEAR = 1_000
TICK = 0.1
# A process that stood still for so many seconds may have been replaced, and listens for the whole time again.
STOOD_STILL = 1.0

Tell = Callable[[Problem | None], None]


class _Waiting(NamedTuple):
    position: int
    since: float
    tell: Tell


class Leadership(Writer):
    """Who leads, and what the standby of this service has.

    While it is in step, an entry is acknowledged once the standby has it on disk. Every exchange in step is a lease:
    for `timeout` seconds from its begin the standby knows that it has all that was acknowledged. The leader goes on
    alone when it has heard of no standby for so long.

    Parameters
    ----------
    file
        Where it is kept who leads.
    positions
        Returns the last position of every stream that can be opened, by its token.
    timeout
        Seconds.
    """

    def __init__(self, file: EpochFile, positions: Callable[[], dict[str, int]], timeout: float = TIMEOUT) -> None:
        self.file = file
        self.timeout = timeout
        # The address of this service, once it has one.
        self.address = ""
        self._positions = positions
        self._lock = Lock()
        # What the standby has on disk, by token; a leader that begins again does not know it yet.
        self.confirmed: dict[str, int] = {}
        self._waiting: dict[str, deque[_Waiting]] = {}
        # Whether clients are answered only when the standby has what they sent.
        self._waits = self.now.role == LEADER and bool(self.now.standby) and not self.now.alone
        # What the standby must have for a lease; None: all that there is when it asks first.
        self._needed: dict[str, int] | None = None
        # Set when a stream has another entry.
        self.news = Event()
        # The seconds since the last lease began.
        self._silent = 0.0
        self._stopping = Event()
        self._thread: Thread | None = None

    @property
    def now(self) -> Epoch:
        """Who leads."""
        return self.file.now

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """How often a standby has become the leader."""
        return self.now.number

    @property
    def leads(self) -> bool:
        """Whether this service takes rows."""
        return self.now.role == LEADER

    @property
    def is_in_step(self) -> bool:
        """Whether the standby has all that was acknowledged."""
        return self._waits and not self.now.alone

    def entered(self) -> None:
        """Note that a stream has another entry."""
        self.news.set()

    def start(self) -> None:
        """Begin to count the time."""
        self._thread = Thread(target=self._run, name="streamgp-lease", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Refuse who waits, now and from now on; a signal may call it."""
        self._stopping.set()

    def stop(self) -> None:
        """Refuse who waits, and end."""
        self.leave()
        if self._thread is not None:
            self._thread.join()

    # What clients are answered

    def check(self) -> None:
        """Raise `Problem` if this service takes no rows."""
        now = self.now
        if now.role == FENCED:
            raise Problem(
                503,
                f"this service was replaced by {now.leader or 'another one'}, which leads in epoch {now.number}: "
                f"send it there",
                retry_after=5,
                leader=now.leader,
            )
        if now.role == STANDBY:
            raise Problem(
                503,
                f"this is the standby of {now.leader}, and takes no rows: send it there, or promote this service",
                retry_after=5,
                leader=now.leader,
            )

    def acknowledge(self, token: str, position: int, tell: Tell) -> None:
        """Call `tell` when what the stream of a token has up to a position may be acknowledged, or why it may not."""
        with self._lock:
            problem = self._refusal()
            if problem is None and self._waits and self.confirmed.get(token, -1) < position:
                if not self._stopping.is_set():
                    self._waiting.setdefault(token, deque()).append(_Waiting(position, monotonic(), tell))
                    return
                problem = _stopped()
        tell(problem)

    # What the standby has

    def confirm(self, standby: str, positions: Mapping[str, int]) -> bool:
        """Take note of what a standby has on disk; return whether that is all that was acknowledged: a lease.

        Parameters
        ----------
        standby
            Its name.
        positions
            Of each stream that it has, by the token that this leader gave it.

        Raises
        ------
        Problem
            If this service has another standby, or does not lead.
        """
        with self._lock:
            self.check()
            self._admit(standby)
            self.confirmed, last, now = dict(positions), self._positions(), monotonic()
            ready = self._taken(positions)
            since = min((queue[0].since for queue in self._waiting.values()), default=now)
            if not self._waits and self._is_near(positions, last):
                self._waits, self._silent, self._needed = True, 0.0, None
            self._needed = last if self._needed is None else self._needed
            self._needed |= {token: max(each, self._needed.get(token, 0)) for token, each in positions.items()}
            has_all = all(positions.get(token, -1) >= self._needed.get(token, 0) for token in last)
            is_in_step = self._waits and has_all and now - since < self.timeout
            if is_in_step:
                self.file.write(alone=False)
                self._silent = 0.0
        _tell(ready, None)
        return is_in_step

    def _admit(self, standby: str) -> None:
        now = self.now
        if standby == now.standby:
            return
        if now.standby and self._waits:
            raise Problem(
                409,
                f"standby: expected {now.standby}, which this service has, got {standby}; a service has one. It is "
                f"forgotten when it has not asked for {self.timeout:g} seconds",
                retry_after=2,
            )
        self.file.write(standby=standby, alone=True)

    def _is_near(self, positions: Mapping[str, int], last: Mapping[str, int]) -> bool:
        behind = sum(position - positions.get(token, -1) for token, position in last.items())
        return last.keys() <= positions.keys() and behind <= NEAR

    def _taken(self, positions: Mapping[str, int] | None = None) -> list[Tell]:
        """Return those whose positions the standby has, or all, and let them wait no longer."""
        found = []
        for token, queue in list(self._waiting.items()):
            while queue and (positions is None or queue[0].position <= positions.get(token, -1)):
                found.append(queue.popleft().tell)
            if not queue:
                del self._waiting[token]
        return found

    # Who leads

    def replaced(self, service: str, number: int, leader: str) -> None:
        """Take no more rows, as another service leads by now; what waits is not acknowledged.

        Raises
        ------
        Problem
            If that is not a later epoch of these streams.
        """
        with self._lock:
            now = self.now
            if service == now.service and (now.role == STANDBY or (now.role == FENCED and number == now.number)):
                # It takes no rows as it is.
                return
            if service != now.service or number <= now.number:
                raise Problem(
                    409,
                    f"epoch: expected a later one than {now.number} of {now.service or 'a service with a standby'}, "
                    f"got {number} of {service}",
                    epoch=now.number,
                    leader=self.address,
                )
            self.file.write(role=FENCED, number=number, leader=leader, former="")
            problem, ready = self._refusal(), self._released()
        _tell(ready, problem)

    def lead(self, number: int, former: str) -> None:
        """Take rows from now on, in place of another leader, which may not know it yet."""
        with self._lock:
            self.file.write(role=LEADER, number=number, leader="", standby="", alone=True, former=former)

    def _refusal(self) -> Problem | None:
        try:
            self.check()
        except Problem as problem:
            return problem
        return None

    def _released(self) -> list[Tell]:
        """Return all who wait, and have nobody wait from now on; the caller has the lock."""
        self._waits, self._needed = False, None
        return self._taken()

    def _run(self) -> None:
        last = monotonic()
        while not self._stopping.wait(TICK):
            now = monotonic()
            self.passed(now - last)
            last = now
        with self._lock:
            ready = self._taken()
        _tell(ready, _stopped())

    def passed(self, seconds: float) -> None:
        """Note that so many seconds have passed, and go on alone if the last lease has ended."""
        with self._lock:
            self._silent = 0.0 if seconds > STOOD_STILL else self._silent + seconds
            if not self._waits or self._silent < self.timeout:
                return
            try:
                # The disk has it that the standby has no lease, before anything is acknowledged alone.
                self.file.write(alone=True)
            except OSError:
                return
            ready = self._released()
        _tell(ready, None)


def _tell(waiting: list[Tell], problem: Problem | None) -> None:
    for each in waiting:
        each(problem)


def _stopped() -> Problem:
    return Problem(503, "the service stops before its standby has this; send it again", retry_after=5)


def describe(leadership: Leadership, lag: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return who leads, and how far the standby is, for clients."""
    now = leadership.now
    found = {"role": now.role, "epoch": now.number, "leader": now.leader or None}
    if now.role == LEADER and now.standby:
        found |= {"standby": now.standby, "in_step": leadership.is_in_step}
    return found | dict(lag or {})
