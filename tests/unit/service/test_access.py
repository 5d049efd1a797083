"""Every route of the service is guarded: what each needs, and that none is forgotten."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI, Response
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from streamgp.service.streams import Streams, unknown_stream
from streamgp.service.web import tokens
from streamgp.service.web.access import ALL, ROUTES, route_of
from streamgp.service.web.app import make_app
from streamgp.service.web.security import Guard

SECRETS: dict[str, str] = {}
TENANTS = {"operator": ["admin:*"], "a": ["admin:a-*"], "reads": ["read:a-*"], "writes": ["write:a-*"]}
# Anybody may ask for these, and for what is below /static.
OPEN = ("/", "/docs", "/livez", "/readyz", "/static")


@pytest.fixture
def file(tmp_path: Path) -> tokens.TokenFile:
    path = tmp_path / "tokens.toml"
    for name, scopes in TENANTS.items():
        SECRETS[name] = tokens.add(path, name, scopes)
    return tokens.TokenFile(path)


def routes_of(routes: list[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the method and the path of all routes of an application."""
    for route in routes:
        if hasattr(route, "effective_candidates"):  # a router that is included
            yield from routes_of(route.effective_candidates(), prefix)
        elif isinstance(route, Mount):
            yield from ((method, f"{prefix}{route.path}/{{path:path}}") for method in ("GET", "HEAD"))
        else:
            assert isinstance(route, Route | APIRoute) or hasattr(route, "methods"), route
            yield from ((method, prefix + route.path) for method in route.methods)


def application() -> FastAPI:
    with TemporaryDirectory() as folder:
        app = make_app(Streams(Path(folder)))._app
    assert isinstance(app, FastAPI)
    return app


def test_every_route_says_what_it_needs():
    found = {f"{method} {path}" for method, path in routes_of(application().routes)}
    assert len(found) > 20
    assert found == set(ROUTES), "say in `streamgp.service.web.access` what each route needs"


async def reached(scope: Any, receive: Any, send: Any) -> None:
    await Response("reached")(scope, receive, send)


def asked(file: tokens.TokenFile, method: str, path: str, tenant: str | None) -> Any:
    headers = {} if tenant is None else {"authorization": f"Bearer {SECRETS[tenant]}"}
    return TestClient(Guard(reached, file, 1000, None)).request(method, path, headers=headers)


@pytest.mark.parametrize(("method", "path"), sorted(routes_of(application().routes)))
def test_a_route_is_closed_to_those_who_may_not_use_it(file: tokens.TokenFile, method: str, path: str):
    filled = path.replace("{path:path}", "x").replace("{number}", "0")
    own, other = filled.replace("{name}", "a-1"), filled.replace("{name}", "b-1")
    if f"/{path.split('/')[1]}" in OPEN:
        assert asked(file, method, own, None).status_code == 200
        return
    assert asked(file, method, own, None).status_code == 401
    if ROUTES[f"{method} {path}"] == ALL:
        assert asked(file, method, own, "operator").status_code == 200
        assert {asked(file, method, own, each).status_code for each in SECRETS if each != "operator"} == {403}
        return
    assert asked(file, method, own, "operator").status_code == asked(file, method, own, "a").status_code == 200
    if "{name}" in path:
        refused = asked(file, method, other, "a")
        assert (refused.status_code, refused.json()) == (404, unknown_stream("b-1").document)
        changes = method == "DELETE" or (method == "POST" and not path.endswith("/forecast"))
        assert asked(file, method, own, "reads").status_code == (403 if changes else 200)
        keeps = method == "DELETE" or path.endswith(("/checkpoint", "/restore", "/promote"))
        keeps |= method == "POST" and path.endswith("/challengers")
        assert asked(file, method, own, "writes").status_code == (403 if keeps else 200)
    if (method, path) == ("POST", "/v1/streams"):
        assert asked(file, method, own, "writes").status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/streams/a-1/new"),
        ("PUT", "/v1/streams/a-1"),
        ("GET", "/v1/streams/"),
        ("GET", "/redoc"),
        ("GET", "/v1/streams/a-1/scores%0A"),
        ("GET", "//v1/streams"),
        ("POST", "/static/x"),
    ],
)
def test_what_is_not_in_the_table_is_answered_to_nobody(file: tokens.TokenFile, method: str, path: str):
    assert asked(file, method, path, None).status_code == 401
    assert asked(file, method, path, "operator").status_code == 404


def test_the_stream_of_a_path_is_the_one_that_the_route_gets():
    assert route_of("POST", "/v1/streams/a-1/step") == ("POST /v1/streams/{name}/step", "a-1")
    assert route_of("GET", "/v1/streams/a/b") == (None, None)
    assert route_of("GET", "/livez/../v1/streams") == (None, None)
    assert route_of("GET", "/v1/streams/a\n") == ("GET /v1/streams/{name}", "a\n")


def test_only_a_token_that_holds_opens(file: tokens.TokenFile, tmp_path: Path):
    path = tmp_path / "tokens.toml"
    secret = SECRETS["a"]

    def status(value: str) -> int:
        client = TestClient(Guard(reached, file, 1000, None))
        return client.get("/v1/streams", headers={"authorization": value.encode("latin-1")}).status_code

    assert status(f"Bearer {secret}") == status(f"bearer  {secret} ") == 200
    for value in ("", "Bearer", "Bearer x", f"Basic {secret}", secret, f"Bearer {secret[:-1]}", f"Bearer {secret}x"):
        assert status(value) == 401, value
    for value in ("Bearer é", f"Bearer {tokens.digest_of(secret)}", f"Bearer Bearer {secret}"):
        assert status(value) == 401, value
    refused = asked(file, "GET", "/v1/streams", None)
    assert (refused.headers["www-authenticate"], refused.headers["content-type"]) == (
        "Bearer",
        "application/problem+json",
    )
    ended = tokens.add(path, "a", [], "2020-01-01")
    assert status(f"Bearer {ended}") == 401
    assert status(f"Bearer {tokens.add(path, 'a', [], '2999-01-01')}") == 200
    digest = tokens.digest_of(secret)
    near = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    path.write_text(path.read_text().replace(digest, near))
    assert status(f"Bearer {secret}") == 401


def test_each_tenant_has_its_own_rate(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    slow, fast = tokens.add(path, "slow", ["read:*"]), tokens.add(path, "fast", ["read:*"])
    path.write_text(path.read_text().replace("[slow]\n", "[slow]\nmax_rate = 0.5\n"))  # the service's is 0.4
    client = TestClient(Guard(reached, tokens.TokenFile(path), 1000, 0.4))

    def answer(secret: str) -> Any:
        return client.get("/v1/streams", headers={"authorization": f"Bearer {secret}"})

    found = [answer(slow) for _ in range(8)]
    assert [each.status_code for each in found] == [200] * 5 + [429] * 3
    assert [each.headers["retry-after"] for each in found[5:]] == ["2"] * 3
    assert [answer(fast).status_code for _ in range(5)] == [200] * 4 + [429]
    another = tokens.add(path, "slow", [])  # the limit is the tenant's, not the token's
    assert answer(another).status_code == 429
