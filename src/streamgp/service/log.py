"""The log of a stream: what was accepted, in order, on disk before it is acknowledged.

SQLite, in files that are only ever appended to while they are in use (its write-ahead log is never folded back). From
time to time a new file begins with what is still needed, and the one before the last is deleted: see
`streamgp.service.log_files`. Every entry has a digest of all entries up to it (its link of a chain), and where the
log ends stands in a file of its own, so that a log that is damaged or cut is known; see `streamgp.service.log_check`.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, NamedTuple

from streamgp.service.archive import Archive
from streamgp.service.log_end import NAME, SYNC_SECONDS, End, EndFile, digest_of, link
from streamgp.service.log_files import LogFiles, damage_of, first_entries
from streamgp.service.log_ids import MAX_IDS, LogIds

RENEW_BYTES = 64 << 20  # of the write-ahead log, after which a new file begins
PIECE = 500  # entries, or ids, that are dropped at a time
PIECE_BYTES = 1 << 20  # of entries, after which no more are dropped at a time
# Rounds that bring to a copy what came meanwhile, at most, and the seconds of one after which it is the last.
_ROUNDS, _SHORT = 8, 0.005
# Held while a log is copied: each copy takes memory, and the disk from those who write.
_COPYING = Lock()
_ENTRY = "SELECT position, kind, at, body FROM entries"


class Entry(NamedTuple):
    """Something that was accepted."""

    position: int
    kind: str
    at: float
    body: bytes


# Position, kind, time, body and link of the chain.
Linked = tuple[int, str, float, bytes, bytes]


class EventLog:
    """The log of one stream, written by one thread.

    Parameters
    ----------
    directory
        Its own; it is made if need be.
    max_ids
        How many ids are remembered.
    archive
        Gets the entries that are dropped.

    Raises
    ------
    Problem
        If it is damaged, or ends before what was acknowledged; nothing is changed then.

    Attributes
    ----------
    position, chain
        Of the last entry: its place, and its link of the chain of entries.
    ids
        Of the rows.
    notices
        What an operator should know of it.
    """

    def __init__(self, directory: Path, max_ids: int = MAX_IDS, archive: Archive | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._archive = archive
        self._end = EndFile(directory / NAME)
        wrong = damage_of(directory)
        if wrong is not None:
            raise wrong.problem
        self._files = LogFiles(directory)
        if self._end.end is not None:
            with suppress(OSError):  # what SQLite does when it opens a file may change it
                self._end.write(self._end.end._replace(digest=""))
        self._db = self._files.open()
        self.ids = LogIds(self._db, max_ids)
        self.position: int = 0
        self.chain = b""
        for table in ("entries", "ids", "marks"):
            self.position = max(
                self.position, self._db.execute(f"SELECT max(position) FROM {table}").fetchone()[0] or 0
            )
        self.chain = self._chain_before = self.chain_at(self.position) or b""
        self.notices = self._notices(had_entries=self.position > 0)
        self._at = 0.0 if self._end.end is None else self._end.end.at
        self._digest = self._files.digest()
        self._mark()
        self._end.sync()
        if archive is not None:
            with suppress(OSError, sqlite3.Error):  # its first entries ask for it again
                archive.make()

    def _notices(self, had_entries: bool) -> list[str]:
        path = self._end.path
        if self._end.end is None and had_entries:
            what = "is damaged" if self._end.exists else "is not there"
            return [
                f"{path}: {what}, which says where the log ends. It goes on at {self.position:,}; whether entries "
                f"after that were acknowledged is not known: compare with what was sent last"
            ]
        if self._end.is_damaged:
            return [f"{path}: one of its two halves was damaged; the other one and the log agree, and it goes on"]
        return []

    def _mark(self, is_closed: bool = False) -> None:
        """Note where the log ends."""
        with suppress(OSError):  # the log has it; the next group is noted again
            self._end.write(End(self.position, self._at, self.chain, self._files.number, self._digest, is_closed))

    # What came

    def begin(self) -> None:
        """Begin a group of entries, which is kept as a whole or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        self._chain_before = self.chain

    def add(self, kind: str, at: float, body: bytes) -> int:
        """Add an entry to the group; return its position."""
        position = self.position + 1
        chain = link(self.chain, position, kind, at, body)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (position, kind, at, body, chain))
        self.position, self.chain, self._at = position, chain, at
        return position

    def commit(self) -> None:
        """Keep the group: when this returns, the disk has it."""
        self._db.execute("COMMIT")
        self._chain_before = self.chain
        self._mark()
        self.sync_end(SYNC_SECONDS)

    @property
    def end_is_behind(self) -> bool:
        """Whether the disk may not have where the log ends yet."""
        return self._end.is_behind

    def sync_end(self, seconds: float = 0.0) -> None:
        """Wait until the disk has where the log ends, if that was not so for so many seconds."""
        with suppress(OSError):
            self._end.sync(seconds)

    def roll_back(self, position: int) -> None:
        """Drop the group; `position` was the last before it."""
        self.position, self.chain = position, self._chain_before
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # What is kept

    def after(self, position: int) -> Iterator[Entry]:
        """Yield the entries after a position."""
        rows = self._db.execute(f"{_ENTRY} WHERE position > ? ORDER BY position", (position,))
        yield from (Entry(*row) for row in rows)

    def linked_after(self, position: int, chain: bytes, most: int) -> list[Linked] | None:
        """Return the entries after a position with their links, so many bytes or a little more.

        None if the log has not all of them, or does not go on from that link of a chain.
        """
        query = "SELECT position, kind, at, body, chain FROM entries WHERE position > ? ORDER BY position"
        found: list[Linked] = []
        for row in self._db.execute(query, (position,)):
            found.append(row)
            most -= len(row[3])
            if most < 0:
                break
        if not found:
            return [] if (position, chain) == (self.position, self.chain) else None
        return found if found[0][0] == position + 1 and found[0][4] == link(chain, *found[0][:4]) else None

    def last_of(self, kind: str, after: int) -> Entry | None:
        """Return the last entry of a kind after a position; None if there is none."""
        row = self._db.execute(
            f"{_ENTRY} WHERE kind = ? AND position > ? ORDER BY position DESC LIMIT 1", (kind, after)
        ).fetchone()
        return None if row is None else Entry(*row)

    def chain_at(self, position: int) -> bytes | None:
        """Return the link of the chain at a position; None if that is forgotten."""
        if position == 0:
            return b""
        for table in ("entries", "marks"):
            row = self._db.execute(f"SELECT chain FROM {table} WHERE position = ?", (position,)).fetchone()
            if row is not None:
                return row[0]
        return None

    def stream_of(self, config: str) -> str:
        """Note what the stream is, if nothing is noted yet; return what is."""
        row = self._db.execute("SELECT config FROM stream").fetchone()
        if row is None:
            self._db.execute("INSERT INTO stream VALUES (?)", (config,))
        return config if row is None else row[0]

    @property
    def first(self) -> int:
        """Return the position from which on all entries are kept."""
        found = self._db.execute("SELECT min(position) FROM entries").fetchone()[0]
        return self.position + 1 if found is None else found

    def forget(self, position: int, checkpoints: Iterable[int] = ()) -> None:
        """Do all steps of `forgetting` at once."""
        for _ in self.forgetting(position, checkpoints):
            pass

    def forgetting(self, position: int, checkpoints: Iterable[int] = ()) -> Generator[None]:
        """Drop the entries up to a position, which the archive gets, and the oldest ids beyond those remembered.

        The last entry stays, which says where the log ends, and of each of those positions at which there is a
        checkpoint the link of the chain. Each step drops a few, in a group of its own; groups of entries may be
        written between two steps. The disk gets its space back when a new file begins; see `renewing`.
        """
        last = min(position, self.position - 1)
        marks = {each: self.chain_at(each) for each in (position, *checkpoints) if each <= self.position}
        which = "WHERE position <= ? ORDER BY position"
        while (piece := first_entries(self._db, which, (last,), PIECE, PIECE_BYTES)) and piece[-1] < last:
            self._drop(piece[-1], marks)
            yield
        self._drop(last, marks)
        yield
        oldest = self.ids.beyond
        while self._alone(lambda: self.ids.drop(oldest, PIECE)):
            yield

    def _drop(self, last: int, marks: dict[int, bytes | None]) -> None:
        if self._archive is not None:
            dropped = "SELECT position, kind, at, body, chain FROM entries WHERE position <= ? ORDER BY position"
            self._archive.add(self._db.execute(dropped, (last,)).fetchall())

        def drop() -> None:
            known = [each for each in ({last: self.chain_at(last)} | marks).items() if each[1] is not None]
            self._db.execute("DELETE FROM marks")
            self._db.executemany("INSERT INTO marks VALUES (?, ?)", known)
            self._db.execute("DELETE FROM entries WHERE position <= ?", (last,))

        self._alone(drop)

    def _alone(self, change: Callable[[], Any]) -> Any:
        """Make a change in a group of its own; return what it returns."""
        self.begin()
        try:
            found = change()
            self.commit()
        except sqlite3.Error:
            self.roll_back(self.position)
            raise
        return found

    def renew_if_large(self, limit: int = RENEW_BYTES) -> bool:
        """Do all steps of `renewing` at once; say whether a new file was begun."""
        number = self._files.number
        for _ in self.renewing(limit):
            sleep(0.001)
        return self._files.number > number

    def renewing(self, limit: int = RENEW_BYTES) -> Generator[None]:
        """Begin a new file with what is still needed, if the write-ahead log of this one is larger.

        The file is copied by a thread of its own. Groups may be written between two steps; what they changed is
        brought to the copy before it takes the place of the file. While another log of the process is copied nothing
        is done.
        """
        if not self._files.is_large(limit) or not _COPYING.acquire(blocking=False):
            return
        try:
            self._files.check_room(self._db)
            with ThreadPoolExecutor(1, "streamgp-log-copy") as beside:
                yield from self._renewing(beside)
        finally:
            _COPYING.release()

    def _renewing(self, beside: ThreadPoolExecutor) -> Generator[None]:
        work: Future[Any] | None = None
        self.ids.labelled = set()
        try:
            work = beside.submit(self._files.copy)
            for _ in range(_ROUNDS):
                while not work.done():
                    yield
                if self.ids.labelled is None or work.result() < _SHORT:
                    break
                labelled, self.ids.labelled = self.ids.labelled, set()
                work = beside.submit(self._files.bring, labelled)
            while not work.done():
                yield
            work.result()
            if self.ids.labelled is None:
                return
            self._db = self.ids.db = self._files.renew(self._db, self.ids.labelled)
            self._digest = ""
        finally:
            self.ids.labelled = None
            while work is not None and not work.done():
                self._files.stop_copy()
                wait([work], timeout=0.01)
            self._files.drop_copy()
        self._mark()
        self.sync_end()
        digest = beside.submit(self._files.settle)
        while not digest.done():
            yield
        self._digest = digest.result()
        self._mark()

    @property
    def bytes(self) -> int:
        """Return the size of the files."""
        return self._files.bytes

    def close(self) -> None:
        """Close the log."""
        if self._archive is not None:
            self._archive.close()
        self._digest = ""  # SQLite folds its write-ahead log into the file now
        self._mark()
        self.sync_end()
        self._db.close()
        self._files.close()
        self._digest = digest_of(self._files.path)
        self._mark(is_closed=True)
        with suppress(OSError):
            self._end.close()


def is_full(error: BaseException) -> bool:
    """Return whether the disk refused to take more."""
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and ("full" in text or "disk I/O" in text)


def as_text(label: Any) -> str:
    """Return a label as the log keeps it; of one that will never come, what no label is."""
    if label is None or label != label:
        return "\0"
    return repr(float(label)) if isinstance(label, int | float) and not isinstance(label, bool) else str(label)
