"""A connection to another service: requests of JSON, and answers as bytes."""

import json
import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from streamgp.service.problems import Problem

# What a request may end with, beside a refusal (`Problem`).
ERRORS = (OSError, HTTPException, ValueError)
# The seconds that an answer is waited for.
PATIENCE = 5.0


class Link:
    """A connection, opened when it is needed, and used by one thread.

    Parameters
    ----------
    url
        Of the other service.
    token
        That it asks for; None: it asks for none.

    Raises
    ------
    ValueError
        If that is no address.
    """

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"expected an address such as http://10.0.0.1:8765, got {url!r}")
        self.url = url
        self._host, self._port = parts.hostname, parts.port
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection: HTTPConnection | None = None

    def post(self, path: str, document: dict[str, Any], patience: float = PATIENCE) -> bytes:
        """Send a document; return the answer.

        Raises
        ------
        Problem
            If it is refused.
        OSError, HTTPException, ValueError
            If there is no answer, or one that is none of a service.
        """
        return self.ask("POST", path, json.dumps(document).encode(), patience).read()

    def ask(self, method: str, path: str, body: bytes | None = None, patience: float = PATIENCE) -> HTTPResponse:
        """Send a request; return an answer that is still to be read. It raises what `post` does."""
        try:
            if self._connection is None:
                self._connection = self._kind(self._host, self._port)
            self._connection.timeout = patience
            if self._connection.sock is not None:
                self._connection.sock.settimeout(patience)
            headers = self._headers | {"Content-Type": "application/json"}
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
        except ERRORS:
            self.close()
            raise
        if answer.status != 200:
            found = json.loads(answer.read())
            detail = found.pop("detail")
            more = {name: value for name, value in found.items() if name not in ("type", "title", "status")}
            raise Problem(answer.status, detail, **more)
        return answer

    def interrupt(self) -> None:
        """Have a request end that waits for its answer in another thread."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
