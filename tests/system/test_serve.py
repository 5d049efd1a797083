"""`streamgp serve --follow` as a process: ended by a signal, started again, every row is there once."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn")

import streamgp
from streamgp.app.cli import app

WORDS = ["--target", "y", "--model", "linear", "--warmup", "20"]


@contextmanager
def serving(directory: Path, *words: str) -> Iterator[str]:
    """Yield the address of a service; end it by SIGTERM, and check that it ends well."""
    command = [sys.executable, "-m", "streamgp.app.cli", "serve", str(directory), "--port", "0", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+?(?=;)", line)
        assert found, line + process.stderr.read()
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        assert (code, process.stderr.read()) == (0, "")


def asked(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


def until(address: str, rows: int, stream: str = "meter") -> dict[str, Any]:
    end = monotonic() + 60.0
    while True:
        try:
            status = asked(f"{address}/v1/streams/{stream}")
            if status["source"]["rows"] >= rows:
                return status
        except urllib.error.HTTPError:  # it is still being made, or restored
            status = {}
        assert monotonic() < end, status
        sleep(0.05)


@pytest.mark.process
@pytest.mark.slow
def test_a_file_is_followed_through_a_restart(tmp_path: Path):
    path, live = tmp_path / "meter.csv", tmp_path / "live"
    lines = [f"{i / 7:.3f},{i % 5},{i / 3:.3f}\n" for i in range(200)]
    path.write_text("a,b,y\n" + "".join(lines[:60]))
    with serving(live, "--follow", str(path), *WORDS) as address:
        assert until(address, 60)["learned"] == 60
        with path.open("a") as file:
            file.write("".join(lines[60:120]) + lines[120][:3])
    with path.open("a") as file:
        file.write(lines[120][3:])
    path.rename(tmp_path / "meter.csv.1")
    path.write_text(
        "b,a,y\n" + "".join(",".join([*line.split(",")[1::-1], line.split(",")[2]]) for line in lines[121:])
    )
    with serving(live, "--follow", str(path), *WORDS) as address:
        status = until(address, 200)
        assert (status["rows"], status["learned"], status["features"]) == (200, 200, ["a", "b"])
        assert status["source"] == {
            "file": str(path),
            "rows": 200,
            "skipped": 0,
            "last_error": None,
            "following": True,
        }
        found = asked(f"{address}/v1/streams/meter/recent?rows=500")["rows"]
        assert [row["y"] for row in found] == [float(line.split(",")[2]) for line in lines]
        expected = [f"meter.csv:0:{i}" for i in range(121)] + [f"meter.csv:1:{i}" for i in range(79)]
        assert [row["id"] for row in found] == expected
    with serving(live) as address:
        assert asked(f"{address}/v1/streams/meter")["source"] is None


@pytest.mark.process
@pytest.mark.slow
def test_several_files_are_followed_each_as_a_stream(tmp_path: Path):
    for name in ("meter", "other"):
        lines = [f"{i / 7:.3f},{i % 5},{i / 3:.3f}\n" for i in range(50)]
        (tmp_path / f"{name}.csv").write_text("a,b,y\n" + "".join(lines))
    files = [word for name in ("meter", "other") for word in ("--follow", str(tmp_path / f"{name}.csv"))]
    for _ in range(2):
        with serving(tmp_path / "live", *files, "--features", "a", *WORDS) as address:
            until(address, 50)
            until(address, 50, "other")
            streams = asked(f"{address}/v1/streams")["streams"]
            assert [(each["name"], each["features"], each["learned"]) for each in streams] == [
                ("meter", ["a"], 50),
                ("other", ["a"], 50),
            ]


@pytest.mark.process
@pytest.mark.slow
def test_a_signal_while_standard_input_is_open(tmp_path: Path):
    with serving(tmp_path / "live", "--follow", "-", *WORDS, "--stream", "meter") as address:
        assert asked(f"{address}/livez") == {"status": "alive"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "y"], "--target: expected --follow FILE with it"),
        (["--follow", "a.csv"], "--follow: expected --target COLUMN as well"),
        (["--follow", "a.csv.gz", "--target", "y"], "expected a CSV file that grows, or -, got a.csv.gz"),
        (["--follow", "a.csv", "--target", "y", "--model", "none"], "--follow: model: expected one of"),
        (["--follow", "a.csv", "--target", "y", "--stream", "a b"], "--follow: name: expected 1 to 64"),
        (
            ["--follow", "a.csv", "--follow", "b.csv", "--target", "y", "--stream", "c"],
            "--stream: expected none with 2",
        ),
        (["--follow", "a.csv", "--follow", "x/a.csv", "--target", "y"], "got two for the stream a; rename one"),
        (["--follow", "a.csv", "--follow", ".", "--target", "y"], "expected a CSV file that grows, or -, got ."),
    ],
)
def test_options_that_do_not_go_together(words: list[str], says: str, tmp_path: Path):
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "live"), *words])
    assert result.exit_code == 1
    assert says in result.stderr.replace("\n", " ")
    assert not (tmp_path / "live").exists()
