"""The files of a stream's log: SQLite, that in use only ever appended to, and the one before it."""

import os
import re
import sqlite3
from pathlib import Path

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.log_check import FORMAT, Damage, damage
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

    def renew(self, db: sqlite3.Connection) -> tuple[sqlite3.Connection, str]:
        """Begin a new file with all that `db`, the one in use, has; return it, opened, and a digest of its bytes."""
        path, new = self.path, self._path(self.number + 1)
        aside = new.with_name(new.name + ".new")
        aside.unlink(missing_ok=True)
        try:
            db.execute("VACUUM INTO ?", (str(aside),))
            _open(aside).close()
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        digest = digest_of(aside)
        aside.rename(new)
        sync_directory(self.directory)
        self._drop_former()
        # Left open: to close it would fold its write-ahead log into it, while somebody may copy both.
        self._former, opened = (path, db), _open(new)
        self.number += 1
        return opened, digest

    def close_former(self) -> None:
        """Close the file before the newest."""
        if self._former is not None and self._former[1] is not None:
            self._former[1].close()

    def _drop_former(self) -> None:
        if self._former is not None:
            _delete(self._former[0])
            self.close_former()

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


def _delete(path: Path) -> None:
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)
