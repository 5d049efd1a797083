"""The service over HTTP, in process: what a client sends and gets, in every form."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

import streamgp.client
from live_streams import data, inputs
from streamgp import StreamingGPRegressor, evaluate
from streamgp.service.config import StreamConfig
from streamgp.service.fields import MODEL_OPTIONS
from streamgp.service.streams import Streams
from streamgp.service.web import schemas
from streamgp.service.web.app import Limits, make_app

pytestmark = pytest.mark.slow

X, Y = data(120)
OTHER = {"name": "other", "target": "load", "features": ["a", "b"]}
POWER = {"name": "power", "target": "load", "features": ["a", "b"], "model": "linear", "warmup": 30}


@contextmanager
def serving(directory: Path) -> Iterator[TestClient]:
    app = make_app(Streams(directory), None, Limits(max_body=1 << 20))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service with one stream, for requests that change nothing."""
    with serving(tmp_path_factory.mktemp("unchanging")) as client:
        assert client.post("/v1/streams", json=POWER).status_code == 201
        yield client


def steps(rows: range) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "x": inputs(X[i]), "y": float(Y[i])} for i in rows]


def test_a_stream_from_its_creation_to_its_end(service: TestClient):
    assert service.get("/v1/streams").json()["streams"] == []
    assert service.post("/v1/streams", json=POWER).status_code == 201
    assert service.post("/v1/streams", json=POWER).status_code == 200  # the same one
    other = service.post("/v1/streams", json=POWER | {"warmup": 40})
    assert (other.status_code, other.json()["title"]) == (409, "Conflict")
    found = service.post("/v1/streams/power/step", json={"rows": steps(range(100))}).json()
    result = evaluate(StreamingGPRegressor("linear", warmup=30), X[:100], Y[:100])
    np.testing.assert_allclose([row["mean"] for row in found["rows"]], result.mean, rtol=1e-9)
    np.testing.assert_allclose([row["quantiles"]["0.95"] for row in found["rows"]], result.q95, rtol=1e-9)
    scores = service.get("/v1/streams/power/scores").json()
    assert scores["pll"] == pytest.approx(result.metrics["pll"], rel=1e-9)
    assert scores["coverage"] == pytest.approx(result.metrics["coverage"])
    assert scores["baselines"]["persistence"]["nmse"] == pytest.approx(
        result.metrics["naive"]["persistence"]["nmse"], rel=1e-9
    )
    assert scores["recent"]["rows"] == scores["scored_rows"] == 70  # those of the warm-up no longer count
    assert scores["recent"]["pll"] == pytest.approx(scores["pll"], rel=1e-9)
    predicted = service.post("/v1/streams/power/predict", json={"rows": [{"x": inputs(X[100])}]}).json()
    name = predicted["rows"][0]["id"]
    assert service.get("/v1/streams/power/pending").json()["pending"][0]["id"] == name
    learned = service.post("/v1/streams/power/learn", json={"rows": [{"id": name, "y": 1.5}]}).json()
    assert learned["learned"] == 1 and learned["position"] > predicted["position"]
    recent = service.get("/v1/streams/power/recent?rows=3").json()["rows"]
    assert [row["row"] for row in recent] == [98, 99, 100]
    assert set(recent[0]) >= {"y", "mean", "std", "q05", "q50", "q95", "log_density", "pit", "warmup", "at"}
    assert service.get("/v1/streams/power/recent?after=99").json()["rows"][0]["id"] == name
    assert abs(sum(e["weight"] for e in service.get("/v1/streams/power/experts").json()["experts"]) - 1.0) < 1e-9
    status = service.get("/v1/streams/power").json()
    assert (status["rows"], status["learned"], status["pending"], status["state"]) == (101, 101, 0, "ready")
    assert service.post("/v1/streams/power/checkpoint").json()["position"] == status["position"]
    metrics = service.get("/metrics").text
    assert 'streamgp_rows{stream="power"} 101.0' in metrics
    assert 'streamgp_answers_total{route="/v1/streams/{name}/step",status="200"} 1.0' in metrics
    assert service.delete("/v1/streams/power").json() == {"deleted": "power"}
    assert service.get("/v1/streams/power").status_code == 404
    assert 'streamgp_answers_total{route="other",status="404"} 1.0' in service.get("/metrics").text


def test_rows_in_lines_and_of_arrow_give_the_same(service: TestClient):
    answers = []
    for kind in ("json", "lines", "arrow"):
        name = f"power-{kind}"
        service.post("/v1/streams", json=POWER | {"name": name})
        rows = steps(range(60))
        if kind == "json":
            found = service.post(f"/v1/streams/{name}/step", json={"rows": rows}).json()["rows"]
        elif kind == "lines":
            text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
            lines = "application/x-ndjson"
            answer = service.post(
                f"/v1/streams/{name}/step", content=text, headers={"content-type": lines, "accept": lines}
            )
            assert answer.headers["streamgp-position"] == "1"
            found = [json.loads(line) for line in answer.text.splitlines()]
        else:
            frame = pl.DataFrame(
                {"id": [row["id"] for row in rows], "a": X[:60, 0], "b": X[:60, 1], "y": Y[:60]}
            ).with_columns(pl.col("b").fill_nan(None))
            out, arrow = BytesIO(), "application/vnd.apache.arrow.stream"
            frame.write_ipc_stream(out)
            headers = {"content-type": arrow, "accept": arrow}
            answer = service.post(f"/v1/streams/{name}/step", content=out.getvalue(), headers=headers)
            found = pl.read_ipc_stream(BytesIO(answer.content)).to_dicts()
        answers.append([(row["id"], row["mean"], row["std"]) for row in found])
    assert answers[0] == answers[1] == answers[2]


def test_a_forecast_has_every_step(service: TestClient):
    service.post("/v1/streams", json=POWER | {"features": [], "lags": [1, 2]})
    service.post("/v1/streams/power/step", json={"rows": [{"x": {}, "y": float(np.sin(i / 5))} for i in range(80)]})
    found = service.post("/v1/streams/power/forecast", json={"h": 5, "level": [80]}).json()["rows"]
    assert [row["step"] for row in found] == [1, 2, 3, 4, 5]
    assert all(row["mean-lo-80"] < row["mean"] < row["mean-hi-80"] for row in found)
    assert found == service.post("/v1/streams/power/forecast", json={"h": 5, "level": [80]}).json()["rows"]


def test_levels_that_differ_have_columns_of_their_own(service: TestClient):
    service.post("/v1/streams", json=POWER | {"features": [], "lags": [1, 2]})
    service.post("/v1/streams/power/step", json={"rows": [{"x": {}, "y": float(np.sin(i / 5))} for i in range(80)]})
    asked = {"h": 2, "level": [99.9999, 99.999999]}
    found = service.post("/v1/streams/power/forecast", json=asked).json()["rows"]
    assert {f"mean-{side}-{level}" for side in ("lo", "hi") for level in asked["level"]} <= found[0].keys()
    asked = {"h": 2, "level": float(np.nextafter(100.0, 0.0))}
    answer = service.post("/v1/streams/power/forecast", json=asked)
    assert answer.status_code == 422
    assert "level: expected percents of at most 99.99999998" in answer.json()["detail"]


def test_a_level_that_is_no_percent_is_refused(service: TestClient):
    service.post("/v1/streams", json=POWER | {"features": [], "lags": [1, 2]})
    service.post("/v1/streams/power/step", json={"rows": [{"x": {}, "y": float(np.sin(i / 5))} for i in range(80)]})
    for level, said in (
        ([0.9], "pass level=90"),
        (0.9, "pass level=90"),
        (["80"], "expected percents"),
        (True, "got"),
    ):
        found = service.post("/v1/streams/power/forecast", json={"h": 2, "level": level})
        assert found.status_code == 422
        assert said in found.json()["detail"]


def test_keys_are_listed_and_forecast(service: TestClient):
    service.post("/v1/streams", json=POWER | {"key": "sensor", "model": "fleet", "features": ["a"], "warmup": 60})
    rng = np.random.default_rng(0)
    rows = [
        {"key": f"s{k}", "x": {"a": float(x)}, "y": float(x + k + 0.1 * e)}
        for k, x, e in zip(rng.integers(0, 12, 300), rng.normal(size=300), rng.normal(size=300), strict=True)
    ]
    for start in (0, 100, 200):
        assert service.post("/v1/streams/power/step", json={"rows": rows[start : start + 100]}).status_code == 200
    found = service.get("/v1/streams/power/keys?sort=name&limit=2").json()
    assert (found["count"], [key["key"] for key in found["keys"]]) == (12, ["s0", "s1"])
    assert [key["key"] for key in service.get("/v1/streams/power/keys?search=S11").json()["keys"]] == ["s11"]
    worst = service.get("/v1/streams/power/keys?sort=worst").json()["keys"]
    ratio = [key["nmse"] / key["nmse_persistence"] for key in worst if key["nmse"] is not None]
    assert ratio == sorted(ratio, reverse=True)
    asked = {"h": 3, "key": "s3", "x": [{"a": 0.5}, {"a": 5.0}, {"a": 0.5}]}
    ahead = service.post("/v1/streams/power/forecast", json=asked).json()["rows"]
    assert len(ahead) == 3 and all(row["std"] > 0.0 for row in ahead)
    assert ahead[1]["mean"] > ahead[0]["mean"] + 2.0  # y grows by 1 with a
    assert service.post("/v1/streams/power/forecast", json=asked | {"key": "none"}).status_code == 404


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "x: expected the inputs of the 2 steps"),
        ({"x": None}, "x: expected the inputs of the 2 steps"),
        ({"x": [{"a": 1.0}]}, "x: expected the inputs of the 2 steps"),
        ({"x": [{"a": 1.0}, {}]}, "row 1, x.a: expected a number"),
        ({"x": [{"a": 1.0}, {"a": None}]}, "x, times: expected numbers in 'a'"),
        ({"x": [{"a": 1.0}, {"a": 1.0, "b": 2.0}]}, "row 1, x.b: expected only the features a"),
        ({"x": [{"a": 1.0}] * 2, "times": [41.0]}, "times: expected the times of the 2 steps"),
        ({"x": [{"a": 1.0}] * 2, "times": [41.0, 41.0]}, "x, times: expected times after the last one"),
        ({"x": [{"a": 1.0}] * 2, "times": [3.0, 41.0]}, "x, times: expected times after the last one"),
    ],
)
def test_forecasts_of_keys_ask_for_their_inputs(service: TestClient, more: dict[str, Any], says: str):
    more_of_it = {"key": "sensor", "model": "fleet", "features": ["a"], "warmup": 20, "timed": True}
    service.post("/v1/streams", json=POWER | more_of_it)
    a = np.random.default_rng(0).normal(size=40).tolist()
    rows = [{"key": "s", "time": float(i), "x": {"a": x}, "y": 5.0 + x} for i, x in enumerate(a)]
    assert service.post("/v1/streams/power/step", json={"rows": rows}).status_code == 200
    asked = {"h": 2, "key": "s"}
    refused = service.post("/v1/streams/power/forecast", json=asked | more)
    assert refused.status_code == 422 and says in refused.json()["detail"]
    x = [{"a": 1.0}, {"a": -1.0}]
    usual = service.post("/v1/streams/power/forecast", json=asked | {"x": x}).json()["rows"]
    assert [row["time"] for row in usual] == [40.0, 41.0]
    assert [row["mean"] for row in usual] == pytest.approx([6.0, 4.0], abs=0.5)
    given = service.post("/v1/streams/power/forecast", json=asked | {"x": x, "times": [40.5, 41.75]}).json()["rows"]
    assert [row["time"] for row in given] == [40.5, 41.75]


def test_forecasts_of_keys_without_inputs_need_none(service: TestClient):
    service.post("/v1/streams", json=POWER | {"key": "sensor", "model": "fleet", "features": [], "warmup": 20})
    rows = [{"key": "s", "x": {}, "y": float(i % 5)} for i in range(40)]
    assert service.post("/v1/streams/power/step", json={"rows": rows}).status_code == 200
    asked = {"h": 2, "key": "s"}
    assert len(service.post("/v1/streams/power/forecast", json=asked).json()["rows"]) == 2
    refused = service.post("/v1/streams/power/forecast", json=asked | {"times": [1.0, 2.0]})
    assert refused.status_code == 422 and "times: expected none" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/v1/streams", b"{", 400, "expected JSON"),
        ("POST", "/v1/streams", b"[1]", 422, "expected an object, got list"),
        ("POST", "/v1/streams", {"name": "../x", "target": "y"}, 422, "1 to 64 letters"),
        ("POST", "/v1/streams", {"name": "x"}, 422, "target: expected text, got nothing"),
        ("POST", "/v1/streams", {"name": "x", "target": "y", "model": "gpt"}, 422, "model: expected one of default"),
        ("POST", "/v1/streams", {"name": "x", "target": "y"}, 422, "one or more, or lags"),
        ("POST", "/v1/streams", {"name": "x", "target": "y", "warmup": "long"}, 422, "a whole number"),
        ("POST", "/v1/streams", {"name": "x", "target": "y", "size": 3}, 422, "size: expected one of"),
        ("POST", "/v1/streams", OTHER | {"categories": ["a"]}, 422, "categories: expected an object"),
        ("POST", "/v1/streams", OTHER | {"missing_values": -9999}, 422, "missing_values: expected a list of numbers"),
        (
            "POST",
            "/v1/streams",
            OTHER | {"missing_values": [True]},
            422,
            "missing_values: expected a list of numbers",
        ),
        ("POST", "/v1/streams", OTHER | {"categories": {"a": "u"}}, 422, "categories.a: expected a list of texts"),
        (
            "POST",
            "/v1/streams",
            OTHER | {"categories": {"a": ["u"]}},
            422,
            "categories.a: expected 2 to 100 levels",
        ),
        (
            "POST",
            "/v1/streams",
            OTHER | {"categories": {"c": ["u", "v"]}},
            422,
            "expected names of features, got 'c'",
        ),
        ("POST", "/v1/streams", OTHER | {"features": ["a", "a=u"], "categories": {"a": ["u", "v"]}}, 422, "differ"),
        (
            "POST",
            "/v1/streams",
            OTHER | {"calendar": ["day"]},
            422,
            "calendar: expected none, unless the stream is timed",
        ),
        ("POST", "/v1/streams", OTHER | {"calendar": ["hour"], "timed": True}, 422, "some of day, week, month, year"),
        ("GET", "/v1/streams/none", None, 404, "expected one that GET /v1/streams lists"),
        ("GET", "/v1/nowhere", None, 404, "got GET /v1/nowhere"),
        ("PUT", "/v1/streams", None, 405, "got PUT /v1/streams"),
        ("POST", "/v1/streams/power/step", {"rows": []}, 422, "one or more"),
        ("POST", "/v1/streams/power/step", {"row": []}, 422, "got 'row' as well"),
        ("POST", "/v1/streams/power/step", {"rows": [{"x": {"a": 1, "b": 2}}]}, 422, "row 0, y: expected the target"),
        ("POST", "/v1/streams/power/step", {"rows": [{"a": 1, "b": 2, "y": 1}]}, 422, "inputs belong in x"),
        ("POST", "/v1/streams/power/step", b'{"rows": [{"x": {"a": NaN, "b": 1}, "y": 1}]}', 400, "send null"),
        (
            "POST",
            "/v1/streams/power/step",
            b'{"rows": [{"x": {"a": 1, "b": 1}, "y": 1e999}]}',
            422,
            "y: expected a num",
        ),
        ("POST", "/v1/streams/power/predict", {"rows": [{"x": {"a": 1, "b": 2}, "y": 1}]}, 422, "y: expected none"),
        ("POST", "/v1/streams/power/predict", {"rows": [{"x": {"a": "1", "b": 2}}]}, 422, "x.a: expected a number"),
        (
            "POST",
            "/v1/streams/power/predict",
            {"rows": [{"id": "", "x": {"a": 1, "b": 2}}]},
            422,
            "id: expected text",
        ),
        ("POST", "/v1/streams/power/predict", {"rows": [{"key": "k", "x": {"a": 1, "b": 2}}]}, 422, "no keys"),
        ("POST", "/v1/streams/power/learn", {"rows": [{"y": 1}]}, 422, "the id that predict returned"),
        ("POST", "/v1/streams/power/learn", {"rows": [{"id": "new", "y": 1}]}, 404, "that were predicted"),
        ("POST", "/v1/streams/power/forecast", {"h": 0}, 422, "h: expected a whole number"),
        ("POST", "/v1/streams/power/forecast", {"h": 2, "x": [{}]}, 422, "the inputs of the 2 steps"),
        ("GET", "/v1/streams/power/recent?rows=many", None, 422, "rows: expected a whole number"),
        ("GET", "/v1/streams/power/keys", None, 422, "no keys"),
        ("POST", "/v1/streams/power/alarms/0/acknowledge", None, 404, "below 0"),
        ("POST", "/v1/streams/power/restore", {"position": 123456}, 404, "position: expected at most"),
        (
            "POST",
            "/v1/streams/power/restore",
            {"position": "1234"},
            422,
            "position: expected one of the log, a whole number",
        ),
        ("POST", "/v1/streams/power/restore", {"position": -1}, 422, "a whole number, got -1"),
        ("POST", "/v1/streams/power/restore", {"position": 10**400}, 422, "a whole number, got 1000"),
        ("POST", "/v1/streams/power/restore", {}, 422, "expected position, or time, and nothing else, got nothing"),
        ("POST", "/v1/streams/power/restore", {"time": "noon"}, 422, "time: expected a date of the years 1 to 9999"),
        ("POST", "/v1/streams/power/restore", {"time": "1999-01-01"}, 404, "time: expected none before"),
        ("POST", "/v1/streams/power/restore", {"position": 0, "force": True}, 422, "got position, force"),
        ("POST", "/v1/streams/none/restore", {"position": 0}, 404, "expected one that GET /v1/streams lists"),
        ("POST", "/v1/streams/power/step", b"x" * ((1 << 20) + 1), 413, "at most"),
    ],
)
def test_refusals_are_one_sentence(method: str, path: str, body: Any, status: int, says: str, unchanging: TestClient):
    before = unchanging.get("/v1/streams/power").json()
    more = {} if body is None else {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"content-type": "application/json"}
    answer = unchanging.request(method, path, headers=headers, **more)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem = answer.json()
    assert says in problem["detail"] and problem["status"] == status
    assert unchanging.get("/v1/streams/power").json() == before


def test_other_forms_are_refused(unchanging: TestClient):
    for kind, status in (("text/plain", 415), ("application/vnd.apache.arrow.stream", 400)):
        answer = unchanging.post("/v1/streams/power/step", content=b"abc", headers={"content-type": kind})
        assert answer.status_code == status


def test_huge_numbers_and_gaps_do_not_hurt(service: TestClient):
    service.post("/v1/streams", json=POWER)
    service.post("/v1/streams/power/step", json={"rows": steps(range(60))})
    odd = [{"x": {"a": 1e308, "b": None}}, {"x": {"a": -1e40, "b": True}}]
    for row in service.post("/v1/streams/power/predict", json={"rows": odd}).json()["rows"]:
        assert np.isfinite(row["mean"]) and 0.0 < row["std"] < 100.0


def test_alarms_are_found_and_acknowledged(service: TestClient):
    service.post("/v1/streams", json=POWER)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2))
    y = x[:, 0] + np.where(np.arange(400) < 250, 0.1, 1.0) * rng.normal(size=400)
    rows = [{"x": {"a": float(a), "b": float(b)}, "y": float(t)} for (a, b), t in zip(x, y, strict=True)]
    service.post("/v1/streams/power/step", json={"rows": rows})
    alarms = service.get("/v1/streams/power/alarms").json()["alarms"]
    assert alarms and alarms[0]["kind"] == "scale" and "times larger" in alarms[0]["sentence"]
    assert service.get("/v1/streams").json()["streams"][0]["open_alarms"] == len(alarms)
    assert service.post("/v1/streams/power/alarms/0/acknowledge").json()["acknowledged"] is True
    assert service.get("/v1/streams").json()["streams"][0]["open_alarms"] == len(alarms) - 1


def test_a_step_is_told_with_its_time(service: TestClient):
    service.post("/v1/streams", json=POWER | {"timed": True})
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=200) + np.where(np.arange(200) < 160, 0.0, 10.0)
    rows = [
        {"x": {"a": float(a), "b": float(b)}, "y": float(t), "time": 1.7e9 + 60.0 * i}
        for i, ((a, b), t) in enumerate(zip(x, y, strict=True))
    ]
    for part in (rows[:150], rows[150:163], rows[163:164], rows[164:]):
        assert service.post("/v1/streams/power/step", json={"rows": part}).status_code == 200
    (alarm,) = service.get("/v1/streams/power/alarms").json()["alarms"]
    assert (alarm["kind"], alarm["since"]) == ("level", 160)
    assert alarm["row"] <= 170
    assert (alarm["time"], alarm["since_time"]) == (1.7e9 + 60.0 * alarm["row"], 1.7e9 + 60.0 * 160)
    assert "the level moved by +" in alarm["sentence"]


def test_the_page_and_its_files_are_served(unchanging: TestClient):
    page = unchanging.get("/")
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert unchanging.get("/static/app.js").headers["content-type"].startswith("text/javascript")
    assert unchanging.get("/static/../app.py").status_code == 404
    assert unchanging.get("/static/%2e%2e/web/app.py").status_code == 404


def test_every_route_is_described(unchanging: TestClient):
    description = unchanging.get("/openapi.json").json()
    for path, methods in description["paths"].items():
        for method, about in methods.items():
            assert about["summary"], (method, path)
            if method == "post" and path.endswith(("predict", "learn", "step", "forecast", "restore", "streams")):
                body = about["requestBody"]["content"]["application/json"]
                assert body["schema"] and body["example"]
    assert len(description["paths"]) >= 17


def test_every_field_of_a_stream_can_be_given(service: TestClient):
    own = {field.name for field in fields(StreamConfig)} - {"options"}
    assert set(schemas.CREATE["properties"]) == own | set(MODEL_OPTIONS)
    created = service.post("/v1/streams", json=POWER | {"name": "coded", "missing_values": [-9999, "n/a"]})
    assert created.status_code == 201, created.text
    rows = [{"x": {"a": -9999.0, "b": 1.0}, "y": 1.0}, {"x": {"a": 1.0, "b": None}, "y": -9999.0}]
    assert service.post("/v1/streams/coded/step", json={"rows": rows}).status_code == 200


def test_a_restart_goes_on(tmp_path: Path):
    for round_number in range(2):
        with TestClient(make_app(Streams(tmp_path)), base_url="http://localhost") as client:
            while client.get("/readyz").status_code == 503:
                sleep(0.01)
            if not round_number:
                client.post("/v1/streams", json=POWER)
                client.post("/v1/streams/power/step", json={"rows": steps(range(50))})
                before = client.get("/v1/streams/power/scores").json()
            else:
                assert client.get("/v1/streams/power/scores").json() == before
                again = client.post("/v1/streams/power/step", json={"rows": steps(range(40, 60))}).json()
                assert (again["learned"], again["repeated"]) == (10, 10)


def test_a_stream_is_set_back_to_a_checkpoint(service: TestClient):
    client = streamgp.client.Client("http://localhost", transport=service._transport)
    stream = client.create("power", "load", ["a", "b"], model="linear", warmup=30)
    stream.step([inputs(x) for x in X[:50]], Y[:50], id=[f"r{i}" for i in range(50)])
    position = stream.checkpoint()["position"]
    before, ahead = stream.scores(), stream.predict(inputs(X[90]), keep=False)
    stream.step(inputs(X[50]), -1e6, id="r50")
    assert stream.scores()["rows"] == 51
    (found, *_) = stream.checkpoints()
    assert (found["position"], found["rows"], found["learned"], found["asked"]) == (position, 50, 50, True)
    assert stream.restore(position) == {"restored": position, "position": position + 2}
    assert stream.scores() | {"position": 0} == before | {"position": 0}
    assert {**stream.predict(inputs(X[90]), keep=False), "id": None} == {**ahead, "id": None}
    assert service.get("/v1/streams/power/checkpoints").json()["restores"][0]["restored"] == position
    assert stream.step(inputs(X[50]), Y[50], id="r50")["id"] == "r50"
    assert stream.status()["learned"] == 51


def test_three_lines_of_python(service: TestClient, monkeypatch: pytest.MonkeyPatch):
    client = streamgp.client.Client("http://localhost", transport=service._transport)
    stream = client.create("power", "load", ["a", "b"], model="linear", warmup=30)
    for i in range(40):
        stream.step(inputs(X[i]), Y[i], id=f"r{i}")
    one = stream.predict({"a": 1.0, "b": np.nan}, id="mine")
    assert one["id"] == "mine" and one["std"] > 0.0
    many = stream.predict([inputs(x) for x in X[40:43]])
    assert stream.learn("mine", 0.5)["learned"] == 1
    assert stream.learn([row["id"] for row in many], Y[40:43])["learned"] == 3
    assert stream.learn(y=[1.0, 2.0], x=[inputs(X[50]), inputs(X[51])])["learned"] == 2
    assert stream.scores()["rows"] == 46 and stream.pending()["count"] == 0
    with pytest.raises(streamgp.client.ServiceError, match="that were predicted") as caught:
        stream.learn("other", 1.0)
    assert caught.value.status == 404
    assert [each["name"] for each in client.streams()] == ["power"]
    stream.delete()
    assert client.streams() == []


def test_a_challenger_from_its_beginning_to_its_promotion(service: TestClient):
    client = streamgp.client.Client("http://localhost", transport=None)
    client._http = service  # type: ignore[assignment]
    power = client.create(**POWER)
    power.step([inputs(x) for x in X[:5]], Y[:5].tolist())
    begun = power.challenge("other", warmup=20, noise_by_input=True)
    assert begun == {"name": "other", "options": begun["options"], "position": 2}
    assert begun["options"]["warmup"] == 20 and begun["options"]["model"] == "linear"
    assert power.challenge("other", warmup=20, noise_by_input=True) == begun
    power.challenge("second", seed=5)
    power.step([inputs(x) for x in X[5:]], Y[5:].tolist())
    while any(each["behind"] for each in power.challengers()):
        sleep(0.01)
    found, second = power.challengers()
    assert (found["state"], found["scored_rows"]) == ("ready", 120 - 30) and second["scored_rows"] == 120 - 35
    assert found["low"] < found["difference"] < found["high"]
    assert found["text"].startswith(found["verdict"].capitalize())
    assert set(found) == set(schemas.CHALLENGERS["properties"]["challengers"]["items"]["properties"])
    shown = service.get("/metrics").text
    assert 'streamgp_challenger_scored_rows{challenger="other",stream="power"} 90.0' in shown
    power.end_challenger("second")
    assert [each["name"] for each in power.challengers()] == ["other"]
    answer = power.promote("other")
    assert answer == power.promote("other") == service.get("/v1/streams/power/challengers").json()["promotion"]
    assert power.status()["warmup"] == 20 and power.status()["rows"] == 120
    refused = service.post("/v1/streams/power/challengers/none/promote", json={})
    assert refused.status_code == 404 and "expected one of none" in refused.json()["detail"]
    refused = service.post("/v1/streams/power/challengers/other/promote", json={"force": 1})
    assert refused.status_code == 422
    assert service.post("/v1/streams", json=POWER).status_code == 200  # it is still the stream that was created
