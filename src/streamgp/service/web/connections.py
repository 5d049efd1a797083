"""Limits on connections: their waiting times, their number, and room for probes."""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Any, Literal, cast

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from streamgp.service.problems import Problem
from streamgp.service.web.bodies import PROBLEM, refusal
from streamgp.service.web.security import HEADERS

# The most connections.
MOST = 1_000
# The most connections of one address.
MOST_OF_ONE = 500
# The lines and headers of a request must be there within so many seconds.
HEAD_SECONDS = 10.0
# A connection that reads nothing of an answer is closed after so many seconds.
WRITE_SECONDS = 30.0
# The most seconds between two requests.
IDLE_SECONDS = 75.0
# So many connections are accepted at once, before the room for them is checked.
BACKLOG = 16
# Descriptors kept for logs, checkpoints and the connections accepted at once; half of all at most.
RESERVED = 256
SWEEP_SECONDS = 1.0
PROBES = ("/livez", "/readyz", "/metrics")
# One in so many waiting connections is closed, so that one look at all of them makes room for many.
_CLOSED_AT_ONCE = 10

# What a connection waits for, in the order in which those that wait longest are closed where there is no room.
Waits = Literal["head", "body", "reader", "next"]
_ORDER: tuple[Waits, ...] = ("head", "body", "reader", "next")


def raise_descriptors() -> int:
    """Let the process have as many open files as it may, up to some; return how many that are."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return 1 << 30
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    wanted = 1 << 14
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            # The limit stays as it is.
            pass
    return soft


def origin_of(address: str) -> str:
    """Return what stands for one client: an address, or the network of 64 bits in which one has all addresses."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped) if mapped is not None else found.exploded[:19]


class Connections:
    """All connections of a service.

    Parameters
    ----------
    descriptors
        How many the process may have.
    """

    def __init__(self, descriptors: int) -> None:
        self._last_descriptor = descriptors - min(RESERVED, descriptors // 2)
        self._of: dict[str, set[Connection]] = defaultdict(set)
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, new: "Connection") -> None:
        """Take a connection in; make room for it if need be."""
        theirs = self._of[new.origin]
        theirs.add(new)
        self._count += 1
        if len(theirs) > MOST_OF_ONE:
            self._make_room(theirs, new)
        is_last = new.descriptor > self._last_descriptor
        if self._count > MOST or is_last:
            made = self._make_room(self._all(), new)
            new.is_over = is_last and not made
        if self._timer is None:
            self._timer = new.loop.call_later(SWEEP_SECONDS, self._sweep, new.loop)

    def drop(self, connection: "Connection") -> None:
        """Forget a connection that is closed, or about to be."""
        theirs = self._of.get(connection.origin, set())
        if connection in theirs:
            theirs.discard(connection)
            self._count -= 1
            if not theirs:
                del self._of[connection.origin]

    def has_room(self, connection: "Connection") -> bool:
        """Return whether a request may be worked at; if not, nearly all connections are busy."""
        theirs = self._of.get(connection.origin, ())
        return len(theirs) <= MOST_OF_ONE and self._count <= MOST and not connection.is_over

    def _all(self) -> list["Connection"]:
        return [each for theirs in self._of.values() for each in theirs]

    def _make_room(self, some: Iterable["Connection"], new: "Connection") -> bool:
        """Close those that have waited longest, of those that wait for the first of the reasons first; say if any."""
        waiting = [(each.waits, each) for each in some if each is not new]
        found = [(_ORDER.index(waits), each.since, each) for waits, each in waiting if waits is not None]
        found.sort(key=lambda entry: entry[:2])
        for _, _, each in found[: 1 + len(found) // _CLOSED_AT_ONCE]:
            each.end(Problem(503, "too many connections: the one that waited longest was closed", retry_after=1))
            self.drop(each)
        return bool(found)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close those that have kept the service waiting for too long."""
        now = monotonic()
        for each in self._all():
            each.check(now)
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop) if self._count else None


class _Flow(FlowControl):
    """Knows since when a client has not read what is written."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.paused_at: float | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self.paused_at = monotonic()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.paused_at = None


class _Transport:
    """Writes the head of an answer together with the first part of its body, in one call of the system.

    It does all else as the transport that it is given.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        # Whether what is written next is a head.
        self.is_head = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, or keep a head."""
        if self.is_head:
            self._head, self.is_head = data, False
        else:
            self._transport.write(self._head + data)
            self._head = b""


class Connection(H11Protocol):
    """A connection that is closed if its client keeps the service waiting; its refusals are problems as all are.

    Parameters
    ----------
    connections
        Those of the service.
    given
        What uvicorn gives.
    """

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self._answer, self.app = self.app, self._admitted
        self.origin = ""
        self.descriptor = -1
        # Whether this connection is beyond the number of descriptors.
        self.is_over = False
        self._since = monotonic()
        self._ended_at: float | None = None

    # What uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection in."""
        super().connection_made(transport)
        self._writes = _Transport(transport)
        self.transport = cast(asyncio.Transport, self._writes)
        self.flow = _Flow(transport)
        self.origin = origin_of(self.client[0] if self.client else "")
        self.descriptor = transport.get_extra_info("socket").fileno()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.drop(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self.waits == "next":
            self._since = monotonic()
        if self._ended_at is None:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        self._since = monotonic()
        super().on_response_complete()

    def shutdown(self) -> None:
        """End with the service: at once if the client is waited for, else after the answer."""
        if self.waits in ("body", "reader"):
            self.end(Problem(503, "the service is being stopped; ask again soon", retry_after=5))
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; uvicorn calls this where it has caught an error of h11."""
        error = sys.exc_info()[1]
        status = getattr(error, "error_status_hint", 400)
        self.end(Problem(status, f"expected a request of HTTP/1.1, got something else ({error or msg})"))

    # Waiting

    @property
    def _paused_at(self) -> float | None:
        return self.flow.paused_at if isinstance(self.flow, _Flow) else None

    @property
    def _has_part(self) -> bool:
        """Whether something of a request is there."""
        return self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])

    @property
    def since(self) -> float:
        """Since when the client has been waited for."""
        paused_at = self._paused_at
        return self._since if paused_at is None else paused_at

    @property
    def waits(self) -> Waits | None:
        """What the client is waited for; None while the service itself is at work, or has done with it."""
        if self._ended_at is not None:
            return None
        if self._paused_at is not None:
            return "reader"
        if self.cycle is None:
            return "head"
        if self.cycle.response_complete:
            return "head" if self._has_part else "next"
        return "body" if self.cycle.more_body else None

    def check(self, now: float) -> None:
        """Close the connection if it has waited for too long; for bodies `Guard` looks."""
        if self.transport.is_closing() and self._ended_at is None:
            self._ended_at = now
        if self._ended_at is not None:
            # The client does not read the last answer.
            if now > self._ended_at + WRITE_SECONDS:
                self.transport.abort()
            return
        waits, waited = self.waits, now - self.since
        if waits == "head" and waited > HEAD_SECONDS:
            self.end(Problem(408, f"expected the head of a request within {HEAD_SECONDS:g} seconds, got a part"))
        elif waits == "reader" and waited > WRITE_SECONDS:
            self.transport.abort()
        elif waits == "next" and waited > IDLE_SECONDS:
            self.transport.close()

    def end(self, problem: Problem) -> None:
        """Close the connection; say why if a part of a request is there, and nothing of an answer."""
        has_begun = self.cycle is not None and self.cycle.response_started
        if self.transport.is_closing() or has_begun or not self._has_part:
            self.transport.abort()
        else:
            self.transport.write(_as_bytes(problem))
            self.transport.close()
        self._ended_at = monotonic()

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, if there is room for it; there always is for probes."""

        async def send_together(message: Message) -> None:
            self._writes.is_head = message["type"] == "http.response.start"
            await send(message)

        if scope["path"] in PROBES or self._connections.has_room(self):
            await self._answer(scope, receive, send_together)
            return
        answer = refusal(Problem(503, "too many requests are worked at; ask again soon", retry_after=1))
        answer.headers.update({"connection": "close"} | HEADERS)
        await answer(scope, receive, send_together)


def _as_bytes(problem: Problem) -> bytes:
    """Return a whole answer, for a connection on which none can be sent in the usual way."""
    body = json.dumps(problem.document).encode()
    head = [
        f"HTTP/1.1 {problem.status} {STATUS_PHRASES[problem.status].decode()}",
        f"Content-Type: {PROBLEM}",
        f"Content-Length: {len(body)}",
        *([] if problem.retry_after is None else [f"Retry-After: {problem.retry_after}"]),
        "Connection: close",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body
