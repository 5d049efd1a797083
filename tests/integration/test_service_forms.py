"""What clients send in odd forms: refused in a sentence that shows them so, and nothing dropped silently."""

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import polars as pl
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app

pytestmark = pytest.mark.slow

ARROW = "application/vnd.apache.arrow.stream"
STREAMS: dict[str, dict[str, Any]] = {
    "counted": {},
    "timed": {"timed": True},
    "keyed": {"key": "k"},
    "counts": {"task": "count"},
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose streams no refused request may change."""
    directory = tmp_path_factory.mktemp("forms")
    with TestClient(make_app(Streams(directory)), base_url="http://localhost") as client:
        for name, more in STREAMS.items():
            document = {"name": name, "target": "y", "features": ["a"], "warmup": 20} | more
            model = {} if "key" in more else {"model": "linear"}
            assert client.post("/v1/streams", json=document | model).status_code == 201
        yield client


def refused(http: TestClient, path: str, body: Any, status: int = 422, **headers: str) -> str:
    """Send what must be refused and change nothing; return the sentence."""
    before = http.get("/v1/streams").json()
    content = (
        body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    )
    headers = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    answer = http.post(f"/v1/streams{path}", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert http.get("/v1/streams").json() == before
    return answer.json()["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        *(
            '"27.10.2024 25:00"',
            '"13/27/2024"',
            '"2024-10-27 25:00"',
            '""',
            '" "',
            '"NaN"',
            '"nan"',
            '"1.5"',
            '"now"',
        ),
        *("true", "null", "1e200", "-1e101", "1" + 120 * "0", '"2024-13-01"', '"0000-01-01"', '"12:30"'),
    ],
)
def test_a_time_that_is_none_is_shown_as_it_was_sent(http: TestClient, sent: str) -> None:
    detail = refused(http, "/timed/step", f'{{"rows": [{{"time": {sent}, "x": {{"a": 1}}, "y": 1}}]}}')
    assert "row 0, time: expected a number, as seconds since 1970, or a date of the years 1 to 9999" in detail
    shown = json.dumps(json.loads(sent)) if len(sent) < 80 else sent[:80]
    assert f"got {shown}" in detail and "nan" not in detail.replace(sent, "")


@pytest.mark.parametrize(("sent", "what"), [('["2024-01-01"]', "a list"), ('{"at": 1}', "an object")])
def test_a_time_that_is_no_value_is_named(http: TestClient, sent: str, what: str) -> None:
    assert f"got {what}" in refused(http, "/timed/predict", f'{{"rows": [{{"time": {sent}, "x": {{"a": 1}}}}]}}')


def test_times_in_every_form_of_one_moment_are_one_moment(http: TestClient) -> None:
    forms = ["2024-01-01T00:00:00Z", "2024-01-01", "2024-01-01T01:00:00+01:00", "2024-01-01 00:00:00.000", 1704067200]
    rows = [{"time": form, "x": {"a": 1.0}} for form in forms]
    assert http.post("/v1/streams/timed/predict", json={"rows": rows, "keep": False}).status_code == 200
    backwards = [{"time": "2024-01-02", "x": {"a": 1}, "y": 1}, {"time": "2024-01-01T00:00Z", "x": {"a": 1}, "y": 1}]
    detail = refused(http, "/timed/step", {"rows": backwards})
    assert detail.startswith(
        'row 1, time: expected none before "2024-01-02" of the row before, got "2024-01-01T00:00Z"; send'
    )
    http.post("/v1/streams", json={"name": "early", "target": "y", "features": ["a"], "timed": True})
    http.post("/v1/streams/early/step", json={"rows": [{"time": "2024-01-02", "x": {"a": 1}, "y": 1}]})
    detail = refused(http, "/early/step", {"rows": [{"time": "2024-01-01", "x": {"a": 1}, "y": 1}]})
    assert (
        "1704153600.0 (2024-01-02T00:00:00.000+00:00 if in seconds), that of the last row of the stream, got"
        in detail
    )
    http.delete("/v1/streams/early")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e309", "1" + 400 * "0", "-" + 500 * "7", "1" + 5000 * "0"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/counted/step", '{"rows": [{"x": {"a": #}, "y": 1}]}'),
        ("/counted/step", '{"rows": [{"x": {"a": 1}, "y": #}]}'),
        ("/counted/predict", '{"rows": [{"x": {"a": 1}}, {"x": {"a": #}}]}'),
        ("/timed/step", '{"rows": [{"time": #, "x": {"a": 1}, "y": 1}]}'),
        ("/keyed/step", '{"rows": [{"key": #, "x": {"a": 1}, "y": 1}]}'),
        ("/counted/learn", '{"rows": [{"id": "r", "y": #}]}'),
        ("/counted/forecast", '{"h": #}'),
        ("/counted/forecast", '{"h": 1, "x": [{"a": 1}], "level": [#]}'),
        ("/counted/restore", '{"position": #}'),
        ("", '{"name": "n", "target": "y", "warmup": #}'),
        ("", '{"name": "n", "target": "y", "lags": [#]}'),
    ],
)
def test_a_number_that_overflows_is_refused_like_infinity(
    http: TestClient, path: str, body: str, number: str
) -> None:
    detail = refused(http, path, body.replace("#", number))
    assert f"got {number[:40]}" in detail or f"got [{number[:39]}" in detail
    assert "Infinity" in refused(http, path, body.replace("#", "Infinity"), 400)


def test_large_exponents_that_are_no_overflow_are_numbers(http: TestClient) -> None:
    body = '{"rows": [{"x": {"a": 1e-400}}, {"x": {"a": 0e999}}, {"x": {"a": 1.0e+0001}}]}'
    found = http.post("/v1/streams/counted/predict", content=body.replace("]}", '], "keep": false}'))
    assert [row["mean"] is None for row in found.json()["rows"]] == [False] * 3


@pytest.mark.parametrize("where", ["a", "y"])
def test_infinity_in_arrow_and_lines_is_refused(http: TestClient, where: str) -> None:
    out = BytesIO()
    pl.DataFrame({"a": [1.0, 1.0], "y": [1.0, 2.0]} | {where: [1.0, float("inf")]}).write_ipc_stream(out)
    assert f"{where}: expected a number" in refused(http, "/counted/step", out.getvalue(), content_type=ARROW)
    lines = '{"x": {"a": 1}, "y": 1}\n{"x": {"a": 1e999}, "y": 1}\n'
    assert "got 1e999" in refused(http, "/counted/step", lines, content_type="application/x-ndjson")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/counted/step",
            {"rows": [{"x": {"a": 1}, "y": 1, "time": 5}]},
            "row 0, time: expected none, as this stream",
        ),
        (
            "/counted/predict",
            {"rows": [{"x": {"a": 1}}, {"x": {"a": 1}, "time": "2024-01-01"}]},
            "row 1, time: expec",
        ),
        ("/keyed/step", {"rows": [{"key": "p", "x": {"a": 1}, "y": 1, "time": 5}]}, "got 5; nothing of this request"),
        (
            "/counted/step",
            {"rows": [{"x": {"a": 1}, "y": 1}, {"x": {"a": 1}, "y": 1, "key": "p"}]},
            "row 1, key: expe",
        ),
        ("/timed/learn", {"rows": [{"id": "r", "y": 1, "time": 5}]}, "row 0, time: expected none beside an id"),
        ("/keyed/learn", {"rows": [{"id": "r", "y": 1, "key": "p"}]}, "row 0, key: expected none beside an id"),
        ("/counted/step", {"rows": [{"X": {"a": 1}, "y": 1}]}, "got 'X'"),
        ("/counted/learn", {"rows": [{"id": "r", "label": 1}]}, "got 'label'"),
        (
            "/counted/step",
            {"rows": [{"x": {"a": 1, "b": 2}, "y": 1}]},
            "row 0, x.b: expected only the features a, got",
        ),
        ("/counted/step", {"rows": [{"x": {"a": 1}, "y": 1}], "keep": True}, "got 'keep' as well"),
        ("/counted/forecast", {"h": 1, "x": [{"a": 1}], "times": [1]}, "times: expected none"),
        ("/counted/forecast", {"h": 1, "x": [{"a": 1}], "key": "p"}, "key: expected none"),
        ("", {"name": "n", "target": "y", "window": 4}, "window: expected one of"),
        ("/counts/step", {"rows": [{"x": {"a": 1}, "y": -1}]}, "y: expected a whole number, 0 or more, got -1;"),
        ("/counted/step?dry=1", {"rows": [{"x": {"a": 1}, "y": 1}]}, "?dry: expected no parameters"),
    ],
)
def test_what_nothing_would_be_made_of_is_refused(http: TestClient, path: str, body: Any, says: str) -> None:
    assert says in refused(http, path, body)


def test_an_unknown_parameter_of_a_question_is_refused(http: TestClient) -> None:
    answer = http.get("/v1/streams/counted/recent?limit=5")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "?limit: expected rows, after, key, got another; correct or leave it out",
    )
    assert http.get("/v1/streams/counted/recent?rows=5&after=3").status_code == 200


BODY = json.dumps({"rows": [{"x": {"a": 1}, "y": 1}]}).encode()


@pytest.mark.parametrize(
    ("body", "headers", "says"),
    [
        (gzip.compress(BODY, mtime=0), {"content_encoding": "gzip"}, "Content-Encoding: expected none, got 'gzip'"),
        (zlib.compress(BODY), {"content_encoding": "deflate"}, "got 'deflate'"),
        (BODY, {"content_encoding": "br"}, "got 'br'"),
        (gzip.compress(BODY, mtime=0), {"content_encoding": "identity, gzip"}, "got 'identity, gzip'"),
        (gzip.compress(BODY, mtime=0), {}, "got compressed bytes"),
        *((zlib.compress(BODY, level), {"content_type": ARROW}, "got compressed bytes") for level in (0, 2, 6, 9)),
        *((pack(BODY), {}, "got compressed bytes") for pack in (bz2.compress, lzma.compress)),
        (b"PK\x03\x04" + BODY, {}, "got compressed bytes"),
        (BODY, {"content_type": "text/csv"}, "Content-Type: expected application/json, application/x-ndjson"),
        (BODY, {"content_type": "application/json; charset=latin-1"}, "got 'latin-1'"),
    ],
)
def test_bodies_in_other_forms_are_415(http: TestClient, body: bytes, headers: dict[str, str], says: str) -> None:
    assert says in refused(http, "/counted/step", body, 415, **headers)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "a\x00b", "a\nb", "\x7f", "a\u2028b", "x" * 201])
@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("target", {}),
        ("features", {}),
        ("key", {}),
        ("classes", {"task": "classification"}),
        ("categories", {"features": ["a"]}),
    ],
)
def test_text_that_cannot_be_written_names_nothing(
    http: TestClient, text: str, field: str, more: dict[str, Any]
) -> None:
    given = {"features": [text], "classes": [text, "b"], "categories": {"a": [text, "b"]}}.get(field, text)
    document = {"name": "odd", "target": "y"} | more | {field: given}
    assert f"{field}" in refused(http, "", document)
    if len(text) < 200:
        row = {"key": "p", "x": {"a": 1}, "y": 1}
        assert "row 0, id" in refused(http, "/keyed/step", {"rows": [row | {"id": text}]})
        assert "row 0, key" in refused(http, "/keyed/step", {"rows": [row | {"key": text}]})
        assert "name" in refused(http, "", document | {"name": text})


def test_text_of_any_language_names_what_it_likes(http: TestClient) -> None:
    names = {"target": "température °C", "features": ["Größe", "湿度", "📈", "a\u00a0b"]}
    assert (
        http.post("/v1/streams", json={"name": "words", "model": "linear", "warmup": 20} | names).status_code == 201
    )
    assert http.get("/v1/streams/words").json()["features"] == names["features"]
    http.delete("/v1/streams/words")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"rows": [{"x": {"a": 1, "a": 2}, "y": 1}]}', "a"),
        ('{"rows": [{"x": {"a": 1}, "y": 1, "y": 2}]}', "y"),
        ('{"rows": [{"id": "i", "x": {"a": 1}, "id": "j", "y": 1e400}]}', "id"),
        ('{"rows": [], "rows": [{"x": {"a": 1}, "y": 1}]}', "rows"),
    ],
)
def test_a_name_that_is_given_twice_is_refused(http: TestClient, body: str, name: str) -> None:
    """The first value would be dropped, and nobody told."""
    assert f'"{name}" is given twice in an object' in refused(http, "/counted/step", body, 400)
    lines = (
        "\n".join(json.dumps(row) for row in [{"x": {"a": 1}, "y": 1}]) + f'\n{{"y": 1, "{name}": 1, "{name}": 2}}'
    )
    said = refused(http, "/counted/step", lines, 400, content_type="application/x-ndjson")
    assert said.startswith("line 2: ") and f'"{name}" is given twice' in said
