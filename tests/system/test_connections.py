"""Clients that hold connections open keep nobody else from the service."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")
import streamgp

resource = pytest.importorskip("resource")  # of Unix

pytestmark = [pytest.mark.process, pytest.mark.slow]
SH = 'ulimit -n 1024 && exec "$@"'  # what most systems have
STREAM = {"name": "power", "target": "y", "features": ["a"], "model": "linear", "warmup": 20}
HALF = b"GET /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
SILENT = b""
BODY = (
    b"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
)
WITHIN = 1.0  # second: the median of some answers


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamgp.app.cli", "serve", *words]


@contextmanager
def serving(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the address of a service that may have 1,024 files open, and a token."""
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    tokens = ["--token-file", str(directory / "tokens.json")]
    added = subprocess.run(
        command(str(directory), *tokens, "--add-token", "plant:read,predict,learn,admin"),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    words = ["sh", "-c", SH, "sh", *command(str(directory / "live"), "--port", "0", *tokens)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+?(?=;)", line)
        assert found, line
        try:
            yield found[0], added.stdout.strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def asked(address: str, token: str | None = None, document: Any = None) -> Any:
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=20) as answer:
        return json.load(answer)


@contextmanager
def held(address: str, sent: bytes, count: int = 1_010) -> Iterator[None]:
    """Keep many connections open on which so much was sent; those that the service closes stay closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096) if hard > 0 else 4_096, hard))
    where, opened = urlsplit(address), []
    try:
        for _ in range(count):
            one = socket.create_connection((where.hostname, where.port), timeout=20)
            opened.append(one)
            with suppress(OSError):  # it was closed at once
                one.sendall(sent)
        yield
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def median_seconds(ask: Any) -> float:
    found = []
    for _ in range(5):
        began = monotonic()
        ask()
        found.append(monotonic() - began)
        sleep(0.1)
    return sorted(found)[2]


def test_a_thousand_connections_that_wait_keep_nobody_from_the_service(tmp_path: Path):
    with serving(tmp_path) as (address, token):
        asked(f"{address}/v1/streams", token, STREAM)
        rows = {"rows": [{"x": {"a": 1.0}, "y": 2.0}]}
        step = f"{address}/v1/streams/power/step"
        for sent in (HALF, SILENT, BODY):
            asked(step, token, rows)
            with held(address, sent):
                assert median_seconds(lambda: asked(f"{address}/livez")) < WITHIN
                assert median_seconds(lambda: asked(step, token, rows)) < WITHIN
                assert asked(f"{address}/readyz")["status"] == "ready"
        assert asked(f"{address}/v1/streams/power", token)["rows"] == 3 * 6


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"]
)
def test_what_is_no_request_is_refused_as_all_is(tmp_path: Path, sent: bytes):
    with serving(tmp_path) as (address, _):
        where = urlsplit(address)
        with socket.create_connection((where.hostname, where.port), timeout=20) as one:
            one.sendall(sent)
            said = b""
            while part := one.recv(65_536):
                said += part
        assert re.match(rb"HTTP/1.1 4\d\d ", said)
        assert b"application/problem+json" in said
        assert asked(f"{address}/livez") == {"status": "alive"}
