"""The log: in order, as groups, in files that may be copied while they are written."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import permutations
from pathlib import Path
from threading import Event, current_thread
from threading import enumerate as enumerate_threads
from time import sleep, time
from types import SimpleNamespace
from typing import Any

import pytest

from streamgp.service import log_files
from streamgp.service.archive import Archive, kept_entries
from streamgp.service.log import Entry, EventLog, as_text
from streamgp.service.log_files import LogFiles
from streamgp.service.log_ids import KnownId
from streamgp.service.problems import Problem


def write(log: EventLog, *bodies: bytes) -> None:
    log.begin()
    for body in bodies:
        log.add("learn", 1.5, body)
    log.commit()


def bodies(log: EventLog, after: int = 0) -> list[bytes]:
    return [entry.body for entry in log.after(after)]


def test_entries_come_back_in_order(tmp_path: Path):
    log = EventLog(tmp_path)
    write(log, b"a", b"b")
    write(log, b"c")
    log.close()
    log = EventLog(tmp_path)
    assert log.position == 3
    assert [(e.position, e.kind, e.at, e.body) for e in log.after(1)] == [
        (2, "learn", 1.5, b"b"),
        (3, "learn", 1.5, b"c"),
    ]


def test_a_group_is_kept_as_a_whole_or_not_at_all(tmp_path: Path):
    log = EventLog(tmp_path)
    write(log, b"a")
    log.begin()
    log.add("learn", 0.0, b"lost")
    log.ids.note([("r1", b"x", None)], 2)
    log.roll_back(1)
    assert (log.position, log.ids.find(["r1"])) == (1, {})
    write(log, b"b")
    assert bodies(log) == [b"a", b"b"]


def test_a_copy_made_while_it_is_written_holds_a_beginning(tmp_path: Path):
    log = EventLog(tmp_path / "log")
    for i in range(40):
        write(log, str(i).encode() * 200)
        if i == 20:
            shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert len(bodies(EventLog(tmp_path / "copy"))) == 21
    # One file first, others later: what a slow copy may see. One whose end is newer than its log says so.
    names = sorted(path.name for path in (tmp_path / "log").iterdir() if not path.name.endswith("-shm"))
    assert names == ["end", "log-00000001.sqlite", "log-00000001.sqlite-wal"]
    for order in permutations(names):
        slow = tmp_path / " ".join(order)
        slow.mkdir()
        before = log.position
        for name in order:
            shutil.copy(tmp_path / "log" / name, slow / name)
            write(log, b"more")
        if order.index("end") < order.index("log-00000001.sqlite-wal"):
            assert len(bodies(EventLog(slow))) >= before
        else:
            with pytest.raises(Problem, match=f"entries .* to {before + order.index('end'):,} are missing"):
                EventLog(slow)


def test_a_torn_end_is_left_out_if_nobody_was_told_of_it(tmp_path: Path):
    log = EventLog(tmp_path / "log")
    write(log, b"a" * 3000)
    shutil.copytree(tmp_path / "log", tmp_path / "torn")
    before = (tmp_path / "torn" / "log-00000001.sqlite-wal").stat().st_size
    write(log, b"b" * 3000)
    shutil.copytree(tmp_path / "log", tmp_path / "lost")
    wal = tmp_path / "lost" / "log-00000001.sqlite-wal"
    wal.write_bytes(wal.read_bytes()[: before + 1500])
    shutil.copy(wal, tmp_path / "torn")
    assert bodies(EventLog(tmp_path / "torn")) == [b"a" * 3000]
    with pytest.raises(Problem, match="ends at 1, and entries up to 2 were acknowledged: entries 2 to 2 are missing"):
        EventLog(tmp_path / "lost")
    assert wal.stat().st_size == before + 1500  # what can be had of it can still be had


def test_a_new_file_begins_with_what_is_needed(tmp_path: Path):
    log = EventLog(tmp_path)
    for i in range(50):
        log.begin()
        position = log.add("learn", 0.0, b"x" * 500)
        log.ids.note([(f"r{i}", b"d", None)], position)
        log.commit()
    log.forget(45)
    assert log.first == 46
    assert not log.renew_if_large(limit=1 << 30)
    assert log.renew_if_large(limit=1)
    write(log, b"after")
    assert [path.name for path in sorted(tmp_path.glob("*.sqlite"))] == ["log-00000001.sqlite", "log-00000002.sqlite"]
    assert log.renew_if_large(limit=1)
    assert [path.name for path in sorted(tmp_path.glob("*.sqlite"))] == ["log-00000002.sqlite", "log-00000003.sqlite"]
    log.close()
    log = EventLog(tmp_path)
    assert (log.position, log.first, len(log.ids.find([f"r{i}" for i in range(50)]))) == (51, 46, 50)


def known(log: EventLog) -> tuple[object, ...]:
    """Return all that a log knows."""
    ids = {name: each for i in range(90) for name, each in log.ids.find([f"r{i}"]).items()}
    marks = {each: log.chain_at(each) for each in (10, 20, 30)}
    return log.position, log.chain, log.first, bodies(log), ids, {k: v for k, v in marks.items() if v is not None}


def go_on(log: EventLog, i: int) -> None:
    """Write a row with a label, one without, and the label of an earlier one."""
    log.begin()
    position = log.add("learn", float(i), b"more")
    log.ids.note([(f"r{i}", b"d", "1.0"), (f"r{i + 20}", b"d", None)], position)
    log.ids.note_labels([(f"r{i - 30}", "3.0")], position)
    log.commit()


def opened_copy(log: EventLog, to: Path) -> EventLog:
    """Return what is there if the process is killed now."""
    # The journal of a copy that is being made may be gone again.
    return EventLog(Path(shutil.copytree(log.directory, to, ignore=shutil.ignore_patterns("*-journal"))))


def test_a_file_is_renewed_while_groups_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever comes while a log is copied is in the new file, and at each step a killed process loses nothing."""
    log, alone = filled(tmp_path / "log"), filled(tmp_path / "alone")
    copied = Event()
    usual = LogFiles.copy

    def copy_then_wait(files: LogFiles) -> float:
        usual(files)
        assert copied.wait(30.0)
        return 1.0  # long enough that what came meanwhile is brought by that thread, too

    monkeypatch.setattr(LogFiles, "copy", copy_then_wait)
    monkeypatch.setattr("streamgp.service.log._ROUNDS", 2)
    steps = log.renewing(1)
    i = 30
    for _ in steps:
        go_on(log, i)
        go_on(alone, i)
        assert known(opened_copy(log, tmp_path / f"killed {i}")) == known(alone)
        i += 1
        if i == 40:
            copied.set()
        assert i < 50
    assert i > 40 or copied.is_set()
    assert (log.directory / "log-00000002.sqlite").exists() and not list(log.directory.glob("*.new*"))
    assert known(log) == known(alone) == known(opened_copy(log, tmp_path / "copy"))
    log.close()
    assert known(EventLog(log.directory)) == known(alone)


def test_a_copy_is_dropped_if_the_log_is_set_back_meanwhile(tmp_path: Path):
    log = filled(tmp_path)
    steps = log.renewing(1)
    next(steps)
    log.begin()
    log.ids.set_back(10, [])
    log.add("restore", 31.0, b"")
    log.commit()
    for _ in steps:
        pass
    assert [path.name for path in tmp_path.glob("*.sqlite*") if "-" not in path.suffix] == ["log-00000001.sqlite"]
    assert "r20" not in log.ids.find(["r20"]) and "r5" in log.ids.find(["r5"])
    assert log.renew_if_large(1)
    assert "r20" not in log.ids.find(["r20"]) and log.position == 31


def test_a_renewal_may_be_left(tmp_path: Path):
    log = filled(tmp_path)
    for steps_done in (1, 2):
        steps = log.renewing(1)
        for _ in range(steps_done):
            next(steps, None)
        steps.close()
    write(log, b"after")
    log.close()
    assert EventLog(tmp_path).position == 31


def test_a_copy_that_has_only_just_begun_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log, begun = filled(tmp_path), Event()
    usual = log_files.opened_to_read

    class SlowToBegin:
        def __init__(self, path: Path) -> None:
            begun.set()
            sleep(0.05)
            self._db = usual(path)
            self.interrupt, self.close = self._db.interrupt, self._db.close

        def execute(self, *_: Any) -> Any:
            many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000000)"
            return self._db.execute(f"{many} SELECT max(i) FROM n").fetchone()

    monkeypatch.setattr(log_files, "opened_to_read", SlowToBegin)
    steps = log.renewing(1)
    next(steps)
    assert begun.wait(30.0)
    steps.close()
    assert not [each for each in enumerate_threads() if each.name.startswith("streamgp-log-copy")]
    monkeypatch.undo()
    assert log.renew_if_large(1)


def test_logs_are_copied_one_at_a_time(tmp_path: Path):
    one, other = (filled(tmp_path / name) for name in "ab")
    for end in (lambda steps: steps.close(), list):
        steps = one.renewing(1)
        next(steps)
        assert not other.renew_if_large(1)
        end(steps)
        assert other.renew_if_large(1)
        write(other, b"more")


def test_what_came_while_a_log_was_copied_is_brought_beside_the_thread_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log, brought = filled(tmp_path), list[tuple[str, int]]()
    usual = log_files._bring

    def bring(db: sqlite3.Connection, copy: sqlite3.Connection, labelled: set[str]) -> None:
        brought.append((current_thread().name, len(labelled)))
        usual(db, copy, labelled)

    monkeypatch.setattr(log_files, "_bring", bring)
    monkeypatch.setattr("streamgp.service.log._SHORT", 0.0)  # so that there are as many rounds as there may be
    monkeypatch.setattr("streamgp.service.log._ROUNDS", 2)
    steps = log.renewing(1)
    next(steps)
    go_on(log, 30)
    for _ in steps:
        pass
    assert [name.startswith("streamgp-log-copy") for name, _ in brought] == [True, True, False]
    assert [count for _, count in brought] == [1, 0, 0]
    assert log.ids.find(["r0"])["r0"].label == "3.0"


@pytest.mark.parametrize("fails", ["_open", "sync_directory"])
def test_a_new_file_that_cannot_be_used_is_not_there(fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is acknowledged after that goes to the file before it, and a process that begins reads the newest one."""
    log = filled(tmp_path / "log")
    usual = getattr(log_files, fails)

    def failing(path: Path) -> Any:
        if path.suffix != ".new":
            raise OSError("too many open files")
        return usual(path)

    with monkeypatch.context() as patched:
        patched.setattr(log_files, fails, failing)
        with pytest.raises(OSError, match="too many open files"):
            log.renew_if_large(1)
    go_on(log, 30)
    assert known(opened_copy(log, tmp_path / "killed")) == known(log)
    assert log.renew_if_large(1)
    assert known(opened_copy(log, tmp_path / "later")) == known(log)


def test_a_log_is_not_copied_to_a_disk_that_has_no_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = filled(tmp_path)
    monkeypatch.setattr(log_files, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(OSError, match=r"expected [0-9]{2},[0-9]{3} bytes of the disk .*, found 10,000 free; until"):
        log.renew_if_large(1)
    assert not list(tmp_path.glob("*.new*"))
    monkeypatch.undo()
    assert log.renew_if_large(1)


@pytest.mark.process
def test_a_process_that_looks_into_a_log_does_not_end_it(tmp_path: Path):
    """SQLite's own tools write to a file when they end, if they are the only ones that have it open."""
    log = filled(tmp_path / "log")
    look = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM entries').fetchall()"
    for i in (1, 2):
        path = log.directory / f"log-{i:08d}.sqlite"
        subprocess.run([sys.executable, "-S", "-c", look, path], check=True)
        go_on(log, 29 + i)
        assert path.with_name(path.name + "-wal").exists()
        assert known(opened_copy(log, tmp_path / f"killed {i}")) == known(log)
        assert log.renew_if_large(1)


def test_what_is_left_of_a_file_whose_deletion_was_cut_short_goes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = filled(tmp_path / "log")
    assert log.renew_if_large(1)
    go_on(log, 30)
    usual = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        usual(path, missing_ok)
        if path.name.startswith("log-00000001"):
            raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(RuntimeError, match="killed"):
            log.renew_if_large(1)
    assert list(log.directory.glob("log-00000001*"))
    again = opened_copy(log, tmp_path / "again")
    assert known(again) == known(log) and not list(again.directory.glob("log-00000001*"))


def test_the_size_is_known_while_files_go(tmp_path: Path):
    log = filled(tmp_path)
    before = log.bytes
    (tmp_path / "log-00000009.sqlite-wal").symlink_to("gone")
    assert log.bytes == before > 0


def test_ids_that_come_while_others_are_dropped_wait_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("streamgp.service.log.PIECE", 3)
    log = EventLog(tmp_path, max_ids=20)

    def note(count: int) -> None:
        log.begin()
        position = log.add("learn", 0.0, b"")
        log.ids.note([(f"{position} {i}", b"d", "1.0") for i in range(count)], position)
        log.commit()

    note(40)
    for i, _ in enumerate(log.forgetting(0)):
        note(3)
        assert i < 10
    # Three came before it was known how many are to be dropped.
    assert list(log.ids.find(f"1 {i}" for i in range(40))) == [f"1 {i}" for i in range(23, 40)]


def test_entries_are_dropped_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamgp.service.log.PIECE", 7)
    archive = Archive(tmp_path, 7, 100)
    log = EventLog(tmp_path / "log", max_ids=20, archive=archive)
    for i in range(30):
        log.begin()
        log.ids.note([(f"r{i}", b"d", "1.0")], log.add("learn", time(), b"x" * 300))
        log.commit()
    chains = {each: log.chain_at(each) for each in range(31)}
    firsts = []
    for i, _ in enumerate(log.forgetting(25, [27])):
        firsts.append(log.first)
        assert log.chain_at(firsts[-1] - 1) == chains[firsts[-1] - 1]  # what the first entry goes on from
        write(log, b"meanwhile")
        again = opened_copy(log, tmp_path / f"killed {i}")
        assert again.notices == [] and again.chain_at(27) == chains[27]
        again.close()
    assert firsts == [8, 15, 22, 26, 26, 26]
    assert [row[0] for row in kept_entries(tmp_path, 0, 30)] == list(range(1, 31))
    assert log.chain_at(25) == chains[25] and log.chain_at(20) is None
    assert list(log.ids.find([f"r{i}" for i in range(30)])) == [f"r{i}" for i in range(10, 30)]


def test_an_archive_is_not_blamed_for_a_log_that_cannot_be_read(tmp_path: Path):
    log = EventLog(tmp_path / "log", archive=Archive(tmp_path, 7, 100))
    for _ in range(4):
        log.begin()
        log.add("learn", time(), b"x")
        log.commit()
    log.forget(2)

    class Broken(sqlite3.Connection):
        def execute(self, query: str, *given: Any) -> sqlite3.Cursor:
            if "body, chain" in query:
                raise sqlite3.DatabaseError("database disk image is malformed")
            return super().execute(query, *given)

    log._db = Broken(log.directory / "log-00000001.sqlite", isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        log.forget(3)
    assert not (tmp_path / "aside").exists()
    assert [row[0] for row in kept_entries(tmp_path, 0, 4)] == [1, 2, 3, 4]


def test_few_large_entries_are_dropped_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamgp.service.log.PIECE_BYTES", 1_000)
    log = EventLog(tmp_path)
    for _ in range(5):
        write(log, b"x" * 600)
    firsts = [log.first for _ in log.forgetting(5)]
    assert firsts == [3, 5]


def test_half_a_new_file_is_no_file(tmp_path: Path):
    log = EventLog(tmp_path)
    write(log, b"a")
    log.close()
    (tmp_path / "log-00000002.sqlite.new").write_bytes(b"half")
    assert bodies(EventLog(tmp_path)) == [b"a"]
    assert not list(tmp_path.glob("*.new"))


def test_ids_are_forgotten_from_the_oldest_on(tmp_path: Path):
    log = EventLog(tmp_path, max_ids=3)
    log.begin()
    position = log.add("predict", 0.0, b"")
    log.ids.note([(f"r{i}", b"d", None) for i in range(5)], position)
    log.ids.note_labels([("r4", "1.0")], position)
    log.commit()
    log.forget(0)
    assert list(log.ids.find([f"r{i}" for i in range(5)])) == ["r2", "r3", "r4"]
    assert log.ids.find(["r4"])["r4"].label == "1.0"


def test_positions_go_on_after_all_entries_are_forgotten(tmp_path: Path):
    log = EventLog(tmp_path)
    write(log, b"a", b"b")
    log.forget(2)
    log.close()
    log = EventLog(tmp_path)
    write(log, b"c")
    assert log.position == 3


def test_what_is_no_log_is_refused(tmp_path: Path):
    (tmp_path / "log-00000001.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(Problem, match="could not be read as a log"):
        EventLog(tmp_path)


def test_labels_are_compared_as_numbers():
    assert as_text(1) == as_text(1.0) == "1.0"
    assert as_text("1") != as_text(1)
    assert as_text(None) == as_text(float("nan")) != as_text("None")


def test_ids_go_back_to_what_was_known_of_them(tmp_path: Path):
    log = EventLog(tmp_path)
    for _ in range(4):
        log.begin()
        log.add("step", 0.0, b"")
        log.commit()
    log.begin()
    log.ids.note([("learnt", b"1", "1.0")], 1)
    log.ids.note([("waits", b"2", None), ("late", b"3", None)], 2)
    log.ids.note_labels([("waits", "2.0"), ("late", "3.0")], 3)
    log.ids.note([("new", b"4", "4.0")], 4)
    before = log.ids.find(["learnt", "waits", "late", "new"])
    log.ids.set_back(2, ["learnt", "waits"])
    found = log.ids.find(["learnt", "waits", "late", "new"])
    waited_or_late = {"waits": KnownId(b"2", None), "late": KnownId(b"3", None)}
    assert found == {"learnt": KnownId(b"1", "1.0")} | waited_or_late
    log.roll_back(4)
    assert log.ids.find(before) == {}
    assert log.last_of("step", 2) == Entry(4, "step", 0.0, b"")
    assert log.last_of("restore", 0) is None and log.last_of("step", 4) is None


def filled(directory: Path) -> EventLog:
    log = EventLog(directory)
    for i in range(30):
        log.begin()
        position = log.add("learn", float(i), bytes([i]) * 300)
        log.ids.note([(f"r{i}", b"d", "1.0")], position)
        log.commit()
    return log


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["flip", "half", "gone", "all gone", "older"])
def test_a_log_that_lost_its_end_is_not_opened(how: str, tmp_path: Path):
    log = filled(tmp_path / "log")
    wal = tmp_path / "copy" / "log-00000001.sqlite-wal"
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    if how == "flip":
        flip(wal, wal.stat().st_size // 2)
    elif how == "half":
        wal.write_bytes(wal.read_bytes()[: wal.stat().st_size // 2])
    elif how == "older":
        assert log.renew_if_large(limit=1)
        write(log, b"more")
        shutil.copy(tmp_path / "log" / "end", tmp_path / "copy")
    else:
        for path in (tmp_path / "copy").glob("*-wal" if how == "gone" else "log-*"):
            path.unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "copy").iterdir() if path.suffix != ".sqlite-shm"}
    with pytest.raises(Problem, match=r"entries [0-9]+ to 3[01] are missing.*--accept-loss"):
        EventLog(tmp_path / "copy")
    assert {path: path.read_bytes() for path in before} == before


def test_an_entry_that_changed_is_found(tmp_path: Path):
    filled(tmp_path).close()
    path = tmp_path / "log-00000001.sqlite"
    flip(path, path.read_bytes().index(bytes([20]) * 300) + 150)
    with pytest.raises(Problem, match="entry 21 is not as it was accepted, so that entries 21 to 30"):
        EventLog(tmp_path)


def test_an_id_that_changed_is_found(tmp_path: Path):
    filled(tmp_path).close()
    path = tmp_path / "log-00000001.sqlite"
    flip(path, path.read_bytes().index(b"r17") + 1)
    with pytest.raises(Problem, match=r"is not as it was written.*up to 30 are all there, but ids"):
        EventLog(tmp_path)


def test_where_the_log_ends_may_itself_be_damaged(tmp_path: Path):
    filled(tmp_path).close()
    end = tmp_path / "end"
    whole = end.read_bytes()
    for at in (0, 40, 300, 511, 512, 700, 1023):
        end.write_bytes(whole)
        flip(end, at)
        log = EventLog(tmp_path)
        assert log.position == 30 and "one of its two halves was damaged" in log.notices[0]
        log.close()
        log = EventLog(tmp_path)
        assert log.notices == []
        log.close()
    for spoil, says in ((lambda: end.write_bytes(b"x" * 1024), "is damaged"), (end.unlink, "is not there")):
        spoil()
        log = EventLog(tmp_path)
        assert log.position == 30 and says in log.notices[0] and "goes on at 30" in log.notices[0]
        log.close()


@pytest.mark.parametrize("version", [0, 2])
def test_a_log_of_another_format_is_refused(version: int, tmp_path: Path):
    filled(tmp_path).close()
    path = tmp_path / "log-00000001.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    with pytest.raises(Problem, match=f"expected a log of format 1, found format {version}: it is damaged"):
        EventLog(tmp_path)
    assert path.read_bytes() == before


def test_a_group_that_is_dropped_leaves_the_chain_as_it_was(tmp_path: Path):
    log = EventLog(tmp_path)
    write(log, b"a")
    log.begin()
    log.add("learn", 0.0, b"lost")
    log.roll_back(1)
    write(log, b"b")
    log.forget(2, [1])
    assert log.chain_at(1) is not None and log.chain_at(7) is None
    log.close()
    log = EventLog(tmp_path)
    assert (log.position, log.notices) == (2, [])


def test_a_log_that_was_never_closed_is_not_taken_for_damaged(tmp_path: Path):
    log = filled(tmp_path)
    log._db.close()  # as when a process ends in order without closing it: SQLite folds its write-ahead log
    log = EventLog(tmp_path)
    assert (log.position, log.notices) == (30, [])
