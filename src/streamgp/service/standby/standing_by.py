"""What a standby does all the time: it asks its leader for entries, and keeps what it must know to take over."""

import logging
from itertools import count
from socket import gethostname
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any
from uuid import uuid4

from streamgp.service.problems import Problem
from streamgp.service.requests import EPOCH, Request
from streamgp.service.standby.epoch import STANDBY
from streamgp.service.standby.leadership import Leadership
from streamgp.service.standby.link import ERRORS, Link
from streamgp.service.standby.shipping import digest_of, take_copy, take_entries, unpacked
from streamgp.service.streams import Streams

LOGGER = logging.getLogger("streamgp.service")
# The seconds after a failure until the leader is asked again.
PAUSE = 0.5
# The seconds that a copy of a stream is waited for.
COPY_SECONDS = 600.0
# The directory for streams that went their own way.
ASIDE = "aside"


class StandingBy:
    """The standby of a leader, at work until it is promoted.

    Parameters
    ----------
    streams
        Its own.
    name
        Of this standby, which no other has.
    link
        To the leader.
    fencing
        Tells the former leader of a promotion.
    """

    def __init__(self, streams: Streams, name: str, link: Link, fencing: "Fencing") -> None:
        self._streams = streams
        self._leadership = streams.leadership
        self._name = name
        self._link = link
        self._fencing = fencing
        # Held while something of the leader is written, and for a promotion.
        self._lock = Lock()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="streamgp-standby", daemon=True)
        self._tokens: dict[str, str] = {}
        self._positions: dict[str, int] = {}
        self._began = monotonic()
        # When the standby had all of the leader last, and when a lease began last.
        self._level_at: float | None = None
        self._leased_at: float | None = None
        self._timeout = 0.0
        self._error: str | None = "the leader was not asked yet"

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
        self._link.interrupt()
        self._thread.join()

    @property
    def may_lead(self) -> bool:
        """Whether the standby has all that the leader has acknowledged, for sure."""
        return self._leased_at is not None and monotonic() - self._leased_at < self._timeout

    @property
    def has_copied(self) -> bool:
        """Whether it had all of its leader once, since it began."""
        return self._level_at is not None

    def lags(self) -> dict[str, int]:
        """Return how many entries each stream is behind, as far as is known."""
        own = {each.config.name: each.last_position for each in self._streams.all()}
        return {name: max(last - own.get(name, 0), 0) for name, last in self._positions.copy().items()}

    def status(self) -> dict[str, Any]:
        """Return how far behind the standby is, and whether it may lead."""
        since = self._began if self._level_at is None else self._level_at
        return {
            "lag_positions": sum(self.lags().values()),
            "lag_seconds": round(monotonic() - since, 3),
            "may_lead": self.may_lead,
            "error": self._error,
        }

    # What the leader has

    def _run(self) -> None:
        while not self._stopping.is_set():
            asked_at = monotonic()
            try:
                self._exchange(asked_at)
                self._error = None
                continue
            except ConnectionRefusedError as error:
                # Nobody acknowledges there: whoever begins again waits for this standby first.
                if self.may_lead:
                    self._leased_at = asked_at
                self._say(f"{self._link.url} refuses connections ({error.strerror})")
            except (Problem, *ERRORS) as error:
                self._say(f"{self._link.url}: {error}")
            except Exception as error:
                LOGGER.exception("the standby could not take what the leader has")
                self._say(f"{type(error).__name__}: {error}")
            self._stopping.wait(PAUSE)

    def _say(self, error: str) -> None:
        if error != self._error and not self._stopping.is_set():
            self._error = error
            LOGGER.error("standby: %s", error)

    def _exchange(self, asked_at: float) -> None:
        now, known = self._leadership.now, {}
        for stream in self._streams.all():
            stream.has_begun.wait()
            name, log = stream.config.name, stream.log
            known[name] = [log.position, log.chain.hex(), digest_of(stream.config), self._tokens.get(name, "")]
        asked = {"service": now.service, "epoch": now.number, "standby": self._name, "streams": known}
        answer, entries = unpacked(self._link.post("/v1/standby/entries", asked))
        with self._lock:
            if self._stopping.is_set():
                return
            self._check(answer)
            self._positions, self._timeout = answer["positions"], answer["timeout"]
            written = [each for name, of in entries.items() for each in take_entries(self._streams.get(name), of)]
            for each in written:
                each.result()
            self._tokens = answer["tokens"]
            for name in {*known, *self._streams.broken}.difference(answer["streams"]):
                self._streams.put(name, None)
            for name in answer["copy"]:
                self._copy(name)
            if not answer["copy"] and not any(self.lags().values()):
                self._level_at = monotonic()
            if answer["in_step"]:
                self._leased_at = asked_at

    def _check(self, answer: dict[str, Any]) -> None:
        """Note whose standby this is; raise `Problem` if it cannot be that of this leader."""
        now = self._leadership.now
        if answer["epoch"] < now.number:
            raise Problem(
                409,
                f"expected a leader of epoch {now.number} or later, got one of {answer['epoch']}, which was replaced",
            )
        self._leadership.file.write(service=answer["service"], number=answer["epoch"])

    def _copy(self, name: str) -> None:
        """Copy a stream of the leader; one that is there and goes another way goes aside."""
        base = self._streams.directory.parent / ASIDE
        aside = next(path for i in count(1) if not (path := base / f"{name}-{i}").exists())
        with self._link.ask("GET", f"/v1/standby/streams/{name}", patience=COPY_SECONDS) as source:
            take_copy(self._streams, name, source, aside)

    # Promotion

    def promote(self, force: bool) -> None:
        """Lead from now on.

        Raises
        ------
        Problem
            If the leader may have acknowledged what is not here, and `force` is not given.
        """
        with self._lock:
            now = self._leadership.now
            if self._leadership.leads:
                return
            if not (force or self.may_lead):
                raise Problem(409, self._doubt(), leader=now.leader)
            self._stopping.set()
            for stream in self._streams.all():
                if stream.sequencer is not None:
                    stream.sequencer.put(Request(EPOCH, number=now.number + 1))
            self._leadership.lead(now.number + 1, now.leader)
        self._link.interrupt()
        self._fencing.start()

    def _doubt(self) -> str:
        """Return why this standby may miss rows."""
        if self._leased_at is None:
            what = "it was not in step with its leader since it began"
        else:
            gone = monotonic() - self._leased_at
            what = f"it was in step {gone:.0f} s ago, and the leader goes on alone after {self._timeout:g} s"
        return (
            f"this standby may not have all that was acknowledged: {what}. End the leader for good, and promote with "
            f"force: what only the leader has is lost then"
        )


class Fencing:
    """Tells the leader that this service has replaced that it is one no longer, until it knows.

    Parameters
    ----------
    leadership
        Of this service.
    token
        That the former leader asks for.
    """

    def __init__(self, leadership: Leadership, token: str | None) -> None:
        self._leadership = leadership
        self._token = token
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin, if there is one who may not know."""
        if self._leadership.now.former and self._thread is None:
            self._thread = Thread(target=self._run, name="streamgp-fence", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        link = Link(self._leadership.now.former, self._token)
        while not self._stopping.is_set() and self._leadership.now.former:
            now = self._leadership.now
            told = {"service": now.service, "epoch": now.number, "leader": self._leadership.address}
            try:
                link.post("/v1/standby/fence", told)
                self._leadership.file.write(former="")
                break
            except Problem as problem:
                # The other one leads in a later epoch.
                if problem.more.get("epoch", 0) > now.number:
                    self._leadership.replaced(now.service, problem.more["epoch"], problem.more["leader"])
            except ERRORS:
                link.close()
            self._stopping.wait(PAUSE)
        link.close()


def begin(streams: Streams, url: str) -> str:
    """Note that a directory stands by; return the name of this standby, which no other has.

    Raises
    ------
    Problem
        If it has streams that no leader shares.
    """
    file = streams.leadership.file
    now = file.now
    if not now.service and any(path.name[0] != "." for path in streams.directory.iterdir()):
        raise Problem(
            409,
            f"{streams.directory.parent}: expected an empty directory, or that of a standby or of a leader which had "
            f"one, got streams of their own; name another one",
        )
    fresh = f"{gethostname()}:{streams.directory.parent.absolute()}:{uuid4().hex[:8]}"
    name = now.standby if now.role == STANDBY and now.standby else fresh
    file.write(role=STANDBY, leader=url, standby=name, former="")
    return name
