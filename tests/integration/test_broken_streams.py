"""One stream that cannot be opened stops nobody: it is listed with its reason, and can be deleted."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from starlette.testclient import TestClient

from live_streams import data, inputs
from streamgp import StreamingGPRegressor
from streamgp.service.streams import Streams
from streamgp.service.web.app import make_app

pytestmark = pytest.mark.slow
HERE = "http://127.0.0.1"
GOOD = {"name": "good", "target": "y", "features": ["a", "b"], "model": "linear", "warmup": 30}


@contextmanager
def service(directory: Path, streams: Streams | None = None) -> Iterator[TestClient]:
    with TestClient(make_app(streams or Streams(directory)), HERE, raise_server_exceptions=False) as client:
        while client.get("/readyz").status_code == 503:  # until streams are restored
            sleep(0.01)
        yield client


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    X, y = data()
    return [
        {"x": dict(zip(("a", "b"), inputs(x).values(), strict=True)), "y": float(each)}
        for x, each in zip(X, y, strict=True)
    ][start:stop]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a service with a good stream, and one that is spoilt in each test."""
    directory = tmp_path_factory.mktemp("made") / "live"
    with service(directory) as client:
        for name in ("good", "bad"):
            assert client.post("/v1/streams", json=GOOD | {"name": name}).status_code == 201
            assert client.post(f"/v1/streams/{name}/step", json={"rows": rows(0, 60)}).status_code == 200
            assert client.post(f"/v1/streams/{name}/checkpoint").status_code == 200
    return directory


def rewritten(stream: Path) -> None:
    """Save every checkpoint anew by the estimator, without what the service keeps in it; the log's beginning goes."""
    for path in (stream / "checkpoints").iterdir():
        StreamingGPRegressor.load(path).save(path)
    shutil.rmtree(stream / "log")


DESCRIBED = ["{}", "[]", '"x"', "5", "null", "", "{", "[" * 5000, '{"name": "bad", "target": "y", "features": 5}']
DESCRIBED += ['{"name": "bad", "target": ["y"]}', '{"name": 3, "target": "y"}', '{"name": "other", "target": "y"}']
DESCRIBED += ['{"name": "bad", "target": "y", "warmup": "many"}', '{"name": "bad", "target": "y", "categories": []}']
DESCRIBED += ['{"name": "bad", "target": "y", "features": "ab"}', '{"name": "bad", "target": "y", "timed": 1}']
DESCRIBED += ['{"name": "bad", "target": "y", "lags": [true]}', '{"name": "bad", "target": "y", "zzz": 1}', "\udcff"]


def described(text: str) -> Any:
    return lambda stream: (stream / "stream.json").write_bytes(text.encode("utf-8", "surrogateescape"))


def a_directory(stream: Path) -> None:
    (stream / "stream.json").unlink()
    (stream / "stream.json").mkdir()


def a_pipe(stream: Path) -> None:
    (stream / "stream.json").unlink()
    os.mkfifo(stream / "stream.json")


def edited(stream: Path) -> None:
    """Say that the stream has other inputs than its model; the log's beginning goes."""
    document = json.loads((stream / "stream.json").read_text())
    (stream / "stream.json").write_text(json.dumps(document | {"features": ["a"]}))
    shutil.rmtree(stream / "log")


SPOILT = {
    "a pipe": a_pipe,
    "inputs of another stream": edited,
    "checkpoints of an estimator": rewritten,
    "no description": lambda stream: (stream / "stream.json").unlink(),
    "a directory": a_directory,
    "a log that is none": lambda stream: [p.write_bytes(b"x" * 999) for p in (stream / "log").glob("*.sqlite")],
    "a file for the log": lambda stream: (shutil.rmtree(stream / "log"), (stream / "log").write_text("")),
    "a file for the checkpoints": lambda s: (shutil.rmtree(s / "checkpoints"), (s / "checkpoints").write_text("")),
} | {f"stream.json {i}": described(text) for i, text in enumerate(DESCRIBED)}


@pytest.mark.parametrize("how", SPOILT)
def test_a_stream_that_cannot_be_opened_stops_nobody(made: Path, tmp_path: Path, how: str):
    directory = tmp_path / "live"
    shutil.copytree(made, directory)
    SPOILT[how](directory / "streams" / "bad")
    with service(directory) as client:
        assert client.post("/v1/streams/good/step", json={"rows": rows(60, 61)}).json()["learned"] == 1
        listed = {each["name"]: each for each in client.get("/v1/streams").json()["streams"]}
        assert listed["good"]["state"] == "ready"
        assert listed["bad"]["state"] == "failed"
        assert len(listed["bad"]["failure"]) > 20
        for asked in (client.get("/v1/streams/bad"), client.post("/v1/streams/bad/step", json={"rows": rows(0, 1)})):
            assert asked.status_code == 500
            assert asked.headers["content-type"].startswith("application/problem+json")
            assert listed["bad"]["failure"] in asked.json()["detail"]
        assert client.get("/readyz").json()["failed"] == ["bad"]
        assert 'streamgp_failed{stream="bad"} 1.0' in client.get("/metrics").text
        assert client.post("/v1/streams", json=GOOD | {"name": "bad"}).status_code == 409
        assert client.delete("/v1/streams/bad").json() == {"deleted": "bad"}
        assert [each["name"] for each in client.get("/v1/streams").json()["streams"]] == ["good"]
        assert client.post("/v1/streams", json=GOOD | {"name": "bad"}).status_code == 201


def test_what_the_thread_of_a_stream_does_not_expect_leaves_the_service_at_work(made: Path, tmp_path: Path):
    directory = tmp_path / "live"
    shutil.copytree(made, directory)
    streams = Streams(directory)
    with service(directory, streams) as client:

        def broken() -> None:
            raise KeyError("unheard of")

        streams.get("bad").knowledge.score_singly = broken  # type: ignore[method-assign]
        assert client.post("/v1/streams/bad/checkpoint").status_code == 500
        assert client.get("/readyz").json()["failed"] == ["bad"]
        refused = client.post("/v1/streams/bad/step", json={"rows": rows(60, 61)})
        assert refused.status_code == 500
        assert "unheard of" in refused.json()["detail"]
        assert client.post("/v1/streams/good/step", json={"rows": rows(60, 61)}).json()["learned"] == 1


def test_a_directory_of_any_name_is_no_trouble(made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    directory = tmp_path / "live"
    shutil.copytree(made, directory)
    for name in (b"\xff\xfe", b"white space", b"-x", "\u00e9".encode()):
        os.mkdir(os.fsencode(directory / "streams") + b"/" + name)
    with service(directory) as client:
        assert client.post("/v1/streams/good/step", json={"rows": rows(60, 61)}).json()["learned"] == 1
        assert len(client.get("/v1/streams").json()["streams"]) == 6
        caplog.text.encode()  # what is logged can be written
        assert client.get("/metrics").text.count("streamgp_failed{") == 6
        assert len(client.get("/readyz").json()["failed"]) == 4
        for name in ("white%20space", "-x", "%C3%A9"):
            assert client.delete(f"/v1/streams/{name}").status_code == 200
        shutil.rmtree(directory / "streams" / "bad")
        assert client.delete("/v1/streams/bad").status_code == 200  # by hand, before
        assert len(client.get("/v1/streams").json()["streams"]) == 2


def test_a_log_that_cannot_be_set_back_is_said_to_be_so(made: Path, tmp_path: Path):
    directory = tmp_path / "live"
    shutil.copytree(made, directory)
    streams = Streams(directory)
    with TestClient(make_app(streams), HERE, raise_server_exceptions=False) as client:
        log = streams.get("bad").log

        def fails(*_: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        usual = log.commit, log.roll_back
        log.commit, log.roll_back = fails, fails  # type: ignore[method-assign]
        for _ in range(2):
            refused = client.post("/v1/streams/bad/step", json={"rows": rows(60, 61)})
            assert (refused.status_code, "disk I/O error" in refused.json()["detail"]) == (500, True)
        log.commit, log.roll_back = usual  # type: ignore[method-assign]
        assert client.post("/v1/streams/good/step", json={"rows": rows(60, 61)}).json()["learned"] == 1


def test_the_names_of_a_description_are_checked():
    """The kinds of all entries of a description are known: none is added without its check."""
    from dataclasses import fields

    from streamgp.service.config import StreamConfig
    from streamgp.service.fields import FIELDS, MODEL_OPTIONS

    assert set(FIELDS) - set(MODEL_OPTIONS) == {each.name for each in fields(StreamConfig)} - {"options"}
    assert json.loads(StreamConfig("a", "y").to_json())["name"] == "a"
