"""The live service in process: ids, order and odd requests; the large campaign is in benchmarks/robustness."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.stateful import run_state_machine_as_test

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from benchmarks.robustness import service_fuzz
from benchmarks.robustness.service_ids import Ids
from streamgp.service.streams import Streams
from streamgp.service.web import app, waiting

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Using `httpx` with")]

FEW = settings(
    max_examples=3,
    stateful_step_count=15,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Any]:
    with TestClient(app.make_app(Streams(tmp_path)), base_url="http://127.0.0.1") as client:
        yield client


def make(http: Any, **options: Any) -> None:
    document = {"name": "s", "target": "y", "features": ["a"], "model": "linear", "warmup": 20} | options
    assert http.post("/v1/streams", json=document).status_code == 201
    x = dict.fromkeys(document["features"], 1.0)
    rows = [{"x": dict.fromkeys(x, (i + 1) % 7 / 3), "y": i % 5} for i in range(24)]
    assert http.post("/v1/streams/s/step", json={"rows": rows}).status_code == 200


def test_any_mix_of_predictions_labels_and_retries_leaves_what_it_should():
    run_state_machine_as_test(seed(1)(Ids), settings=FEW)


def test_no_request_ends_in_an_error_of_the_server_or_acts_though_it_is_refused(tmp_path: Path):
    with service_fuzz.Fuzzed(tmp_path) as work:

        @seed(2)
        @settings(FEW, max_examples=60)
        @given(service_fuzz.requests())
        def one(made: tuple[str, str, dict[str, str], bytes]) -> None:
            work.check(*made)

        one()


def test_an_answer_that_nobody_waits_for_any_more_does_not_end_the_stream(http: Any, monkeypatch: pytest.MonkeyPatch):
    make(http)
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    row = {"x": {"a": 0.5}, "y": 1.0}
    assert http.post("/v1/streams/s/step", json={"rows": [row | {"id": "r"}]}).status_code == 503
    monkeypatch.undo()
    assert http.post("/v1/streams/s/step", json={"rows": [row]}).json()["learned"] == 1
    assert http.post("/v1/streams/s/learn", json={"rows": [{"id": "r", "y": 1.0}]}).json()["repeated"] == 1


def test_ids_that_come_twice_or_too_late_are_found_at_once(http: Any):
    make(http)
    rows = [{"id": f"r{i}", "x": {"a": 1.0}} for i in range(20_000)]
    began = time.perf_counter()
    assert http.post("/v1/streams/s/predict", json={"rows": [*rows, rows[-1]]}).status_code == 422
    assert http.post("/v1/streams/s/predict", json={"rows": rows}).status_code == 200
    labels = [{"id": row["id"], "y": 1.0} for row in rows]
    assert len(http.post("/v1/streams/s/learn", json={"rows": labels}).json()["late"]) > 10_000
    assert time.perf_counter() - began < 20.0


def test_a_stream_without_inputs_has_checkpoints(http: Any):
    make(http, features=[], lags=[1, 2])
    assert http.post("/v1/streams/s/checkpoint").status_code == 200


def test_a_status_is_json_whatever_is_accepted(http: Any):
    make(http)
    answer = http.get("/v1/streams/s", headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert (answer.status_code, answer.json()["rows"]) == (200, 24)


def test_a_body_without_a_length_that_is_too_large_is_refused_as_such(tmp_path: Path):
    served = app.make_app(Streams(tmp_path), limits=app.Limits(max_body=1_000))
    with TestClient(served, base_url="http://127.0.0.1") as http:
        answer = http.post("/v1/streams", content=(b"x" * 500 for _ in range(10)))
        assert (answer.status_code, answer.json()["title"]) == (413, "Too large")
        assert http.get("/v1/streams").status_code == 200
