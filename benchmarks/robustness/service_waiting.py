"""A live service while one client holds connections that wait: how long others wait for their answers.

    python -m benchmarks.robustness.service_waiting --connections 1010 --out benchmarks/results/service_waiting.json

Each attack opens so many connections from one address, sends a part of a request or reads no answers, and stays.
Meanwhile another client at the same address asks for `/livez` and steps rows. Failures are answers that are
no 200, and medians of more than a second.
"""

import resource
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

from benchmarks.common import campaigns
from benchmarks.common.serving import Changes, Server

HEAD = b"POST /v1/streams/s/step HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ATTACKS = {
    "nothing sent": b"",
    "half of the headers": HEAD,
    "no body": HEAD + b"Content-Length: 1000\r\n\r\n",
    "half a body": HEAD + b'Content-Length: 1000\r\n\r\n{"rows": [',
    "answers not read": b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4,
    "nothing more asked": b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}
STREAM = {"name": "s", "target": "y", "features": ["a"], "model": "linear", "warmup": 12}
ROW = {"rows": [{"x": {"a": 1.0}, "y": 2.0}]}
# The number of requests.
ASKED = 40
WITHIN = 1.0  # seconds
# The usual limit on open files.
FILES = 1_024


def seconds(ask: Callable[[], httpx.Response], failures: list[str]) -> dict[str, float]:
    """Return how long answers take, each on a connection of its own."""
    found = []
    for _ in range(ASKED):
        began = time.monotonic()
        try:
            answer = ask()
            if answer.status_code != 200:
                failures.append(f"{answer.status_code}: {answer.text[:200]}")
        except httpx.TransportError as error:
            failures.append(repr(error))
        found.append(time.monotonic() - began)
    return {"median": round(float(np.median(found)), 4), "largest": round(max(found), 4)}


def measure(server: Server, failures: list[str]) -> dict[str, Any]:
    """Return how long the service takes for a probe and for a step."""
    return {
        "livez": seconds(lambda: httpx.get(f"{server.url}/livez", timeout=30.0), failures),
        "step": seconds(lambda: httpx.post(f"{server.url}/v1/streams/s/step", json=ROW, timeout=30.0), failures),
    }


def attacked(server: Server, data: bytes, count: int, failures: list[str]) -> dict[str, Any]:
    """Hold so many connections, and measure."""
    with ExitStack() as held:
        began = time.monotonic()
        for _ in range(count):
            connection = held.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # answers that are not read fill it
            connection.connect(("127.0.0.1", server.port))
            connection.setblocking(False)
            try:
                connection.send(data)
            except OSError:  # it was closed at once, to make room
                continue
        opened = round(time.monotonic() - began, 2)
        found = measure(server, failures)
    for name, each in found.items():
        if each["median"] > WITHIN:
            failures.append(f"{name}: {each['median']} s")
    return {"seconds_to_open": opened} | found | {"memory_mb": round(server.memory_mb())}


def campaign(count: int, minutes: float, _: int) -> dict[str, Any]:
    """Measure without an attack, under each, and after all."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    until, failures, found = time.monotonic() + 60.0 * minutes, [], {}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "live", Path(folder) / "cache")
        server.start(Changes(files=FILES))
        assert server.wait(), server.said()
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (min(hard, 2 * count + 500) if hard > 0 else 2 * count + 500, hard)
        )
        try:
            httpx.post(f"{server.url}/v1/streams", json=STREAM)
            for _ in range(30):
                httpx.post(f"{server.url}/v1/streams/s/step", json=ROW)
            found["no attack"] = measure(server, failures)
            for name, data in ATTACKS.items():
                if time.monotonic() < until:
                    found[name] = attacked(server, data, count, failures)
            found["afterwards"] = measure(server, failures)
            began = time.monotonic()
        finally:
            server.stop()
        ended = round(time.monotonic() - began, 2)
    return {"connections": count, "files": FILES, "attacks": found, "seconds_to_end": ended, "failures": failures}


if __name__ == "__main__":
    campaigns.run(__doc__, "connections", 1_010, campaign)
