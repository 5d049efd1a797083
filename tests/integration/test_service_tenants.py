"""Tenants of one service: what each sees of the others' streams, and how much it may ask for."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from benchmarks.robustness import service_tenants
from streamgp.service.streams import Streams
from streamgp.service.web import tokens
from streamgp.service.web.app import make_app
from streamgp.service.web.audit import Audited, AuditLog

pytestmark = pytest.mark.slow

LINEAR = {"target": "y", "features": ["u"], "model": "linear", "warmup": 14}
ROWS = {"rows": [{"x": {"u": 0.5}, "y": 1.0}]}


class Service:
    """A service with tenants, and what each of them is answered."""

    def __init__(self, folder: Path) -> None:
        self.path, self.log = folder / "tokens.toml", folder / "audit.jsonl"
        scopes = {"operator": ["admin:*"], "a": ["admin:a-*", "read:shared"], "b": ["admin:b-*"]}
        self.secrets = {name: tokens.add(self.path, name, of) for name, of in scopes.items()}
        self.streams = Streams(folder / "live")
        self.app = make_app(self.streams, tokens.TokenFile(self.path))
        self.http = TestClient(Audited(self.app, AuditLog(self.log)), base_url="http://localhost")

    def ask(self, tenant: str | None, method: str, path: str, document: Any = None) -> Any:
        headers = {} if tenant is None else {"authorization": f"Bearer {self.secrets[tenant]}"}
        return self.http.request(method, path, json=document, headers=headers)

    def make(self, tenant: str, name: str, **more: Any) -> Any:
        return self.ask(tenant, "POST", "/v1/streams", LINEAR | {"name": name} | more)

    def limit(self, tenant: str, text: str) -> None:
        self.path.write_text(self.path.read_text().replace(f"[{tenant}]\n", f"[{tenant}]\n{text}\n"))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    with made.http:
        for tenant, name in (("a", "a-1"), ("b", "b-secret"), ("operator", "shared")):
            assert made.make(tenant, name).status_code == 201
        yield made


def test_a_tenant_sees_its_own_streams(service: Service):
    def listed(tenant: str) -> list[str]:
        return [each["name"] for each in service.ask(tenant, "GET", "/v1/streams").json()["streams"]]

    assert listed("a") == ["a-1", "shared"]
    assert listed("b") == ["b-secret"]
    assert listed("operator") == ["a-1", "b-secret", "shared"]
    metrics = service.ask("a", "GET", "/metrics").text
    assert 'stream="a-1"' in metrics and "b-secret" not in metrics and "streamgp_answers" not in metrics
    assert "streamgp_answers" in service.ask("operator", "GET", "/metrics").text
    service.streams.broken |= {"b-broken": "why", "a-broken": "why"}
    assert list(service.ask("a", "GET", "/v1/streams").json()["broken"]) == ["a-broken"]
    assert "b-broken" not in service.ask("a", "GET", "/metrics").text
    assert service.ask("a", "GET", "/readyz").json()["failed"] == ["a-broken"]
    assert service.ask(None, "GET", "/readyz").json() == {
        "status": "ready",
        "role": "leader",
        "replayed": {},
        "failed": [],
    }


def test_what_a_tenant_may_not_see_is_as_if_it_were_not_there(service: Service):
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/step"), ("DELETE", ""), ("POST", "/restore")):
        hidden = service.ask("a", method, f"/v1/streams/b-secret{path}", ROWS if method == "POST" else None)
        absent = service.ask("a", method, f"/v1/streams/b-sesame{path}", ROWS if method == "POST" else None)
        assert hidden.status_code == absent.status_code == 404
        assert hidden.text.replace("b-secret", "b-sesame") == absent.text
        assert "shared" not in hidden.text
    own = service.ask("a", "GET", "/v1/streams/a-2").text
    assert own.replace("a-2", "b-secret") == service.ask("a", "GET", "/v1/streams/b-secret").text
    there, new = service.make("a", "b-secret"), service.make("a", "b-sesame")
    assert there.status_code == new.status_code == 403
    assert there.text.replace("b-secret", "b-sesame") == new.text
    assert service.ask("b", "GET", "/v1/streams/b-secret").json()["rows"] == 0
    assert [service.ask("a", "POST", "/v1/streams/shared/step", ROWS).status_code] == [403]


def test_limits_are_those_of_the_tenant(service: Service):
    service.limit("a", "max_streams = 2\nmax_rows = 3")
    assert service.make("a", "a-2").status_code == 201
    refused = service.make("a", "a-3")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "streams: expected at most 2 of 'a', got one more; delete one",
    )
    assert service.make("a", "a-2").status_code == 200  # the same one
    assert service.make("b", "b-2").status_code == 201
    for verb in ("predict", "learn", "step"):
        given = {"x": {"u": 1.0}} if verb == "predict" else {"x": {"u": 1.0}, "y": 2.0}
        assert service.ask("a", "POST", f"/v1/streams/a-1/{verb}", {"rows": [given] * 3}).status_code == 200
        refused = service.ask("a", "POST", f"/v1/streams/a-1/{verb}", {"rows": [given] * 4})
        assert (refused.status_code, "rows: expected at most 3" in refused.json()["detail"]) == (403, True)
        assert service.ask("b", "POST", f"/v1/streams/b-2/{verb}", {"rows": [given] * 4}).status_code == 200
    assert service.ask("a", "GET", "/v1/streams/a-1").json()["rows"] == 9
    assert service.ask("a", "DELETE", "/v1/streams/a-2").status_code == 200
    assert service.make("a", "a-3").status_code == 201


def test_the_audit_log_says_who_did_what(service: Service):
    before = len(service.lines())
    service.make("a", "b-9")
    service.ask("a", "POST", "/v1/streams/a-1/step", ROWS)
    service.ask("a", "GET", "/v1/streams/b-secret")
    service.ask("a", "GET", f"/v1/{service.secrets['b']}")
    service.ask(None, "GET", "/v1/streams")
    service.ask(None, "GET", "/livez")
    lines = service.lines()[before:]
    assert [tuple(line[name] for name in ("who", "what", "stream", "status")) for line in lines] == [
        ("a", "POST /v1/streams", "b-9", 403),
        ("a", "POST /v1/streams/{name}/step", "a-1", 200),
        ("a", "GET /v1/streams/{name}", "b-secret", 404),
        ("a", None, None, 404),
        (None, "GET /v1/streams", None, 401),
    ]
    assert all(line["from"] == "testclient" and line["at"].endswith("+00:00") for line in lines)
    assert not [secret for secret in service.secrets.values() if secret in service.log.read_text()]
    service.log.rename(service.log.with_suffix(".old"))
    service.ask("a", "GET", "/v1/streams")
    assert len(service.lines()) == 1


def test_events_end_with_the_token(service: Service):
    # The service is called as the server calls it: a client in this process gets an answer at its end alone.
    bearer = [(b"authorization", f"Bearer {service.secrets['a']}".encode())]
    path = "/v1/streams/a-1/events"
    asked: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": bearer, "query_string": b""}
    sent: list[Any] = []

    async def listen() -> None:
        ended, heard = asyncio.Event(), asyncio.Event()

        async def receive() -> Any:
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            heard.set()
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended.set()

        listening = asyncio.create_task(service.app(asked | {"root_path": "", "client": None}, receive, send))
        while len(sent) < 2:
            heard.clear()
            await heard.wait()
        service.streams.events.tell("a-1", "alarm", {"number": 0})
        while len(sent) < 3:
            heard.clear()
            await heard.wait()
        service.path.write_text(service.path.read_text().replace("admin:a-*", "admin:c-*"))
        service.streams.events.tell("a-1", "alarm", {"number": 1})
        await asyncio.wait_for(listening, 20.0)

    asyncio.run(listen())
    assert [message.get("more_body") for message in sent] == [None, True, True, False]
    assert b'"number": 0' in sent[2]["body"] and sent[3]["body"] == b""


def test_generated_requests_see_and_change_nothing_of_others():
    found = service_tenants.campaign(400, 1.0, 7)
    assert found["failures"] == []
    assert found["requests"] == 400 and found["allowed"]["changes"] > 10 and found["tokens_replaced"]
