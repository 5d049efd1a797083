"""Clients that do not go on are let go in time, also where there are few descriptors; every refusal is a problem."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import streamgp
from streamgp.service.web import tokens

resource = pytest.importorskip("resource")  # of Unix

pytestmark = [pytest.mark.process, pytest.mark.slow]

COUNT = 1_000
ROW = b'{"rows": [{"x": {"a": 1.0}, "y": 2.0}]}'
HALVES = (b"GET /livez HTTP/1.1\r\nHost: 127.0", b"GET /livez HTTP/1.1\r\n", b"")
HEAD = b"POST /v1/streams/s/step HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@contextmanager
def serving(folder: Path, files: int) -> Iterator[tuple[int, str]]:
    """Yield the port and a token of a service that may have so many files open; check that it ends well."""
    token = tokens.add(folder / "tokens.toml", "plant", ["admin:*"])
    command = [sys.executable, "-m", "streamgp.app.cli", "serve", str(folder / "live"), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    with subprocess.Popen(
        ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command, "--token-file", str(folder / "tokens.toml")],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, line + process.stderr.read()
        try:
            yield int(found[1]), token
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)  # which reads what it says, however much
        assert (process.returncode, said[-2_000:]) == (0, "")


class Client:
    """Asks with the token, each time on a connection of its own."""

    def __init__(self, port: int, token: str) -> None:
        self.address, self.token = f"http://127.0.0.1:{port}", token

    def ask(self, path: str, body: bytes | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, body, headers)
        with urllib.request.urlopen(request, timeout=30.0) as answer:
            return json.loads(answer.read())

    def seconds(self, path: str, body: bytes | None = None) -> float:
        """Return how long an answer takes; the median of five, as others use the machine too."""
        found = []
        for _ in range(5):
            began = monotonic()
            self.ask(path, body)
            found.append(monotonic() - began)
        return median(found)

    def make_stream(self) -> None:
        end = monotonic() + 60.0
        while True:
            try:
                self.ask("/readyz")
                break
            except urllib.error.URLError:
                assert monotonic() < end
                sleep(0.05)
        described = {"name": "s", "target": "y", "features": ["a"], "model": "linear", "warmup": 12}
        self.ask("/v1/streams", json.dumps(described).encode())
        self.ask("/v1/streams/s/step", ROW)


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """Let this process open what the attack takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * COUNT + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may open {hard} files here, and the attack takes {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_half_open_connections_leave_room_where_there_are_few_descriptors(tmp_path: Path):
    with serving(tmp_path, 256) as (port, token), ExitStack() as attack:
        client = Client(port, token)
        client.make_stream()
        connections = []
        for i in range(COUNT):
            connection = attack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30.0))
            with suppress(OSError):  # closed at once
                connection.sendall(HALVES[i % len(HALVES)])
            connections.append(connection)
        assert client.seconds("/livez") < 1.0
        assert client.seconds("/readyz") < 1.0
        assert client.seconds("/v1/streams/s/step", ROW) < 1.0
        assert client.seconds("/v1/streams/s/scores") < 1.0
        assert client.ask("/v1/streams/s")["learned"] == 6
        oldest = connections[0].recv(10_000)  # what was closed, to make room, says so
        assert oldest.startswith(b"HTTP/1.1 503 ") and b"application/problem+json" in oldest


def test_who_does_not_go_on_is_let_go(tmp_path: Path):
    with serving(tmp_path, 1_024) as (port, token), ExitStack() as attack:
        client = Client(port, token)
        client.make_stream()

        def opened(data: bytes) -> socket.socket:
            connection = attack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60.0))
            connection.sendall(data)
            return connection

        began = monotonic()
        silent, half = opened(b""), opened(b"GET /livez HTTP/1.1\r\nHo")
        unread = opened(HEAD + b"Content-Length: 9\r\n\r\n{")
        dribbling = opened(b"GET /livez HTTP/1.1\r\n")
        until = monotonic() + 15.0
        while monotonic() < until:  # a byte now and then is no request
            try:
                dribbling.sendall(b"A: 1\r\n")
            except OSError:
                break
            sleep(0.5)
        assert monotonic() < until
        assert silent.recv(1_000) == b""
        answer = half.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"application/problem+json" in answer
        refused = b"".join(iter(lambda: unread.recv(10_000), b""))  # at once, and the connection in time
        assert refused.startswith(b"HTTP/1.1 401 ")
        assert monotonic() - began < 20.0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01" * 20 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /" + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 12_000, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (HEAD + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n", 413),
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 401),
        (b"PUT /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 401),
        (b"GET /static/none.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
def test_every_refusal_is_a_problem(port: int, data: bytes, status: int):
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        with suppress(OSError):  # refused while it was sent
            connection.sendall(data)
        answer = b""
        while b"}" not in answer and (part := connection.recv(10_000)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"application/problem+json" in head
    document = json.loads(body)
    assert document["status"] == status and document["detail"]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving(tmp_path_factory.mktemp("refusals"), 1_024) as (found, token):
        Client(found, token).make_stream()
        yield found


def test_bodies_that_are_not_there_keep_no_service_from_its_end(tmp_path: Path):
    with ExitStack() as attack, serving(tmp_path, 1_024) as (port, token):
        Client(port, token).make_stream()
        head = HEAD + f"Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n{{".encode()
        for _ in range(200):
            attack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30.0)).sendall(head)
        sleep(0.5)
        began = monotonic()
    assert monotonic() - began < 8.0  # uvicorn gives requests at work 10
