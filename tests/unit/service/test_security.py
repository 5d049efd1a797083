"""Who may ask what, how much and how often."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from streamgp.service.web import security, tokens
from streamgp.service.web.security import Guard, scope_of


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = await Request(scope, receive).body()
    await JSONResponse({"bytes": len(body)})(scope, receive, send)


def client(known: Any = None, max_body: int = 1000, max_rate: float | None = None, **more: Any) -> TestClient:
    return TestClient(Guard(echo, known, max_body, max_rate), base_url="http://localhost:8765", **more)


def test_without_tokens_only_this_machine_may_ask():
    assert client().get("/v1/streams").status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8765", ""):
        refused = client().get("/v1/streams", headers={"host": host})
        assert (refused.status_code, "Host: expected" in refused.json()["detail"]) == (403, True), host
    for host in ("127.0.0.1:8765", "[::1]:8765", "localhost"):
        assert client().get("/v1/streams", headers={"host": host}).status_code == 200, host


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999"])
def test_pages_of_other_sites_may_not_ask(origin: str):
    assert client().post("/v1/streams", headers={"origin": origin}).status_code == 403
    assert client().post("/v1/streams", headers={"origin": "http://localhost:8765"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/", None),
        ("GET", "/static/app.js", None),
        ("GET", "/livez", None),
        ("GET", "/readyz", None),
        ("GET", "/metrics", "read"),
        ("GET", "/v1/streams", "read"),
        ("GET", "/openapi.json", "read"),
        ("POST", "/v1/streams", "admin"),
        ("POST", "/v1/streams/a/predict", "predict"),
        ("POST", "/v1/streams/a/forecast", "predict"),
        ("POST", "/v1/streams/a/learn", "learn"),
        ("POST", "/v1/streams/a/step", "learn"),
        ("POST", "/v1/streams/a/checkpoint", "admin"),
        ("GET", "/v1/streams/a/checkpoints", "read"),
        ("POST", "/v1/streams/a/restore", "admin"),
        ("POST", "/v1/streams/a/alarms/1/acknowledge", "admin"),
        ("DELETE", "/v1/streams/a", "admin"),
        ("POST", "/livez/../v1/streams", "admin"),
        ("POST", "/static/../v1/streams", None),  # no route: files alone are below it
    ],
)
def test_what_a_request_needs(method: str, path: str, scope: str | None):
    assert scope_of(method, path) == scope


def test_a_token_may_do_what_its_scopes_say(tmp_path: Path):
    path = tmp_path / "tokens.json"
    reader = tokens.add(path, "screen", ["read"])
    plant = tokens.add(path, "plant", ["predict", "learn"])
    assert reader not in path.read_text() and plant not in path.read_text()
    asked = client(tokens.read(path))
    assert asked.get("/livez").status_code == 200
    refused = asked.get("/v1/streams")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.headers["content-type"] == "application/problem+json"
    for secret in ("", "x", reader[:-1], reader + "x", "é"):
        headers = {"authorization": f"Bearer {secret}".encode("latin-1")}
        assert asked.get("/v1/streams", headers=headers).status_code == 401
    assert asked.get("/v1/streams", headers={"authorization": f"Bearer {reader}"}).status_code == 200
    assert asked.post("/v1/streams/a/learn", headers={"authorization": f"Bearer {plant}"}).status_code == 200
    refused = asked.delete("/v1/streams/a", headers={"authorization": f"bearer {plant}"})
    assert (refused.status_code, "'admin'" in refused.json()["detail"]) == (403, True)


def test_a_file_of_tokens_is_for_its_owner_alone(tmp_path: Path):
    path = tmp_path / "tokens.json"
    tokens.add(path, "screen", ["read"])
    if os.name != "nt":
        path.chmod(0o644)
        with pytest.raises(tokens.TokenError, match="chmod 600"):
            tokens.read(path)
        path.chmod(0o600)
    with pytest.raises(tokens.TokenError, match="another name than 'screen'"):
        tokens.add(path, "screen", ["read"])
    with pytest.raises(tokens.TokenError, match="scopes among"):
        tokens.add(path, "other", ["write"])
    with pytest.raises(tokens.TokenError, match="could not be read"):
        tokens.read(tmp_path / "none.json")
    path.write_text(json.dumps([{"name": "a", "sha256": "short", "scopes": ["read"]}]))
    with pytest.raises(tokens.TokenError, match="hashes of 64 digits"):
        tokens.read(path)
    path.write_text("{}]")
    with pytest.raises(tokens.TokenError, match="expected a list"):
        tokens.read(path)


def test_a_body_has_an_end():
    assert client().post("/", content=b"x" * 1000).json() == {"bytes": 1000}
    refused = client().post("/", content=b"x" * 1001)
    assert (refused.status_code, "at most 1,000 bytes" in refused.json()["detail"]) == (413, True)

    def parts():
        for _ in range(20):
            yield b"x" * 100

    assert client().post("/", content=parts()).status_code == 413  # of no length that was told
    assert client().post("/", headers={"content-length": "many"}).status_code == 413


def test_a_client_that_asks_too_often_has_to_wait():
    asked = client(max_rate=1.0)
    found = [asked.get("/v1/streams").status_code for _ in range(12)]
    assert found[:10] == [200] * 10 and found[-1] == 429
    assert asked.get("/v1/streams").headers["retry-after"] == "1"


def test_every_answer_has_the_headers_that_browsers_heed():
    for answer in (client().get("/"), client().get("/", headers={"host": "evil.example"})):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_a_body_that_does_not_come_ends_the_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(security, "BODY_SECONDS", 0.05)
    parts = [{"type": "http.request", "body": b"half of", "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"20")]
    scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": headers, "client": ("127.0.0.1", 1)}
    asyncio.run(Guard(echo, None, 1000, None)(scope, receive, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["detail"].startswith("the body: expected it within 0.05 seconds")
