"""The entries that a stream's log no longer needs: the stream can return to any position that they reach back to."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.checkpoints import ASIDE
from streamgp.service.log_check import opened_to_read
from streamgp.service.log_end import link
from streamgp.service.log_files import first_entries, log_files, used_bytes
from streamgp.service.problems import Problem

NAME = "archive.sqlite"
DAY = 86_400.0
MEGABYTE = 1_000_000
# So many of the oldest entries, and bytes of those that are too old, are deleted at a time; more than come at a time.
_TRIMMED, _AT_ONCE = 1_000, 4 << 20
_COLUMNS = "position, kind, at, body, chain"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries
    (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, at REAL NOT NULL, body BLOB, chain BLOB);
CREATE INDEX IF NOT EXISTS times ON entries (at);
"""

Row = tuple[int, str, float, bytes, bytes]


class Archive:
    """The oldest entries of a stream, in a database of their own.

    Parameters
    ----------
    directory
        Of the stream.
    days, megabytes
        Older entries are deleted, and the oldest ones beyond this size. Without any days nothing is kept.
    """

    def __init__(self, directory: Path, days: int, megabytes: int) -> None:
        self.path = directory / NAME
        # Open from the first entry on, so that its files do not come and go while the directory is copied. For the
        # same reason the file is made before the first row.
        self._db: sqlite3.Connection | None = None
        self._days = days
        self._bytes = megabytes * MEGABYTE

    def add(self, rows: Sequence[Row]) -> None:
        """Add entries, and delete the oldest; when this returns, the disk has them.

        A file that is no database any more is moved to the directory ``aside``, and another one is begun.
        """
        if self._days == 0:
            return
        try:
            self._write(rows)
        except sqlite3.OperationalError:
            # The disk refuses it.
            raise
        except sqlite3.DatabaseError:
            aside = self.path.parent / ASIDE
            aside.mkdir(exist_ok=True)
            taken = sum(path.name.startswith("archive-") for path in aside.iterdir())
            self.path.rename(aside / f"archive-{taken + 1}.sqlite")
            for rest in ("-wal", "-shm"):
                self.path.with_name(NAME + rest).unlink(missing_ok=True)
            self._write(rows)

    def _write(self, rows: Sequence[Row]) -> None:
        if self._db is None:
            self._db = self._opened()
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            latest = db.execute("SELECT at FROM entries ORDER BY position DESC LIMIT 1").fetchone()
            db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", rows)
            # A clock that is far ahead for a moment shall not make all entries old.
            now = time() if latest is None else min(time(), latest[0] + DAY)
            _drop(db, "WHERE at < ? ORDER BY at", (now - self._days * DAY,), _AT_ONCE)
            # Their pages are written anew, so that the file stays as large.
            while (excess := used_bytes(db) - self._bytes) > 0 and _drop(db, "ORDER BY position", (), excess):
                pass
            db.execute("COMMIT")
        except sqlite3.Error:
            # What was begun is undone with the connection.
            self.close()
            raise

    def _opened(self) -> sqlite3.Connection:
        self.make()
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous=FULL")
            db.executescript(_SCHEMA)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def make(self) -> None:
        """Make the file where there is none, under another name first: who reads it finds it whole, or not at all."""
        if self._days == 0 or self.path.exists():
            return
        begun = self.path.with_name(f"{NAME}-begun")
        for name in ("", "-wal", "-shm"):
            begun.with_name(begun.name + name).unlink(missing_ok=True)
        with closing(sqlite3.connect(begun, isolation_level=None)) as db:
            # Whoever reads it meanwhile keeps nobody from writing.
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_SCHEMA)
        begun.rename(self.path)
        sync_directory(self.path.parent)

    def close(self) -> None:
        """Close the database; the next entries open it again."""
        if self._db is not None:
            self._db.close()
            self._db = None


def _drop(db: sqlite3.Connection, which: str, given: tuple[Any, ...], size: int) -> int:
    """Delete the first entries in an order, a few that have so many bytes; return how many it were."""
    found = first_entries(db, which, given, _TRIMMED, size)
    db.executemany("DELETE FROM entries WHERE position = ?", ((position,) for position in found))
    return len(found)


def kept_entries(directory: Path, after: int, until: int) -> Iterator[Row]:
    """Yield the entries of a stream after a position, up to another one, from its archive and its log.

    Parameters
    ----------
    directory
        Of the stream, which may be at work.

    Raises
    ------
    Problem
        If one is missing, or is not as it was accepted.
    """
    expected, chain = after + 1, b""
    for row in _rows(directory, "position > ? AND position <= ?", (after, until)):
        position, kind, at, body, own = row
        if position != expected or (position > after + 1 and own != link(chain, position, kind, at, body)):
            break
        yield row
        expected, chain = position + 1, own
    if expected <= until:
        raise Problem(
            500,
            f"{directory}: entry {expected:,} is missing or damaged in {NAME} and the log, so that the state at "
            f"{until:,} is not known; choose a position before it or a checkpoint after it",
        )


def position_at(directory: Path, moment: float) -> int | None:
    """Return the position of the last entry that had come by then; None if none is known that did."""
    found = None
    for row in _rows(directory, "at <= ?", (moment,), "max(position), '', 0.0, x'', x''"):
        found = row[0] if row[0] is not None else found
    return found


def first_kept(directory: Path) -> tuple[int, float] | None:
    """Return position and time of the oldest entry that is kept; None if none is."""
    columns = "min(position), '', at, x'', x''"
    return next(((row[0], row[2]) for row in _rows(directory, "1", (), columns) if row[0] is not None), None)


def _rows(directory: Path, where: str, given: tuple[Any, ...], columns: str = _COLUMNS) -> Iterator[Row]:
    """Yield rows of the archive, then those of the log, by connections that change nothing."""
    # The log is opened first: what it drops from now on is still in what is read of it.
    with closing(opened_to_read(log_files(directory / "log")[-1])) as log:
        log.execute("BEGIN")
        first = log.execute("SELECT min(position) FROM entries").fetchone()[0]
        if first is None:
            return
        query = f"SELECT {columns} FROM entries WHERE {where} AND position {{}} ORDER BY position"
        if (directory / NAME).exists():
            with closing(opened_to_read(directory / NAME)) as archive:
                yield from archive.execute(query.format("< ?"), (*given, first))
        yield from log.execute(query.format(">= ?"), (*given, first))
