"""Checks before every route: access, size and rate limits, and the headers that browsers use."""

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.service.problems import Problem, unforeseen
from streamgp.service.web.bodies import refusal
from streamgp.service.web.tokens import Token, find

# An announced body must send a part within so many seconds.
BODY_SECONDS = 30.0
# A body that takes longer must send so many bytes a second.
BODY_RATE = 1_000.0
OPEN = ("/livez", "/readyz", "/")
_SCOPES = (
    (re.compile(r"/v1/streams/[^/]+/(predict|forecast)"), "predict"),
    (re.compile(r"/v1/streams/[^/]+/(learn|step)"), "learn"),
)
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def scope_of(method: str, path: str) -> str | None:
    """Return what a client must be allowed to do for a request; None where anybody may."""
    if path in OPEN or path.startswith("/static/"):
        return None
    if method in ("GET", "HEAD"):
        return "read"
    for pattern, scope in _SCOPES:
        if method == "POST" and pattern.fullmatch(path):
            return scope
    return "admin"


class Guard:
    """Refuses requests that may not be made, and adds headers to all answers.

    Parameters
    ----------
    app
        What answers the others.
    tokens
        Those of the clients; None: the service is on loopback, and any local process may.
    max_body
        Bytes of a request.
    max_rate
        Requests of a client in a second, on average over ten; None: any number.
    """

    def __init__(self, app: ASGIApp, tokens: Sequence[Token] | None, max_body: int, max_rate: float | None) -> None:
        self._app = app
        self._tokens = tokens
        self._max_body = max_body
        self._max_rate = max_rate
        # For each client: the requests left, and the time of that count.
        self._left: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        started = has_left = False
        # A problem with the body. The application would wrap it in other errors.
        wrong: Problem | None = None

        async def send_checked(message: Message) -> None:
            if wrong is None and not has_left:
                await send_with_headers(message)

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *_ENCODED]
            await send(message)

        taken, complete, asked_at = 0, False, None

        async def receive_within() -> Message:
            nonlocal taken, complete, asked_at, wrong, has_left
            # The next message is the end of the connection.
            if complete:
                return await receive()
            now = monotonic()
            asked_at = now if asked_at is None else asked_at
            # A body that sends single bytes slowly runs out of time.
            left = asked_at + BODY_SECONDS + taken / BODY_RATE - now
            try:
                async with asyncio.timeout(min(left, BODY_SECONDS)):
                    message = await receive()
            except TimeoutError:
                wrong = Problem(408, f"the body: expected it within {BODY_SECONDS:g} seconds, got a part of it")
                raise wrong from None
            if message["type"] == "http.disconnect":
                has_left = True
                return message
            complete = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > self._max_body:
                wrong = self._too_large(f"more than {self._max_body:,}")
                raise wrong
            return message

        try:
            self._check(scope, headers)
            await self._app(scope, receive_within, send_checked)
        except Problem as problem:
            wrong = problem
        except Exception as error:
            if has_left:
                return
            if wrong is None:
                if not started:
                    await refusal(unforeseen(error))(scope, receive, send_with_headers)
                raise
        if wrong is not None and not started:
            await refusal(wrong)(scope, receive, send_with_headers)

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        method, path = scope["method"], scope["path"]
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body:
            raise self._too_large(length[:20])
        client = (scope.get("client") or ("", 0))[0]
        if self._tokens is None:
            self._check_local(headers)
        else:
            needed = scope_of(method, path)
            if needed is not None:
                client = self._check_token(headers.get("authorization", ""), needed, client)
        self._check_rate(client)

    def _too_large(self, got: str) -> Problem:
        return Problem(413, f"the body: expected at most {self._max_body:,} bytes, got {got}; send several requests")

    def _check_local(self, headers: dict[str, str]) -> None:
        """Refuse what a page of another site sends through the user's browser (rebinding and forging)."""
        host = headers.get("host", "")
        if not _is_loopback(host):
            raise Problem(
                403, f"Host: expected that of this machine, got {host[:80]!r}; without tokens only it may ask"
            )
        origin = headers.get("origin")
        if (origin not in (None, "null") and origin.partition("://")[2] != host) or origin == "null":
            raise Problem(403, f"Origin: expected {host}, got {origin[:80]!r}; pages of other sites may not ask")

    def _check_token(self, given: str, needed: str, client: str) -> str:
        assert self._tokens is not None
        kind, _, secret = given.partition(" ")
        token = find(self._tokens, secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            self._check_rate(f"refused {client}")
            raise Problem(401, "Authorization: expected Bearer and a valid token; ask who runs this service for one")
        if needed not in token.scopes:
            raise Problem(
                403, f"the token of {token.name!r} may {', '.join(token.scopes)}, and this needs {needed!r}"
            )
        return f"token {token.name}"

    def _check_rate(self, client: str) -> None:
        if self._max_rate is None:
            return
        most, now = 10.0 * self._max_rate, monotonic()
        left, then = self._left.pop(client, (most, now))
        left = min(most, left + (now - then) * self._max_rate) - 1.0
        # The client asked last is at the end.
        self._left[client] = (max(left, -1.0), now)
        while len(self._left) > 10_000:
            del self._left[next(iter(self._left))]
        if left < 0.0:
            raise Problem(
                429,
                f"expected at most {self._max_rate:g} requests a second, got more; send rows together",
                retry_after=1,
            )


@lru_cache(16)
def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
