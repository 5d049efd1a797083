"""The ids of the rows that a log has accepted, each with its label, so that a row that is sent again is known."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

# That are remembered.
MAX_IDS = 1_000_000


class KnownId(NamedTuple):
    """What is known of the row of an id: a digest of its inputs, and of its label if that came, as text."""

    row: bytes | None
    label: str | None


class LogIds:
    """The table of ids of a log's file, changed in the log's groups.

    Parameters
    ----------
    db
        The file in use.
    most
        How many are remembered.

    Attributes
    ----------
    labelled
        Those that got their labels while the file is copied; None: it is not, or the copy is of no use.
    """

    def __init__(self, db: sqlite3.Connection, most: int) -> None:
        self.db = db
        self.most = most
        self.labelled: set[str] | None = None

    def note(self, rows: Iterable[tuple[str, bytes, str | None]], position: int) -> None:
        """Note ids, with a digest of the row of each and its label if that came with it."""
        self.db.executemany(
            "INSERT INTO ids (id, position, row, label, made) VALUES (?, ?, ?, ?, ?)",
            ((name, position, row, label, position) for name, row, label in rows),
        )

    def note_labels(self, labels: Iterable[tuple[str, str]], position: int) -> None:
        """Note the labels of ids."""
        found = [(label, position, name) for name, label in labels]
        self.db.executemany("UPDATE ids SET label = ?, position = ? WHERE id = ?", found)
        if self.labelled is not None:
            self.labelled.update(name for *_, name in found)

    def find(self, names: Iterable[str]) -> dict[str, KnownId]:
        """Return what is known of those ids that are."""
        found = {}
        for name in names:
            row = self.db.execute("SELECT row, label FROM ids WHERE id = ?", (name,)).fetchone()
            if row is not None:
                found[name] = KnownId(*row)
        return found

    def set_back(self, position: int, waiting: Iterable[str]) -> None:
        """Know of ids what was known at a position, at which some waited for their labels; later ones are free.

        Those that were predicted before and waited no longer had no label either: the one that came since was late.
        """
        self.labelled = None
        # A log that was lost in part may not know `made`.
        names = ((position, name, position) for name in waiting)
        self.db.executemany("UPDATE ids SET label = NULL, position = ? WHERE id = ? AND position > ?", names)
        self.db.execute("UPDATE ids SET label = NULL, position = ? WHERE made <= ? AND position > ?", (position,) * 3)
        self.db.execute("DELETE FROM ids WHERE position > ?", (position,))

    @property
    def beyond(self) -> int:
        """Return the number up to which ids are not among those remembered."""
        return (self.db.execute("SELECT max(number) FROM ids").fetchone()[0] or 0) - self.most

    def drop(self, last: int, piece: int) -> int:
        """Drop the oldest up to a number and beyond those remembered, at most so many; return how many it were."""
        oldest = "SELECT number FROM ids WHERE number <= ? ORDER BY number LIMIT ?"
        given = min(last, self.beyond), piece
        return self.db.execute(f"DELETE FROM ids WHERE number IN ({oldest})", given).rowcount
