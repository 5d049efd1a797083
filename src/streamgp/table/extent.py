"""How much of a source there is to read, for those who wait."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Extent:
    """The size of what is to be read.

    Attributes
    ----------
    total
        In rows or, where nobody knows how many these are, in bytes; None where the end is not known.
    counts_rows
        Whether it is rows that are counted.
    """

    total: int | None
    counts_rows: bool

    @classmethod
    def of(cls, source: Any, max_rows: int | None) -> Self:
        """Return the extent of a source, or a reader, of which at most so many rows are to be read."""
        known = [rows for rows in (source.total_rows, max_rows) if rows is not None]
        if known:
            return cls(min(known), True)
        return cls(source.bytes_total, source.bytes_total is None)

    def done(self, rows: int, bytes_read: int | None) -> int:
        """Return how much of `total` was read, from how many rows and bytes were."""
        return rows if self.counts_rows else bytes_read or 0
