"""The files of a stream's log: SQLite, that in use only ever appended to, and the one before it."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from errno import ENOSPC
from pathlib import Path
from shutil import disk_usage
from time import monotonic
from typing import Any

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.log_check import FORMAT, Damage, damage, opened_to_read
from streamgp.service.log_end import NAME, EndFile, digest_of

_FILE = re.compile(r"log-(\d{8})\.sqlite")
SCHEMA = """
CREATE TABLE IF NOT EXISTS entries
    (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, at REAL NOT NULL, body BLOB, chain BLOB);
CREATE TABLE IF NOT EXISTS ids
    (number INTEGER PRIMARY KEY, id TEXT UNIQUE, position INTEGER, row BLOB, label TEXT, made INTEGER);
CREATE TABLE IF NOT EXISTS marks (position INTEGER PRIMARY KEY, chain BLOB);
CREATE TABLE IF NOT EXISTS stream (config TEXT);
"""


class LogFiles:
    """The files of a log, of which the newest is in use once it is opened.

    Parameters
    ----------
    directory
        Of the log. Files that were never finished, and all but the last two, are deleted.

    Attributes
    ----------
    number
        Of the newest file, 1 of the first.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        found = log_files(directory)
        self.drop_copy()
        self.number = number_of(found[-1]) if found else 1
        self._former: tuple[Path, sqlite3.Connection | None] | None = None
        # Those before the former one, until they are deleted.
        self._older: list[tuple[Path, sqlite3.Connection | None]] = []
        self._copying: sqlite3.Connection | None = None
        self._read: int | None = None  # the newest file, as `digest` has read it
        if len(found) > 1:
            self._former = (found[-2], None)
        for left in directory.iterdir():  # also what is left of a file whose deletion was cut short
            of = _FILE.match(left.name)
            if found and of is not None and int(of[1]) < number_of(found[-2:][0]):
                left.unlink()

    @property
    def path(self) -> Path:
        """Return the newest file."""
        return self._path(self.number)

    @property
    def bytes(self) -> int:
        """Return the size of all."""
        size = 0
        for path in self.directory.glob("log-*"):
            with suppress(FileNotFoundError):  # it is deleted, or gets its name, meanwhile
                size += path.stat().st_size
        return size

    def open(self) -> sqlite3.Connection:
        """Open the newest file, which is made if need be.

        Raises
        ------
        Problem
            If it cannot be read.
        """
        return _open(self.path)

    def is_large(self, limit: int) -> bool:
        """Whether the write-ahead log of the newest file has so many bytes."""
        path = self.path
        wal = path.with_name(path.name + "-wal")
        return wal.exists() and wal.stat().st_size >= limit

    def check_room(self, db: sqlite3.Connection) -> None:
        """Raise OSError if the disk has no room for a copy of the file in use, and a quarter for what comes then.

        Else every copy would fill it, and requests would be refused until the copy is given up.
        """
        needed, free = used_bytes(db) * 5 // 4, disk_usage(self.directory).free
        if free < needed:
            raise OSError(
                ENOSPC,
                f"expected {needed:,} bytes of the disk for a new file of the log, found {free:,} free; until there "
                f"are more, the log only grows",
            )

    def copy(self) -> float:
        """Copy what the newest file has at the moment to one aside; another thread may write to it meanwhile.

        Return how many seconds that took.
        """
        self.drop_copy()
        return self._aside_from(lambda db: db.execute("VACUUM INTO ?", (str(self._aside),)))

    def bring(self, labelled: Iterable[str]) -> float:
        """Bring to the copy what the newest file has since, as `copy` does; `labelled` are as in `renew`."""

        def bring(db: sqlite3.Connection) -> None:
            with closing(sqlite3.connect(self._aside, isolation_level=None)) as copy:
                _bring(db, copy, labelled)

        return self._aside_from(bring)

    def _aside_from(self, work: Callable[[sqlite3.Connection], Any]) -> float:
        began = monotonic()
        with closing(opened_to_read(self.path)) as db:
            self._copying = db
            try:
                work(db)
            finally:
                self._copying = None
        _sync(self._aside)
        return monotonic() - began

    def stop_copy(self) -> None:
        """End what another thread does to the copy, if it has begun."""
        copying = self._copying
        if copying is not None:
            with suppress(sqlite3.ProgrammingError):  # it is closed
                copying.interrupt()

    def drop_copy(self) -> None:
        """Delete a file that was not finished, if there is one."""
        for left in self.directory.glob("*.new*"):
            left.unlink()

    def renew(self, db: sqlite3.Connection, labelled: Iterable[str]) -> sqlite3.Connection:
        """Have the copy be the newest file; return it, opened.

        Parameters
        ----------
        db
            The file in use, whose entries and ids since the copy are brought to it.
        labelled
            Ids that got their labels since.
        """
        path, new = self.path, self._path(self.number + 1)
        try:
            with closing(sqlite3.connect(self._aside, isolation_level=None)) as copy:
                _bring(db, copy, labelled)
            _open(self._aside).close()
            _sync(self._aside)
            self._aside.rename(new)
            sync_directory(self.directory)
            opened = _open(new)
        except BaseException:
            # What is written from now on goes to the file in use, which has to be the newest.
            _delete(new)
            with suppress(OSError):
                sync_directory(self.directory)
            raise
        if self._former is not None:
            self._older.append(self._former)
        # Left open: to close it would fold its write-ahead log into it, while somebody may copy both.
        self._former = path, db
        self.number += 1
        return opened

    def settle(self) -> str:
        """Delete the files that are no longer needed; return a digest of the newest one's bytes; in any thread."""
        while self._older:
            path, db = self._older.pop()
            _delete(path)
            if db is not None:
                db.close()
        return self.digest()

    def digest(self) -> str:
        """Return a digest of the newest file's bytes.

        The file stays open. To close it would end this process's locks on it, and with them another one, which only
        looks into it, would take its write-ahead log for its own when it ends, and delete it (SQLite, "How To Corrupt
        An SQLite Database File", 2.2).
        """
        former, self._read = self._read, os.open(self.path, os.O_RDONLY)
        if former is not None:
            os.close(former)
        return digest_of(self._read)

    def close(self) -> None:
        """Close the files before the newest, and what was read of it; that in use is closed."""
        for _, db in (*self._older, *([] if self._former is None else [self._former])):
            if db is not None:
                db.close()
        if self._read is not None:
            os.close(self._read)
            self._read = None

    @property
    def _aside(self) -> Path:
        new = self._path(self.number + 1)
        return new.with_name(new.name + ".new")

    def _path(self, number: int) -> Path:
        return self.directory / f"log-{number:08d}.sqlite"


def first_entries(db: sqlite3.Connection, which: str, given: tuple[Any, ...], most: int, size: int) -> list[int]:
    """Return the positions of the first entries in an order: so many at most, or those that have so many bytes.

    Parameters
    ----------
    which, given
        The condition and the order in SQL, with the values that it asks for.
    """
    found = list[int]()
    query = f"SELECT position, length(body) FROM entries {which} LIMIT {most}"
    for position, length in db.execute(query, given).fetchall():
        found.append(position)
        size -= length or 0
        if size <= 0:
            break
    return found


def used_bytes(db: sqlite3.Connection) -> int:
    """Return how many bytes of a database are in use."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def log_files(directory: Path) -> list[Path]:
    """Return the files of a log, in the order in which they were made."""
    return sorted(path for path in directory.iterdir() if _FILE.fullmatch(path.name))


def number_of(path: Path) -> int:
    """Return the number of a file of a log."""
    return int(path.name[4:12])


def damage_of(directory: Path) -> Damage | None:
    """Return what is wrong with the log of a directory; None if nothing is."""
    found = log_files(directory)
    newest = (number_of(found[-1]), found[-1]) if found else None
    return damage(directory, newest, EndFile(directory / NAME).end)


def _open(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA page_size=1024")  # an entry is small, and every page it touches is written
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.executescript(SCHEMA)
    except sqlite3.DatabaseError as error:
        raise Damage(0, f"{path}: could not be read as a log ({error})").problem from error
    return db


def _bring(db: sqlite3.Connection, copy: sqlite3.Connection, labelled: Iterable[str]) -> None:
    """Bring what a file has since it was copied to the copy, which the disk need not have yet."""
    copy.execute("PRAGMA synchronous=OFF")
    copy.execute("PRAGMA journal_mode=OFF")
    last = copy.execute("SELECT max(position) FROM entries").fetchone()[0] or 0
    number = copy.execute("SELECT max(number) FROM ids").fetchone()[0] or 0
    copy.execute("BEGIN")
    later = db.execute("SELECT position, kind, at, body, chain FROM entries WHERE position > ?", (last,))
    copy.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", later)
    ids = "SELECT number, id, position, row, label, made FROM ids WHERE"
    changed = db.execute(f"{ids} number > ?", (number,)).fetchall()
    for name in labelled:
        changed += db.execute(f"{ids} id = ?", (name,)).fetchall()
    copy.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?, ?, ?, ?, ?)", changed)
    copy.execute("DELETE FROM marks")
    copy.executemany("INSERT INTO marks VALUES (?, ?)", db.execute("SELECT position, chain FROM marks"))
    copy.execute("COMMIT")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _delete(path: Path) -> None:
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)
