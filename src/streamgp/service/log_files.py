"""The files of a stream's log: SQLite, that in use only ever appended to, and the one before it."""

import os
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

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
        for left in directory.glob("*.new*"):  # of a file that was never finished
            left.unlink()
        self.number = number_of(found[-1]) if found else 1
        self._former: tuple[Path, sqlite3.Connection | None] | None = None
        # Those before the former one, until they are deleted.
        self._older: list[tuple[Path, sqlite3.Connection | None]] = []
        self._copying: sqlite3.Connection | None = None
        if len(found) > 1:
            self._former = (found[-2], None)
        for path in found[:-2]:
            _delete(path)

    @property
    def path(self) -> Path:
        """Return the newest file."""
        return self._path(self.number)

    @property
    def bytes(self) -> int:
        """Return the size of all."""
        return sum(path.stat().st_size for path in self.directory.glob("log-*"))

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

    def copy(self) -> None:
        """Copy what the newest file has at the moment to one aside; another thread may write to it meanwhile."""
        self._aside.unlink(missing_ok=True)
        with closing(opened_to_read(self.path)) as db:
            self._copying = db
            try:
                db.execute("VACUUM INTO ?", (str(self._aside),))
            except BaseException:
                self._aside.unlink(missing_ok=True)
                raise
            finally:
                self._copying = None
        _sync(self._aside)

    def stop_copy(self) -> None:
        """End a copy that another thread makes."""
        copying = self._copying
        if copying is not None:
            copying.interrupt()

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
        except BaseException:
            self._aside.unlink(missing_ok=True)
            raise
        self._aside.rename(new)
        sync_directory(self.directory)
        if self._former is not None:
            self._older.append(self._former)
        # Left open: to close it would fold its write-ahead log into it, while somebody may copy both.
        self._former, opened = (path, db), _open(new)
        self.number += 1
        return opened

    def settle(self) -> str:
        """Delete the files that are no longer needed; return a digest of the newest one's bytes; in any thread."""
        while self._older:
            path, db = self._older.pop()
            _delete(path)
            if db is not None:
                db.close()
        return digest_of(self.path)

    def close_former(self) -> None:
        """Close the files before the newest."""
        for _, db in (*self._older, *([] if self._former is None else [self._former])):
            if db is not None:
                db.close()

    @property
    def _aside(self) -> Path:
        new = self._path(self.number + 1)
        return new.with_name(new.name + ".new")

    def _path(self, number: int) -> Path:
        return self.directory / f"log-{number:08d}.sqlite"


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
