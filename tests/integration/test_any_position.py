"""A stream that returns to positions between its checkpoints, by its archive and its log, from a backup too."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

import pytest
from typer.testing import CliRunner

from live_streams import KINDS, PATIENCE, Y, copied, known, learn, predict, rows, same, step, until_kept_up, working
from streamgp.app.cli import app
from streamgp.service import history
from streamgp.service.archive import DAY, NAME, Archive, first_kept, kept_entries
from streamgp.service.backup import back_up
from streamgp.service.config import StreamConfig
from streamgp.service.live_stream import LiveStream
from streamgp.service.log_end import link
from streamgp.service.past import Past
from streamgp.service.problems import Problem

Action = Callable[[LiveStream, dict[str, Any]], Any]


def stepped(*of: int) -> Action:
    return lambda stream, options: step(stream, [row for i in of for row in rows(range(i, i + 1), options)])


def predicted(i: int) -> Action:
    return lambda stream, options: predict(stream, rows(range(i, i + 1), options, targets=False))


def labelled(i: int) -> Action:
    return lambda stream, options: learn(stream, [{"id": f"r{i}", "y": float(Y[i])}])


# Each is one entry of the log: rows one by one and several, some whose label comes later.
ACTIONS: list[Action] = [
    *(stepped(i) for i in range(20)),
    stepped(*range(20, 40)),
    *(each for i in range(40, 60) for each in ((predicted(i), labelled(i)) if i % 2 else (stepped(i),))),
    stepped(*range(60, 75)),
]


def done(stream: LiveStream, options: dict[str, Any], first: int, last: int) -> None:
    """Do some of the actions, with a checkpoint now and then."""
    for i in range(first, last):
        ACTIONS[i](stream, options)
        if i % 9 == 8:
            stream.write_checkpoint().result(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_returns_to_any_position(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "PART", 20)
    options = KINDS[kind]

    def expected(*parts: tuple[int, int]) -> dict[str, Any]:
        with working(tmp_path / "-".join(map(str, (kind, *parts))), **options) as never:
            for first, last in parts:
                for action in ACTIONS[first:last]:
                    action(never, options)
            return known(never, options)

    with working(tmp_path / "power", **options) as stream:
        done(stream, options, 0, len(ACTIONS))
        until_kept_up(stream)
        assert stream.log.first > 10  # earlier entries are in the archive alone
        assert Past(stream).earliest() == (0, pytest.approx(time(), abs=600.0))
        crashed = copied(stream, tmp_path / "copy")
        for position in (47, 33, 22, 12):
            assert stream.restore(position).result(PATIENCE)["restored"] == position
            same(known(stream, options), expected((0, position)))
        # And to a position since the last return, between checkpoints again.
        begun = stream.last_position
        done(stream, options, 12, 32)
        stream.restore(begun + 7).result(PATIENCE)
        same(known(stream, options), expected((0, 19)))
        with pytest.raises(Problem, match="position: 40 was left behind when the stream returned to 12"):
            stream.restore(40)
        assert not stream.checkpoints.held
        assert not list(stream.directory.glob(".past-*"))
    # After a kill the archive and the checkpoints are as they were.
    with working(crashed, **options) as stream:
        stream.restore(29).result(PATIENCE)
        same(known(stream, options), expected((0, 29)))
        assert stream.durability()["notices"] == []


@pytest.mark.slow
def test_what_cannot_be_reached_is_said_and_nothing_changes(tmp_path: Path):
    with working(tmp_path / "power", archive_days=0) as stream:
        done(stream, {}, 0, len(ACTIONS))
        until_kept_up(stream)
        before = known(stream, {})
        earliest = Past(stream).earliest()
        assert earliest is not None and earliest[0] > 0
        for position, said in (
            (earliest[0] - 2, f"position: expected none before {earliest[0]}, of "),
            (stream.last_position + 1, f"position: expected at most {stream.last_position}, that of now"),
        ):
            with pytest.raises(Problem, match=said):
                stream.restore(position)
        with pytest.raises(Problem, match="time: expected none before"):
            Past(stream).position_at(time() - DAY)
        assert Past(stream).position_at(time()) == stream.last_position
        same(known(stream, {}), before)
        stream.restore(earliest[0]).result(PATIENCE)


@pytest.mark.slow
def test_a_damaged_archive_is_known_and_begun_anew(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        done(stream, {}, 0, 40)
        archive = stream.directory / "archive.sqlite"
        with closing(sqlite3.connect(archive)) as db:
            db.execute("UPDATE entries SET body = zeroblob(length(body)) WHERE position = 5")
            db.commit()
        with pytest.raises(Problem, match=r"entry 5 is missing or damaged in archive\.sqlite and the log"):
            stream.restore(7)
    archive.write_bytes(b"not a database" * 1_000)
    with working(tmp_path / "power") as stream:
        for i in range(80, 84):
            step(stream, rows(range(i, i + 1), {}))
            stream.write_checkpoint().result(PATIENCE)
        stream.sequencer.call(lambda log: log.forget(stream.last_position - 1))  # type: ignore[union-attr]
        step(stream, rows(range(84, 85), {}))
        assert (stream.directory / "aside" / "archive-1.sqlite").read_bytes().startswith(b"not a database")
        assert first_kept(stream.directory)[0] > 1  # type: ignore[index]
        assert stream.failure is None


@pytest.mark.slow
def test_the_command_sets_a_backup_back_to_a_time(tmp_path: Path):
    path = tmp_path / "live" / "streams" / "power"
    path.mkdir(parents=True)
    config = StreamConfig("power", "load", ("a", "b"), model="linear", warmup=30)
    (path / "stream.json").write_text(config.to_json())
    with working(path) as stream:
        done(stream, {}, 0, 27)
        moment = time()
        done(stream, {}, 27, len(ACTIONS))
        back_up(tmp_path / "live", tmp_path / "copy", lambda *_: None)
    with working(tmp_path / "never") as never:
        done(never, {}, 0, 27)
        expected = known(never, {})
    run = CliRunner()

    def asked(*words: str) -> tuple[int, str]:
        found = run.invoke(app, ["restore", str(tmp_path / "copy"), *words])
        return found.exit_code, " ".join(found.output.split())

    assert asked("--at", "noon")[1].startswith("streamgp: --at: expected a position, or a date")
    assert "expected one of power, got 'load'" in asked("--at", "3", "--stream", "load")[1]
    assert "power: time: expected none before 0, of " in asked("--at", "1999-01-01")[1]
    from datetime import UTC, datetime

    code, said = asked("--at", datetime.fromtimestamp(moment, UTC).isoformat())
    assert code == 0 and "power: as it was at 27; it goes on at " in said
    with working(tmp_path / "copy" / "streams" / "power") as stream:
        same(known(stream, {}), expected)


def archived(directory: Path, count: int, days: int = 7, megabytes: int = 1, ages: float = 0.0) -> Archive:
    """Make an archive of entries of 10 kB, each a moment after the one before."""
    archive = Archive(directory, days, megabytes)
    chain, found = b"", []
    for position in range(1, count + 1):
        at, body = time() - ages * (count - position), bytes([position % 256]) * 10_000
        chain = link(chain, position, "step", at, body)
        found.append((position, "step", at, body, chain))
    archive.add(found[:-1])
    (directory / "log").mkdir()
    with closing(sqlite3.connect(directory / "log" / "log-00000001.sqlite")) as db:
        db.execute("CREATE TABLE entries (position INTEGER PRIMARY KEY, kind, at, body, chain)")
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", found[-1:])
        db.commit()
    return archive


def test_the_oldest_entries_go_by_size_and_by_age(tmp_path: Path):
    for name in "abc":
        (tmp_path / name).mkdir()
    archive = archived(tmp_path / "a", 3_050, megabytes=12)
    first = first_kept(tmp_path / "a")
    assert first is not None and 1_850 < first[0] <= 2_001
    assert archive.path.stat().st_size < 40_000_000
    assert [row[0] for row in kept_entries(tmp_path / "a", 2_500, 3_050)] == list(range(2_501, 3_051))
    archived(tmp_path / "b", 20, ages=DAY / 2, days=3)
    first = first_kept(tmp_path / "b")
    assert first is not None and 13 <= first[0] <= 15
    with pytest.raises(Problem, match="entry 6 is missing"):
        list(kept_entries(tmp_path / "b", 5, 20))
    assert not archived(tmp_path / "c", 5, days=0).path.exists()


def test_of_large_entries_no_more_go_than_have_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in "ab":
        (tmp_path / name).mkdir()
    archived(tmp_path / "a", 301, megabytes=2)
    first = first_kept(tmp_path / "a")
    assert first is not None and 1_700_000 < 10_000 * (301 - first[0]) < 2_000_000
    # The thread that acknowledges rows waits for it: too old ones go a few at a time.
    monkeypatch.setattr("streamgp.service.archive._AT_ONCE", 25_000)
    archive = archived(tmp_path / "b", 20, ages=DAY, days=8)
    for left in (4, 7, 10):
        found = first_kept(tmp_path / "b")
        assert found is not None and found[0] == left
        archive.add([])


def test_a_clock_that_is_far_ahead_for_a_moment_makes_no_entry_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = archived(tmp_path, 10)
    began = time()
    for position, ahead in ((11, 0.0), (12, 400 * DAY), (13, 0.0)):
        at = began + ahead
        monkeypatch.setattr("streamgp.service.archive.time", lambda at=at: at)
        kept.add([(position, "step", at, b"", b"")])
    first = first_kept(tmp_path)
    assert first is not None and first[0] == 1
    for position in range(14, 24):  # of a stream that goes on, the old ones still go, some days at a time
        at = began + 2 * DAY * (position - 13)
        monkeypatch.setattr("streamgp.service.archive.time", lambda at=at: at)
        kept.add([(position, "step", at, b"", b"")])
    first = first_kept(tmp_path)
    assert first is not None and first[0] == 10  # which is in the log


def test_whoever_reads_while_the_archive_begins_finds_the_log(tmp_path: Path):
    for name in map(str, range(60)):
        (tmp_path / name / "log").mkdir(parents=True)
        with closing(sqlite3.connect(tmp_path / name / "log" / "log-00000001.sqlite")) as db:
            db.execute("CREATE TABLE entries (position INTEGER PRIMARY KEY, kind, at, body, chain)")
            db.execute("INSERT INTO entries VALUES (2, 'step', 9.0, x'', x'')")
            db.commit()
        archive = Archive(tmp_path / name, 7, 1)
        with ThreadPoolExecutor(1) as pool:
            added = pool.submit(archive.add, [(1, "step", time(), b"", b"")])
            found = set()
            while not added.done():
                found.add(first_kept(tmp_path / name))
            added.result()
        archive.close()
        assert {each[0] for each in found if each is not None} <= {1, 2} and None not in found
        assert first_kept(tmp_path / name) is not None


def test_no_file_comes_and_goes_while_the_first_entries_are_archived(tmp_path: Path):
    # Whoever copies the directory lists it first.
    with working(tmp_path / "power") as stream:
        listed = {path.name for path in stream.directory.iterdir()}
        assert NAME in listed
        step(stream, rows(range(60), {}))
        stream.write_checkpoint().result(60)
        step(stream, rows(range(60, 70), {}))
        stream.write_checkpoint().result(60)
        later = {path.name for path in stream.directory.iterdir()}
    assert listed <= later
