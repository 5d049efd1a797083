"""Who may ask what, how much and how often."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from streamgp.service.web import security
from streamgp.service.web.security import Guard


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = await Request(scope, receive).body()
    await JSONResponse({"bytes": len(body)})(scope, receive, send)


def client(max_body: int = 1000, max_rate: float | None = None) -> TestClient:
    return TestClient(Guard(echo, None, max_body, max_rate), base_url="http://localhost:8765")


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
