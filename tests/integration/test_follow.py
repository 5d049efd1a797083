"""A file that grows, and standard input: every row is learnt once, whatever happens to file and service."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from live_streams import PATIENCE, data, inputs, predict, step, working
from streamgp.service import follow, growing
from streamgp.service.config import StreamConfig
from streamgp.service.follow import Follower
from streamgp.service.following import Following
from streamgp.service.live_stream import LiveStream
from streamgp.service.streams import Streams

pytestmark = pytest.mark.slow

X, Y = data()
HEADER = "a,b,load\n"
N = len(X)
PROBE = [{"x": inputs(X[5])}]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE", 0.01)
    monkeypatch.setattr(growing, "PAUSE", 0.01)


def cell(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else repr(float(value))


def text(start: int, stop: int, order: Sequence[str] = ("a", "b", "load")) -> str:
    columns = {"a": X[:, 0], "b": X[:, 1], "load": Y}
    return "".join(",".join(cell(columns[name][i]) for name in order) + "\n" for i in range(start, stop))


def append(path: Path, more: str) -> None:
    with path.open("a") as file:
        file.write(more)


class Service:
    """Streams with one that follows, as the command makes them."""

    def __init__(self, directory: Path, path: Path | None, pipe: Any = None, **options: Any) -> None:
        self.said: list[str] = []
        self.streams = Streams(directory)
        what = Following(path, "load", **({"model": "linear", "warmup": 30} | options))
        self.name = what.name
        self.streams.follow(Follower(self.streams, what, self.said.append, pipe))

    @property
    def source(self) -> dict[str, Any]:
        source = self.streams.source(self.name)
        assert source is not None
        return source

    @property
    def stream(self) -> LiveStream:
        return self.streams.get(self.name)

    def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = monotonic() + PATIENCE
        while not done(self.source):
            assert monotonic() < end, (self.source, self.said)
            sleep(0.005)
        return self.source

    def rows(self, count: int) -> dict[str, Any]:
        """Wait until there are so many rows; there are no more a moment later."""
        self.until(lambda source: source["rows"] >= count)
        sleep(0.05)
        assert self.source["rows"] == count, self.source
        return self.source

    def stopped_following(self) -> dict[str, Any]:
        return self.until(lambda source: not source["following"])


@contextmanager
def service(directory: Path, path: Path | None, pipe: Any = None, **options: Any) -> Iterator[Service]:
    found = Service(directory, path, pipe, **options)
    found.streams.start()
    try:
        yield found
    finally:
        found.streams.stop()
        source = found.streams.source(found.name)
        assert source is None or not source["following"]


def check_same(stream: LiveStream, directory: Path, rows: Sequence[int] = range(N), **options: Any) -> None:
    """Hold a stream against one that learnt the rows in a single step."""
    config = {name: value for name, value in stream.config.document().items() if name != "history_rows"}
    config |= {"features": stream.config.features, "calendar": stream.config.calendar, "classes": ()} | options
    with working(directory, **config) as other:
        step(other, [{"x": inputs(X[i]), "y": float(Y[i]) if np.isfinite(Y[i]) else None} for i in rows])
        assert stream.status()["rows"] == other.status()["rows"] == len(rows)
        assert stream.status()["learned"] == len(rows)
        a, b = (each.settled().recent(500, -1, None)["rows"] for each in (stream, other))
        names = ("row", "y", "mean", "std", "q05", "q95", "log_density")
        np.testing.assert_allclose([[r[n] for n in names] for r in a], [[r[n] for n in names] for r in b], rtol=1e-9)
        np.testing.assert_allclose(predict(stream, PROBE, keep=False), predict(other, PROBE, keep=False), rtol=1e-9)
        assert stream.settled().scores()["pll"] == pytest.approx(other.settled().scores()["pll"], rel=1e-9)


def test_a_file_grows_by_pieces_of_lines(tmp_path: Path):
    path = tmp_path / "power plant.csv"
    whole = HEADER + text(0, N)
    cuts = [0, 3, 9, 400, 401, 2000, 4010, len(whole) - 1]
    with service(tmp_path / "live", path) as live:  # the file is still to come
        live.until(lambda source: "No such file" in str(source["last_error"]))
        for start, stop in pairwise(cuts):
            append(path, whole[start:stop])
            lines = max(whole[:stop].count("\n") - 1, 0)
            live.rows(lines)
        assert lines == N - 1  # the last one is not whole
        append(path, "\n")
        assert live.rows(N) == {
            "file": str(path),
            "rows": N,
            "skipped": 0,
            "last_error": live.said[0],
            "following": True,
        }
        assert live.name == "power-plant" and len(live.said) == 1
        assert live.stream.config == StreamConfig("power-plant", "load", ("a", "b"), model="linear", warmup=30)
        assert live.stream.settled().recent(1, -1, None)["rows"][0]["id"] == f"power plant.csv:0:{N - 1}"
        check_same(live.stream, tmp_path / "other")


def test_files_that_cannot_be_read_keep_no_other_waiting(tmp_path: Path):
    """One that is missing, one that is a directory for a while, and one that is none of text."""
    paths = {name: tmp_path / f"{name}.csv" for name in ("good", "missing", "folder", "other")}
    paths["good"].write_text(HEADER + text(0, 60))
    paths["folder"].mkdir()
    paths["other"].write_bytes(b"PAR1" + bytes(range(256)))
    streams = Streams(tmp_path / "live")
    said: list[str] = []
    for path in paths.values():
        what = Following(path, "load", features=("a", "b"), model="linear", warmup=30)
        streams.follow(Follower(streams, what, said.append))
    streams.start()
    try:

        def until(name: str, done: Callable[[dict[str, Any]], bool]) -> None:
            end = monotonic() + PATIENCE
            while not done(streams.source(name) or {}):
                assert monotonic() < end, (streams.source(name), said)
                sleep(0.005)

        until("good", lambda source: source["rows"] == 60)
        until("missing", lambda source: "No such file" in str(source["last_error"]))
        until("folder", lambda source: "Is a directory" in str(source["last_error"]))
        until("other", lambda source: not source["following"])
        paths["folder"].rmdir()
        for name in ("missing", "folder"):
            paths[name].write_text(HEADER + text(0, 60))
            until(name, lambda source: source["rows"] == 60)
        append(paths["good"], text(60, 90))
        until("good", lambda source: source["rows"] == 90)
    finally:
        streams.stop()
    assert {each.partition(".csv")[0] for each in said} == {
        str(tmp_path / name) for name in ("missing", "folder", "other")
    }


@pytest.mark.parametrize("how", ["rename", "truncate"])
def test_a_file_is_rotated(how: str, tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
        if how == "rename":
            with path.open("a") as old:
                path.rename(tmp_path / "power.csv.1")
                old.write(text(50, 60))  # by who has it open
                old.flush()
                path.write_text("load,b,a\n" + text(60, 100, ("load", "b", "a")))
            live.rows(100)
            path.rename(tmp_path / "power.csv.2")
            live.rows(100)
            path.write_text(HEADER + text(100, N))
        else:
            with path.open("r+") as file:  # shorter than it was
                file.truncate()
                file.write("load,b,a\n" + text(50, 60, ("load", "b", "a")))
            live.rows(60)
            with path.open("r+") as file:  # longer than it was, at once
                file.truncate()
                file.write(HEADER + text(60, N))
        assert live.rows(N)["skipped"] == 0
        assert (
            live.stream.settled().recent(1, -1, None)["rows"][0]["id"]
            == f"power.csv:2:{N - (101 if how == 'rename' else 61)}"
        )
        check_same(live.stream, tmp_path / "other")
        assert live.said == []


def test_a_file_that_is_written_anew_with_the_same_rows_goes_on(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
        (tmp_path / "aside").write_text(HEADER + text(0, N))
        (tmp_path / "aside").rename(path)
        live.rows(N)
        check_same(live.stream, tmp_path / "other")


def test_a_rotation_while_nobody_looks(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
    append(path, text(50, 60) + "1.0,2")  # left within a line
    path.rename(tmp_path / "power.csv.1")
    path.write_text(HEADER + text(60, N))
    with service(tmp_path / "live", path) as live:
        assert live.rows(N)["skipped"] == 1
        check_same(live.stream, tmp_path / "other")
        assert len(live.said) == 1 and "line 62 was skipped: expected a whole line" in live.said[0]


BAD = {
    "1.0,2.0\n": "expected 3 cells, got 2",
    "1.0,2.0,3.0,4.0\n": "expected 3 cells, got 4",
    "1.0,warm,3.0\n": "column 'b': expected a number of at most 1e+100 in size, or nothing, got 'warm'",
    "1.0,inf,3.0\n": "column 'b': expected a number of at most 1e+100 in size, or nothing, got 'inf'",
    "1.0,2.0,high\n": "column 'load': expected a number of at most 1e+100 in size, or nothing, got 'high'",
    '1.0,"2.0,3.0\n': "malformed CSV (unexpected end of data)",
    "1.0,\xff,3.0\n": "expected UTF-8 text, got byte 0xff",
}


def test_bad_lines_are_skipped_and_told_once(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_bytes("".join([HEADER, text(0, 50), *BAD, "\n", text(50, N)]).encode("latin-1"))
    with service(tmp_path / "live", path) as live:
        assert live.rows(N)["skipped"] == len(BAD)
        assert live.said == [f"{path}: line {52 + i} was skipped: {reason}" for i, reason in enumerate(BAD.values())]
        check_same(live.stream, tmp_path / "other")
        append(path, "x,y,z\n" * 500)
        live.until(lambda source: source["skipped"] == len(BAD) + 500)
        assert len(live.said) == follow.MOST_SAID + 1 and "are counted" in live.said[-1]
        last = 1 + 50 + len(BAD) + 1 + N - 50 + 500
        assert f"line {last} was skipped" in live.source["last_error"]
    with service(tmp_path / "live", path) as live:  # nothing is told again
        sleep(0.1)
        assert live.source["skipped"] == len(BAD) + 500 and live.source["rows"] == N and live.said == []


def test_a_row_without_a_target_is_predicted_and_not_learnt(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 60) + "0.5,true,\n0.5,,NA\n" + text(60, 70))
    with service(tmp_path / "live", path) as live:
        live.rows(72)
        status = live.stream.status()
        assert (status["rows"], status["learned"], status["pending"]) == (72, 70, 0)


@pytest.mark.parametrize("lost", ["nothing", "the place", "the log"])
def test_a_copy_goes_on(lost: str, tmp_path: Path):
    path, whole = tmp_path / "power.csv", HEADER + text(0, N)
    half = len(HEADER + text(0, 80))
    path.write_text(whole[: half - 5])
    live, copy = tmp_path / "live", tmp_path / "copy"
    with service(live, path) as found:
        found.rows(79)
        shutil.copytree(live, copy)
        append(path, whole[half - 5 : half + 300])
        found.until(lambda source: source["rows"] > 80)
        sleep(0.05)
        if lost == "the place":  # it is older than the log
            shutil.copytree(live, tmp_path / "newer")
            shutil.copy(copy / "streams/power/follow.json", tmp_path / "newer/streams/power")
            copy = tmp_path / "newer"
        elif lost == "the log":  # it is older than the place, as a copy may be that is made while lines come
            shutil.copy(live / "streams/power/follow.json", copy / "streams/power")
    append(path, whole[half + 300 :])
    with service(copy, path) as found:
        assert found.rows(N)["skipped"] == 0
        check_same(found.stream, tmp_path / "other")
        assert found.said == []


def test_the_directory_may_be_moved_with_the_file(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
    moved = tmp_path / "elsewhere" / "power.csv"
    moved.parent.mkdir()
    shutil.copy(path, moved)  # another inode
    path.unlink()
    append(moved, text(50, N))
    with service(tmp_path / "live", moved) as live:
        live.rows(N)
        check_same(live.stream, tmp_path / "other")


@pytest.mark.parametrize("header", ["a,b,c,load\n", "a,load\n"])
def test_another_header_ends_it_and_the_stream_lives(header: str, tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
        path.rename(tmp_path / "old.csv")
        path.write_text(header + "1,2,3,4\n")
        found = live.stopped_following()
        columns = ", ".join(header.strip().split(","))
        assert f"expected the columns a, b, load as before, got {columns} in line 1" in found["last_error"]
        assert live.said == [found["last_error"]] and found["rows"] == 50
        assert predict(live.stream, PROBE, keep=False)
        path.rename(tmp_path / "wrong.csv")
    path.write_text(HEADER + text(50, N))  # it was corrected
    with service(tmp_path / "live", path) as live:
        live.rows(N)
        check_same(live.stream, tmp_path / "other")


@pytest.mark.parametrize(
    ("first", "options", "says"),
    [
        ("a,b,loud\n", {}, "there is no column 'load' (did you mean 'loud'?)"),
        ("a,b,load\n", {"features": ("a", "c")}, "there is no column 'c'"),
        ("a,b,load\n", {"warmup": 3}, "warmup: expected a whole number from 12"),
        ("a,a,load\n", {}, "to have different names, got 'a' twice"),
    ],
)
def test_what_cannot_be_a_stream_is_told(first: str, options: dict[str, Any], says: str, tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(first + "1,2,3\n")
    with service(tmp_path / "live", path, **options) as live:
        assert says in live.stopped_following()["last_error"]
        assert live.streams.all() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"features": ("a",)}, "--features: expected a,b, as the stream power has it, got a"),
        ({"warmup": 40}, "--warmup: expected 30"),
        ({"time": "b", "features": ("a",)}, "--time: expected none, as the stream power has it, got a column"),
    ],
)
def test_a_stream_that_is_another_one_is_left_alone(options: dict[str, Any], says: str, tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
    append(path, text(50, N))
    with service(tmp_path / "live", path, **options) as live:
        assert says in live.stopped_following()["last_error"]
        assert live.stream.status()["rows"] == 50
    with service(tmp_path / "live", path, model=None, warmup=None) as live:  # what is not said is as it is
        live.rows(N)
        check_same(live.stream, tmp_path / "other")


def test_semicolons_times_and_keys(tmp_path: Path):
    path = tmp_path / "shops.csv"
    days = [f"2026-01-{1 + i // 3:02d}" for i in range(90)]
    lines = [f"{'abc'[i % 3]};{days[i]};{i % 7},5;{i % 5},25\n" for i in range(90)]
    lines.insert(30, "a;yesterday;1,0;1,0\n")
    lines.insert(60, ";2026-01-20;1,0;1,0\n")
    path.write_text("\ufeffshop;day;price;load\r\n" + "".join(lines), encoding="utf-8")
    with service(tmp_path / "live", path, time="day", key="shop", model=None, warmup=20) as live:
        assert live.rows(90)["skipped"] == 2
        assert live.stream.config.features == ("price",)
        status = live.stream.status()
        assert (status["keys"], status["learned"], status["timed"]) == (3, 90, True)
        (row,) = live.stream.settled().recent(1, -1, None)["rows"]
        assert (row["key"], row["y"], row["time"]) == ("c", 4.25, 1769731200.0)
        assert (
            "time column 'day': expected a date of the years 1 to 9999" in live.said[0]
            and "expected a key" in live.said[1]
        )


def test_times_that_go_back_are_skipped(tmp_path: Path):
    path = tmp_path / "power.csv"
    times = [0.0, 1.0, 2.0, 1.5, 3.0]
    path.write_text("t,a,load\n" + "".join(f"{time},1.0,2.0\n" for time in times))
    with service(tmp_path / "live", path, time="t") as live:
        assert live.rows(4)["skipped"] == 1
        append(path, "2.5,1.0,2.0\n4.0,1.0,2.0\n")  # the first is before what was learnt
        assert live.rows(5)["skipped"] == 2
        assert "line 5 was skipped: time column 't': expected none before" in live.said[0]
        assert "line 7 was skipped: time: expected none before 3.0" in live.said[1]
        assert live.stream.model.last_time == 4.0


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from sqlite3 import OperationalError

    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
        with monkeypatch.context() as patch:

            def full(_: Any) -> None:
                raise OperationalError("database or disk is full")

            patch.setattr("streamgp.service.log.EventLog.commit", full)
            append(path, text(50, N))
            live.until(lambda source: "free some disk space" in str(source["last_error"]))
            assert live.source["rows"] == 50
        live.rows(N)
        assert len(live.said) == 1
        check_same(live.stream, tmp_path / "other")


def test_standard_input_until_its_end(tmp_path: Path):
    whole = (HEADER + text(0, N)).encode()[:-1]  # the last line has no end, but the text has
    for run, part in enumerate(
        (whole[: len(HEADER + text(0, 80))], HEADER.encode() + whole[len(HEADER + text(0, 80)) :])
    ):
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as pipe, service(tmp_path / "live", None, pipe) as live:
            os.write(writer, part[:1000])
            live.until(lambda source, run=run: source["rows"] > 80 * run)
            os.write(writer, part[1000:])
            os.close(writer)
            found = live.stopped_following()
            assert found == {
                "file": "standard input",
                "rows": (80, N)[run],
                "skipped": 0,
                "last_error": None,
                "following": False,
            }
            assert live.said == ["standard input has ended; the service goes on"]
            assert live.stream.settled().recent(1, -1, None)["rows"][0]["id"] == f"stdin:{run}:{(79, N - 81)[run]}"
            if run:
                check_same(live.stream, tmp_path / "other")


def test_a_stream_that_is_deleted_is_followed_no_longer(tmp_path: Path):
    path = tmp_path / "power.csv"
    path.write_text(HEADER + text(0, 50))
    with service(tmp_path / "live", path) as live:
        live.rows(50)
        live.streams.delete("power")
        append(path, text(50, 60))
        sleep(0.1)
        assert live.streams.source("power") is None and live.streams.all() == []
        assert list((tmp_path / "live" / "streams").iterdir()) == []
