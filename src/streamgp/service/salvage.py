"""The recovery of a damaged stream: it goes on from what is left, and unusable files are moved aside.

A stream whose log has lost entries that were acknowledged is not opened, because what is sent to it then would take
the place of what is missing. Its operator may accept the loss.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.checkpoints import ASIDE, Checkpoints
from streamgp.service.config import StreamConfig
from streamgp.service.knowledge import Knowledge
from streamgp.service.log_check import FORMAT, chained, opened_to_read
from streamgp.service.log_end import NAME, End, EndFile, digest_of
from streamgp.service.log_files import SCHEMA, damage_of, log_files, number_of
from streamgp.service.packing import unpack
from streamgp.service.problems import Problem

_WHOLE_IDS = (
    "typeof(id) = 'text' AND typeof(position) = 'integer' AND typeof(made) IN ('integer', 'null') "
    "AND typeof(row) IN ('blob', 'null') AND typeof(label) IN ('text', 'null')"
)


class _Start(NamedTuple):
    """Where a stream can begin: a checkpoint, or nothing at all."""

    position: int
    chain: bytes
    # The number of rows of the history that are in files.
    sealed: int
    waiting: list[str]


class _Left(NamedTuple):
    """What can be read of a log: its entries by position, whether each follows from the one before, and the rest."""

    entries: dict[int, tuple[Any, ...]]
    ids: list[tuple[Any, ...]]
    marks: dict[int, bytes]
    config: list[tuple[str]]

    def reach(self, start: _Start) -> int:
        """Return how far the log goes on from a start without a gap."""
        chain = self.chain(start.position)
        if chain and start.chain and chain != start.chain:
            # The start belongs to another log.
            return -1
        return next(p for p in count(start.position) if p + 1 not in self.entries)

    def chain(self, position: int) -> bytes:
        """Return the link of the chain at a position, if it is known."""
        return (self.entries[position][4] if position in self.entries else self.marks.get(position)) or b""


def accept_loss(directory: Path, config: StreamConfig) -> str:
    """Let a stream go on from what is left of it; return what that is, and what is lost, in sentences.

    It begins at the checkpoint from which it comes furthest, which may be one that the log does not reach.

    Parameters
    ----------
    directory
        Of the stream, which no process has open.
    config
        What it is.

    Raises
    ------
    Problem
        If nothing is lost, or there is nothing left to go on from.
    """
    log, checkpoints = directory / "log", Checkpoints(directory / "checkpoints")
    log.mkdir(exist_ok=True)
    end, left = EndFile(log / NAME).end, _left(log)
    starts = [_Start(0, b"", 0, []), *_starts(config, checkpoints)]
    start = max(starts, key=lambda each: (left.reach(each), each.position))
    until = left.reach(start)
    newest = max(checkpoints.positions(), default=0)
    last = max([0 if end is None else end.position, newest, *left.entries, *left.marks])
    # The last position that the log itself has.
    reached = max([*left.entries, *left.marks], default=0)
    if damage_of(log) is None and until >= last and reached >= newest:
        raise Problem(409, f"--accept-loss: {config.name} has lost nothing; leave that option out")
    if not until and last:
        raise Problem(500, f"{directory}: nothing is left to go on from; put a backup in its place")
    ids = _ids(left, start, until)
    for position in checkpoints.positions():
        if position > start.position:
            checkpoints.set_aside(position)
    aside = next(path for i in count(1) if not (path := directory / ASIDE / f"log-{i}").exists())
    aside.mkdir(parents=True)
    for path in (directory / "history").glob("*.parquet"):
        # The rows of this file are learnt again, and written again.
        if int(path.stem) >= start.sealed:
            path.rename(aside / path.name)
    _begin(log, aside, left, start, until, ids)
    # An end before the newest checkpoint is that of another log, or of one that was begun in the place of a lost one.
    lost = _lost(until, last, end is not None and end.position >= newest)
    # The ids are known up to this entry.
    known = max((p for p in left.entries if p <= until), default=0)
    twice = f"; of entries {known + 1:,} to {until:,} the ids: rows of them that are sent again count twice"
    forgotten = twice if known < until else ""
    return (
        f"{config.name} goes on at {until:,}. Lost: {lost}{forgotten}. What could not be used is in "
        f"{directory / ASIDE}"
    )


def _lost(until: int, last: int, is_known: bool) -> str:
    """Return what is lost; where the log ended is not always known."""
    after = "" if is_known else f"what was acknowledged after {last:,}, if anything was, which is not known"
    entries = f"entries {until + 1:,} to {last:,}" if until < last else ""
    return " and ".join(each for each in (entries, after) if each) or "no entry"


def _starts(config: StreamConfig, checkpoints: Checkpoints) -> Iterator[_Start]:
    for position in checkpoints.positions():
        with suppress(CheckpointError, OSError, KeyError, TypeError, ValueError):
            model, tree = Knowledge.read(config, checkpoints.path(position))
            if tree["position"] == position:
                chain = bytes.fromhex(tree["chain"])
                yield _Start(position, chain, tree["history"]["sealed"], list(model.waiting))


def _left(log: Path) -> _Left:
    left = _Left({}, [], {}, [])
    found = log_files(log)
    if not found:
        return left
    with suppress(sqlite3.DatabaseError), closing(opened_to_read(found[-1])) as db:
        with suppress(sqlite3.DatabaseError):
            left.config.extend(db.execute("SELECT config FROM stream WHERE typeof(config) = 'text'"))
            left.marks.update(db.execute("SELECT position, chain FROM marks WHERE typeof(chain) = 'blob'"))
        with suppress(sqlite3.DatabaseError):
            # As the scan had them: where pages are lost, an entry that is looked up may be another one, or none.
            left.entries.update((entry[0], entry) for entry, is_sound in chained(db) if is_sound)
        with suppress(sqlite3.DatabaseError):
            for row in db.execute(f"SELECT * FROM ids WHERE {_WHOLE_IDS} ORDER BY number"):
                left.ids.append(row)
    return left


def _ids(left: _Left, start: _Start, until: int) -> list[tuple[Any, ...]]:
    """Return what is to be known of ids: what was known at the end, as far as it can be told."""
    waiting = dict.fromkeys(start.waiting)
    for position in range(start.position + 1, until + 1):
        if left.entries[position][1] == "predict":
            waiting |= dict.fromkeys(unpack(left.entries[position][3])["rows"]["ids"])
    found = []
    for number, name, position, row, label, made in left.ids:
        if position <= until:
            found.append((number, name, position, row, label, made))
        elif name in waiting or (made is not None and made <= until):
            # The label of the row came later.
            found.append((number, name, until, row, None, made))
    known = {row[1] for row in found}
    return found + [(None, name, until, b"", None, until) for name in waiting if name not in known]


def _begin(log: Path, aside: Path, left: _Left, start: _Start, until: int, ids: list[tuple[Any, ...]]) -> None:
    """Begin a new file of the log with what is left, and move the others aside."""
    old, end = log_files(log), EndFile(log / NAME)
    number = max([0 if end.end is None else end.end.number, *map(number_of, old)]) + 1
    path = log / f"log-{number:08d}.sqlite"
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    kept = [left.entries[p] for p in range(start.position + 1, until + 1)]
    if start.position in left.entries and not kept:
        kept = [left.entries[start.position]]
    marks = {start.position: start.chain or left.chain(start.position)} | left.marks
    with closing(sqlite3.connect(new, isolation_level=None)) as db:
        db.execute("PRAGMA page_size=1024")
        db.executescript(f"{SCHEMA}PRAGMA user_version={FORMAT}; BEGIN;")
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", kept)
        db.executemany("INSERT OR IGNORE INTO ids VALUES (?, ?, ?, ?, ?, ?)", ids)
        db.executemany("INSERT INTO marks VALUES (?, ?)", [each for each in marks.items() if 0 < each[0] <= until])
        db.executemany("INSERT INTO stream VALUES (?)", left.config[:1])
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode=WAL")
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.rename(path)
    # If it ends before this, the log still ends before what was acknowledged, and this is done again.
    if end.exists:
        shutil.copy2(end.path, aside / NAME)
    for each in (found for one in old for found in log.glob(one.name + "*")):
        each.rename(aside / each.name)
    sync_directory(aside)
    sync_directory(log)
    chain = left.entries[until][4] or b"" if until in left.entries else marks.get(until, b"")
    at = left.entries[until][2] if until in left.entries else 0.0
    end.write(End(until, at, chain, number, digest_of(path), True))
    end.close()
