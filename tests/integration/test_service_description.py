"""The description of the service, from which its page of requests is made: complete, and as the service answers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from benchmarks.pages.service_answers import answers
from streamgp.service.streams import Streams
from streamgp.service.web import description, tokens
from streamgp.service.web.access import OPEN, ROUTES
from streamgp.service.web.app import make_app
from streamgp.service.web.description import ANSWERS, NEEDS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Using `httpx` with")]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with TestClient(make_app(Streams(tmp_path_factory.mktemp("live"))), base_url="http://127.0.0.1") as http:
        assert http.get("/openapi.json").json() == http.get("/openapi.json").json()
        return http.get("/openapi.json").json()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_route_says_whom_it_lets_in_what_it_takes_and_what_it_answers(document: dict[str, Any]):
    described = dict(operations(document))
    hidden = {"/", "/docs", "/openapi.json", "/static/{path:path}"}
    hidden |= {f"/v1/standby/{each}" for each in ("entries", "fence", "streams/{name}")}
    assert set(described) == {route for route in ROUTES if route.partition(" ")[2] not in hidden}
    for route, operation in described.items():
        assert operation["x-needs"] == NEEDS[ROUTES[route]] and operation["summary"], route
        assert bool(operation["security"]) == (ROUTES[route] != OPEN), route
        assert all(parameter["description"] for parameter in operation.get("parameters", ())), route
        (done,) = (each for status, each in operation["responses"].items() if status.startswith("2"))
        ((_, content),) = done["content"].items()
        assert content["example"], route
        body = operation.get("requestBody")
        assert body is None or body["content"]["application/json"]["example"], route


def test_the_page_has_a_place_for_every_route(document: dict[str, Any]):
    groups = re.search(
        r"const GROUPS = \{(.*?)\};",
        (Path(description.__file__).parents[1] / "page" / "docs.js").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert groups is not None
    assert {tag for _, each in operations(document) for tag in each["tags"]} == set(re.findall(r"(\w+):", groups[1]))


def shape(value: Any) -> Any:
    """Return what an answer has, without its numbers."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return None


def test_examples_of_answers_are_what_the_service_answers(tmp_path: Path):
    kept, now = json.loads(ANSWERS.read_text(encoding="utf-8")), answers()
    assert shape(kept) == shape(now), "run python -m benchmarks.pages.service_answers"


def test_the_page_is_there_for_all_and_what_it_shows_for_those_with_a_token(tmp_path: Path):
    secret = tokens.add(tmp_path / "tokens.toml", "reads", ["read:*"])
    file = tokens.TokenFile(tmp_path / "tokens.toml")
    with TestClient(make_app(Streams(tmp_path / "live"), file), base_url="http://127.0.0.1") as http:
        page = http.get("/docs")
        assert page.status_code == 200 and "docs.js" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'self'")
        assert http.get("/openapi.json").status_code == 401
        assert http.get("/openapi.json", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
