"""Whether a log is whole, before anything is written to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.service.answers import as_iso
from streamgp.service.log_end import End, digest_of, link
from streamgp.service.problems import Problem

FORMAT = 1
"""Of the files of a log, which each of them names (SQLite's ``user_version``)."""
WAY_OUT = (
    "put a backup in its place, or end the service and go on from what is left with "
    "streamgp serve DIR --accept-loss NAME"
)


class Damage(NamedTuple):
    """What is wrong with a log.

    Attributes
    ----------
    last
        The position of the last entry that can be relied on.
    detail
        What is missing, in a sentence.
    """

    last: int
    detail: str

    @property
    def problem(self) -> Problem:
        """Return why the log is not opened."""
        return Problem(500, f"{self.detail}; {WAY_OUT}")


def opened_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing, also when it is closed."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def damage(directory: Path, newest: tuple[int, Path] | None, end: End | None) -> Damage | None:
    """Return what is wrong with a log; None if nothing is.

    Parameters
    ----------
    directory
        Of the log.
    newest
        Number and path of its newest file, if there is one.
    end
        Where it ends, as the file of that says.
    """
    number = 0 if newest is None else newest[0]
    lost = ""
    if end is not None and number < end.number:
        lost = f" (log-{end.number:08d}.sqlite is not there)"
    if newest is None:
        return _short(directory, 0, None, end, lost) if end is not None and end.position else None
    path = newest[1]
    try:
        with closing(opened_to_read(path)) as db:
            if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")
            return _entries(directory, path, db, number, end, lost)
    except sqlite3.DatabaseError as error:
        return Damage(0, f"{path}: could not be read as a log ({error}){_known(end)}")


def _entries(
    directory: Path, path: Path, db: sqlite3.Connection, number: int, end: End | None, lost: str
) -> Damage | None:
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if "entries" not in tables:
        return _short(directory, 0, None, end, lost) if end is not None and end.position else None
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        return Damage(
            0,
            f"{path}: expected a log of format {FORMAT}, found format {version}: it is damaged, or another version "
            f"of streamgp wrote it",
        )
    last, at = 0, None
    found: bytes | None = None
    for (position, _, at, _, chain), is_sound in chained(db):  # noqa: B007
        if not is_sound:
            until = max(position, 0 if end is None else end.position)
            return Damage(
                last or position - 1,
                f"{directory}: entry {position:,} is not as it was accepted, so that entries {position:,} to "
                f"{until:,} cannot be learnt again{_known(end)}",
            )
        last = position
        if end is not None and position == end.position:
            found = chain or b""
    for table in {"ids", "marks"} & set(tables):
        last = max(last, db.execute(f"SELECT max(position) FROM {table}").fetchone()[0] or 0)
    if end is None:
        return None
    if last < end.position:
        return _short(directory, last, at, end, lost)
    if found is not None and found != end.chain:
        return Damage(
            end.position,
            f"{directory}: entry {end.position:,} is another one than was acknowledged: the log is of another "
            f"stream, or of a copy that went its own way",
        )
    wal = path.with_name(path.name + "-wal")
    # A process that ends without closing its log has SQLite fold the write-ahead log into the file.
    is_as_noted = end.is_closed or (wal.exists() and wal.stat().st_size > 0)
    if number == end.number and is_as_noted and end.digest and digest_of(path) != end.digest:
        return Damage(
            last,
            f"{path}: is not as it was written (its checksum differs): damaged, or written by another program; the "
            f"entries up to {last:,} are all there, but ids may be wrong by which rows that are sent again are known",
        )
    return None


def chained(db: sqlite3.Connection) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Yield each entry in order (position, kind, time, body and link), and whether it follows from the one before."""
    before, expected = None, None
    for entry in db.execute("SELECT position, kind, at, body, chain FROM entries ORDER BY position"):
        position, kind, at, body, chain = entry
        if before is None:
            row = db.execute("SELECT chain FROM marks WHERE position = ?", (position - 1,)).fetchone()
            before = b"" if position == 1 else None if row is None else row[0]
        try:
            linked = link(before or b"", position, kind, at, body)
            is_sound = expected in (None, position) and (before is None or chain == linked)
        except (TypeError, AttributeError, ValueError):  # a value of another kind than was written
            is_sound = False
        yield entry, is_sound
        before, expected = chain or b"", position + 1


def _short(directory: Path, last: int, at: float | None, end: End, lost: str) -> Damage:
    since = "" if at is None else f", which came from {as_iso(at)} to {as_iso(end.at)}"
    return Damage(
        last,
        f"{directory}: the log ends at {last:,}, and entries up to {end.position:,} were acknowledged{lost}: entries "
        f"{last + 1:,} to {end.position:,} are missing{since}. It is damaged, or a copy that was not made with "
        f"streamgp backup",
    )


def _known(end: End | None) -> str:
    return "" if end is None else f"; entries up to {end.position:,} were acknowledged, the last at {as_iso(end.at)}"
