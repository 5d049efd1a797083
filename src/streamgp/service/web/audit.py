"""The audit log: a line of JSON for each request that needs a token."""

import json
import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.service.web.access import CALLER, OPEN, ROUTES, Caller, route_of

# The bytes of a file, after which it is renamed and another one begun; so many former ones are kept.
MAX_BYTES = 100_000_000
KEPT = 4
# Asked many times a second by a standby, or by anybody; no line is written.
QUIET = {route for route, need in ROUTES.items() if need == OPEN} | {"POST /v1/standby/entries"}


class AuditLog(WatchedFileHandler):
    """A file of lines, which may be renamed while it is written: the next line begins a new one.

    When it is full it is renamed to end in ``.1``, and what had that name to end in ``.2``; the last one is deleted.
    A line that cannot be written is reported on standard error, and stops no request.

    Parameters
    ----------
    path
        Of the file; made for its owner alone, added to if it is there.

    Raises
    ------
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, to a new file if this one is full."""
        super().emit(record)
        # A file that cannot be renamed grows.
        with suppress(OSError):
            if os.stat(self.baseFilename).st_size >= MAX_BYTES:
                for number in range(KEPT - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        os.replace(f"{self.baseFilename}.{number}", f"{self.baseFilename}.{number + 1}")
                os.replace(self.baseFilename, f"{self.baseFilename}.1")

    def write(self, line: dict[str, Any]) -> None:
        """Add a line."""
        self.handle(logging.makeLogRecord({"msg": json.dumps(line)}))

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=partial(os.open, mode=0o600))


class Audited:
    """Writes who asked for what, on which stream, and how it ended; never a token, nor a body.

    Parameters
    ----------
    app
        What answers, `streamgp.service.web.security.Guard`.
    log
        Where the lines go.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        route = route_of(scope["method"], scope["path"])[0] if scope["type"] == "http" else None
        if scope["type"] != "http" or route in QUIET:
            await self._app(scope, receive, send)
            if scope["type"] == "lifespan":
                self._log.close()
            return
        is_written = False

        def write(status: int | None) -> None:
            nonlocal is_written
            if not is_written:
                is_written = True
                self._log.write(_line(scope, status))

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                write(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            # The client has left before its answer.
            write(None)


def _line(scope: Scope, status: int | None) -> dict[str, Any]:
    caller: Caller = scope[CALLER]
    return {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "who": caller.tenant.name if caller.is_tenant else None,
        "from": (scope.get("client") or ("",))[0],
        "what": caller.route,
        "stream": caller.stream,
        "status": status,
    }
