"""Connections to a real service that end halfway, bodies that are too large, and clients that send slowly."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx

from benchmarks.common.serving import Changes, Server

PATIENCE = {"streamgp.service.web.security:BODY_SECONDS": 0.5}
HUNDRED_MB = 100 << 20
STREAM = {"name": "s", "target": "y", "features": ["a"], "model": "linear", "warmup": 12}
HEAD = b"POST /v1/streams/s/step HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ROW = b'{"rows": [{"x": {"a": 1}, "y": 2}]}'
HALVES = {
    "nothing": b"",
    "half a line": b"POST /v1/stre",
    "half of the headers": HEAD,
    "no body": HEAD + b"Content-Length: 1000\r\n\r\n",
    "half a body": HEAD + b"Content-Length: 1000\r\n\r\n" + ROW,
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n100\r\n" + ROW,
    "no HTTP": b"\x16\x03\x01\x02\x00\x01" * 20,
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello",
    "a long line": b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
}


def connections(folder: Path) -> dict[str, str]:
    """Try each; return how it was answered.

    Raises
    ------
    AssertionError
        If the service has ended, hangs, or has taken in anything.
    """
    server = Server(folder / "live", folder / "cache")
    server.start(Changes(PATIENCE))
    assert server.wait(), server.said()
    found = {}
    try:
        httpx.post(f"{server.url}/v1/streams", json=STREAM)
        for name, data in HALVES.items():
            for ends in (True, False):
                found[f"{name}, {'closed' if ends else 'left open'}"] = _half(server.port, data, ends)
        for name, content in (("100 MB at once", b"x" * HUNDRED_MB), ("100 MB in chunks", _chunks())):
            found[name] = _large(server, content)
        answer = httpx.get(f"{server.url}/v1/streams/s", timeout=10.0).json()
        assert (answer["rows"], answer["state"]) == (0, "ready"), answer
        assert server.memory_mb() < 1_500, f"{server.memory_mb():.0f} MiB after large bodies"
        assert httpx.post(f"{server.url}/v1/streams/s/step", content=ROW).status_code == 200
    finally:
        server.stop()
    return found


def _half(port: int, data: bytes, ends: bool) -> str:
    """Send half of a request; return the first line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=3.0) as connection:
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4_096)
        except TimeoutError:
            return "no answer yet"
        except OSError as error:
            return type(error).__name__
    return answer.split(b"\r\n")[0].decode("latin-1") or "closed"


def _chunks() -> Iterator[bytes]:
    for _ in range(HUNDRED_MB >> 20):
        yield b"x" * (1 << 20)


def _large(server: Server, content: bytes | Iterator[bytes]) -> str:
    began = time.monotonic()
    try:
        answer = httpx.post(f"{server.url}/v1/streams/s/step", content=content, timeout=30.0)
        assert answer.status_code == 413, answer.text[:300]
        said = "413"
    except httpx.WriteError:
        said = "refused while it was sent"
    except httpx.RemoteProtocolError:
        said = "closed while it was sent"
    assert time.monotonic() - began < 20.0, "a body that is too large took too long"
    return said
