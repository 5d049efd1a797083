"""Checks before every route: access, size and rate limits, and the headers that browsers use."""

import asyncio
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.service.problems import Problem, unforeseen
from streamgp.service.web.access import CALLER, Access
from streamgp.service.web.bodies import refusal
from streamgp.service.web.rates import Rates
from streamgp.service.web.tokens import TokenFile

# An announced body must send a part within so many seconds.
BODY_SECONDS = 30.0
# A body that takes longer must send so many bytes a second.
BODY_RATE = 1_000.0
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
        Requests of a client in a second, on average over ten, if its tenant has no other; None: any number.
    """

    def __init__(self, app: ASGIApp, tokens: TokenFile | None, max_body: int, max_rate: float | None) -> None:
        self._app = app
        self._access = Access(tokens)
        self._rates = Rates()
        self._max_body = max_body
        self._max_rate = max_rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        # There are no websockets.
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        started = has_left = False
        # A problem with the body. The application would wrap it in other errors.
        wrong: Problem | None = None

        async def send_checked(message: Message) -> None:
            nonlocal has_left
            if wrong is not None or has_left:
                return
            # An answer without an end, such as that of events, ends with the token.
            if message.get("more_body") and not self._access.still_holds(scope[CALLER]):
                has_left, message = True, {"type": "http.response.body", "body": b"", "more_body": False}
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
            self._admit(scope, headers)
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

    def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        """Raise `Problem` unless the request may be made, by this client, now."""
        address = (scope.get("client") or ("", 0))[0]
        caller = self._access.caller(scope, headers.get("authorization", ""))
        if not self._access.has_tokens:
            self._check_local(headers)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body:
            raise self._too_large(length[:20])
        name = f"tenant {caller.tenant.name}" if caller.is_tenant else address
        if not caller.is_standby:
            self._rates.check(name, caller.tenant.max_rate or self._max_rate)
        self._access.check(caller)

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


@lru_cache(16)
def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
