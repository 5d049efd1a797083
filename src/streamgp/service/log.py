"""The log of a stream: what was accepted, in order, on disk before it is acknowledged.

SQLite, in files that are only ever appended to while they are in use (its write-ahead log is never folded back), so
that a copy of the directory taken at any moment holds the log up to some moment. From time to time a new file begins
with what is still needed, and the one before the last is deleted.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.checkpoint.directory import sync_directory
from streamgp.service.problems import Problem

RENEW_BYTES = 64 << 20  # of the write-ahead log, after which a new file begins
MAX_IDS = 1_000_000  # of rows, that are remembered
_FILE = re.compile(r"log-(\d{8})\.sqlite")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (position INTEGER PRIMARY KEY, kind TEXT NOT NULL, at REAL NOT NULL, body BLOB);
CREATE TABLE IF NOT EXISTS ids (number INTEGER PRIMARY KEY, id TEXT UNIQUE, position INTEGER, row BLOB, label TEXT);
"""


class Entry(NamedTuple):
    """Something that was accepted."""

    position: int
    kind: str
    at: float
    body: bytes


class KnownId(NamedTuple):
    """What is known of the row of an id: a digest of its inputs, and of its label if that came, as text."""

    row: bytes | None
    label: str | None


class EventLog:
    """The log of one stream, written by one thread.

    Parameters
    ----------
    directory
        Its own; it is made if need be.
    max_ids
        How many ids are remembered.

    Raises
    ------
    Problem
        If no file of the log can be read.
    """

    def __init__(self, directory: Path, max_ids: int = MAX_IDS) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.max_ids = max_ids
        for left in directory.glob("*.new*"):  # of a file that was never finished
            left.unlink()
        found = sorted(path for path in directory.iterdir() if _FILE.fullmatch(path.name))
        self._number = int(_FILE.fullmatch(found[-1].name)[1]) if found else 1  # type: ignore[index]
        self._former: tuple[Path, sqlite3.Connection | None] | None = None
        if len(found) > 1:
            self._former = (found[-2], None)
        for path in found[:-2]:
            _delete(path)
        self._db = self._open(self._path(self._number))
        last = self._db.execute("SELECT max(position) FROM entries").fetchone()[0]
        kept = self._db.execute("SELECT max(position) FROM ids").fetchone()[0]
        self.position: int = max(last or 0, kept or 0)

    def _path(self, number: int) -> Path:
        return self.directory / f"log-{number:08d}.sqlite"

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA page_size=1024")  # an entry is small, and every page it touches is written
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA wal_autocheckpoint=0")
            db.executescript(_SCHEMA)
            if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")
        except sqlite3.DatabaseError as error:
            raise Problem(
                500, f"{path}: could not be read as a log ({error}); use a copy of the directory"
            ) from error
        return db

    # What came

    def begin(self) -> None:
        """Begin a group of entries, which is kept as a whole or not at all."""
        self._db.execute("BEGIN IMMEDIATE")

    def add(self, kind: str, at: float, body: bytes) -> int:
        """Add an entry to the group; return its position."""
        position = self.position + 1
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (position, kind, at, body))
        self.position = position
        return position

    def note_ids(self, rows: Iterable[tuple[str, bytes, str | None]], position: int) -> None:
        """Note ids, with a digest of the row of each and its label if that came with it."""
        self._db.executemany(
            "INSERT INTO ids (id, position, row, label) VALUES (?, ?, ?, ?)",
            ((name, position, row, label) for name, row, label in rows),
        )

    def note_labels(self, labels: Iterable[tuple[str, str]], position: int) -> None:
        """Note the labels of ids."""
        self._db.executemany(
            "UPDATE ids SET label = ?, position = ? WHERE id = ?", ((label, position, name) for name, label in labels)
        )

    def find(self, names: Iterable[str]) -> dict[str, KnownId]:
        """Return what is known of those ids that are."""
        found = {}
        for name in names:
            row = self._db.execute("SELECT row, label FROM ids WHERE id = ?", (name,)).fetchone()
            if row is not None:
                found[name] = KnownId(*row)
        return found

    def set_back(self, position: int, waiting: Iterable[str]) -> None:
        """Know of ids what was known at a position, at which some waited for their labels; later ones are free."""
        names = ((position, name, position) for name in waiting)
        self._db.executemany("UPDATE ids SET label = NULL, position = ? WHERE id = ? AND position > ?", names)
        self._db.execute("DELETE FROM ids WHERE position > ?", (position,))

    def commit(self) -> None:
        """Keep the group: when this returns, the disk has it."""
        self._db.execute("COMMIT")

    def roll_back(self, position: int) -> None:
        """Drop the group; `position` was the last before it."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self.position = position

    # What is kept

    def after(self, position: int) -> Iterator[Entry]:
        """Yield the entries after a position."""
        rows = self._db.execute("SELECT * FROM entries WHERE position > ? ORDER BY position", (position,))
        yield from (Entry(*row) for row in rows)

    def last_of(self, kind: str, after: int) -> Entry | None:
        """Return the last entry of a kind after a position; None if there is none."""
        row = self._db.execute(
            "SELECT * FROM entries WHERE kind = ? AND position > ? ORDER BY position DESC LIMIT 1", (kind, after)
        ).fetchone()
        return None if row is None else Entry(*row)

    @property
    def first(self) -> int:
        """Return the position from which on all entries are kept."""
        found = self._db.execute("SELECT min(position) FROM entries").fetchone()[0]
        return self.position + 1 if found is None else found

    def forget(self, position: int) -> None:
        """Drop the entries up to a position, and the oldest ids beyond those that are remembered.

        The last entry stays, which says where the log ends. The disk gets its space back when a new file begins; see
        `renew_if_large`.
        """
        self.begin()
        try:
            self._db.execute("DELETE FROM entries WHERE position <= ?", (min(position, self.position - 1),))
            more = self._db.execute("SELECT count(*) FROM ids").fetchone()[0] - self.max_ids
            if more > 0:
                self._db.execute(
                    "DELETE FROM ids WHERE number IN (SELECT number FROM ids ORDER BY number LIMIT ?)", (more,)
                )
            self.commit()
        except sqlite3.Error:
            self.roll_back(self.position)
            raise

    def renew_if_large(self, limit: int = RENEW_BYTES) -> bool:
        """Begin a new file with what is still needed, if the write-ahead log of this one is larger; say whether."""
        path = self._path(self._number)
        wal = path.with_name(path.name + "-wal")
        if not wal.exists() or wal.stat().st_size < limit:
            return False
        new = self._path(self._number + 1)
        aside = new.with_name(new.name + ".new")
        aside.unlink(missing_ok=True)
        try:
            self._db.execute("VACUUM INTO ?", (str(aside),))
            self._open(aside).close()
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.rename(new)
        sync_directory(self.directory)
        self._drop_former()
        # Left open: to close it would fold its write-ahead log into it, while somebody may copy both.
        self._former, self._db, self._number = (path, self._db), self._open(new), self._number + 1
        return True

    def _drop_former(self) -> None:
        if self._former is not None:
            path, db = self._former
            _delete(path)
            if db is not None:
                db.close()

    @property
    def bytes(self) -> int:
        """Return the size of the files."""
        return sum(path.stat().st_size for path in self.directory.glob("log-*"))

    def close(self) -> None:
        """Close the log."""
        self._db.close()
        if self._former is not None and self._former[1] is not None:
            self._former[1].close()


def _delete(path: Path) -> None:
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Return whether the disk refused to take more."""
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and ("full" in text or "disk I/O" in text)


def as_text(label: Any) -> str:
    """Return a label as the log keeps it; of one that will never come, what no label is."""
    if label is None or label != label:
        return "\0"
    return repr(float(label)) if isinstance(label, int | float) and not isinstance(label, bool) else str(label)
