"""A small table of text in odd spellings, and what the doors for files say of it."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from streamgp.app.cli import app
from streamgp.service.follow import Follower
from streamgp.service.following import Following
from streamgp.service.streams import Streams

ROWS, WARMUP = 50, 20
NAMES = ["site", "time", "a", "y"]
START = datetime(2024, 12, 20, tzinfo=UTC)
DOORS = ("command", "stdin", "key", "resume")


@cache
def cells() -> list[list[str]]:
    """Return the cells of each row: of one site, a row every twelve hours."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS)
    y = a + 0.1 * rng.normal(size=ROWS)
    times = [(START + timedelta(hours=12 * i)).strftime("%Y-%m-%dT%H:%M") for i in range(ROWS)]
    return [["s", time, f"{x:.4f}", f"{t:.4f}"] for time, x, t in zip(times, a, y, strict=True)]


def text(separator: str = ",", names: list[str] = NAMES, end: str = "", **columns: list[str]) -> str:
    """Return the table, with some columns in another spelling."""
    at = {name: NAMES.index(name) for name in columns}
    rows = [list(row) for row in cells()]
    for name, column in columns.items():
        for row, cell in zip(rows, column, strict=True):
            row[at[name]] = cell
    return "\n".join([separator.join(names), *(separator.join(row) + end for row in rows)]) + "\n"


def said(door: str, content: bytes, folder: Path, *options: str, target: str = "y", name: str = "t.csv") -> Any:
    """Return the metrics of a run through one door, or the sentence that refuses the file; no page is drawn."""
    file = folder / name
    file.write_bytes(content)
    words = ["--target", target, "--warmup", str(WARMUP), *options]
    words += ["--key", "site"] if door == "key" else ["--model", "linear", "--lags", "none"]
    words += ["--json", str(folder / "m.json")]
    given: dict[str, Any] = {}
    source = str(file)
    if door == "stdin":
        source, given = "-", {"input": content}
    with patch("streamgp.app.report.write_report"):
        if door == "resume":
            words += ["--out", str(folder / "out")]
            first = CliRunner().invoke(app, ["run", source, *words, "--max-rows", "35"])
            if first.exit_code == 0:
                words.append("--resume")
        result = CliRunner().invoke(app, ["run", source, *words], **given)
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), result.exception
        sentence = result.stderr.splitlines()[-1].removeprefix("streamgp: ")
        return sentence.removeprefix("standard input: ").removeprefix(f"{file}: ")
    return json.loads((folder / "m.json").read_text()) | {"said": " ".join(result.stdout.split())}


def same(found: Any, expected: Any) -> None:
    assert not isinstance(found, str), found
    assert found["scored_rows"] == expected["scored_rows"] > 20
    assert_allclose(found["nmse"], expected["nmse"], rtol=1e-9)


@cache
def plain(door: str) -> Any:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        found = said(door, text().encode(), Path(folder))
    assert not isinstance(found, str), found
    return found


def followed(folder: Path, content: bytes, **more: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what a service says of a file that it has followed to its end."""
    file = folder / "t.csv"
    file.write_bytes(content)
    heard: list[str] = []
    streams = Streams(folder / "streams")
    what = Following(file, "y", **{"features": ("a",), "model": "linear", "warmup": WARMUP} | more)
    streams.follow(Follower(streams, what, heard.append))
    streams.start()
    try:
        end = monotonic() + 30.0
        while True:
            status = streams.source(what.name)
            assert status is not None
            if status["rows"] + status["skipped"] >= ROWS or not status["following"]:
                return status, heard
            assert monotonic() < end, (status, heard)
            sleep(0.005)
    finally:
        streams.stop()
