"""Text that grows: a file that others write and rotate, or a pipe; its complete lines, and where they end."""

import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any, NamedTuple, Protocol, Self, runtime_checkable

from streamgp.table import DataError
from streamgp.table.dates import Order
from streamgp.table.numbers import Decimal

# The most lines that are taken at a time.
MAX_LINES = 1_000
# The most bytes that are read at a time.
_BYTES = 1 << 20
# A line with more bytes is not a table's.
_MAX_LINE = 1 << 24
# So many bytes at either end of the read part identify a file.
_ENDS = 4_096
# The seconds between two looks at the file.
PAUSE = 0.2


@dataclass(frozen=True)
class Place:
    """Where in a text a stream is; everything before it was learnt, or skipped.

    Attributes
    ----------
    name
        Of the text, in the ids of its rows.
    generation
        Counts the texts that took each other's place.
    inode
        Of the file.
    offset, line, row, skipped
        Bytes, lines, rows and skipped rows before the place.
    content
        A digest of the bytes before it.
    rows_before, skipped_before
        Rows, and skipped ones, of earlier texts.
    header
        Names of the columns, as in this text; None before they were read.
    columns
        Those of the first text, which all later ones have, in any order.
    separator
        Of cells; None before the header, or a line such as ``sep=;``, told it.
    dates
        Whether times are dates; None before there was one.
    order
        What dates that have the year at their end begin with, once one has told.
    decimals
        The decimal marks of columns, once cells have told.
    position
        Of the stream's log.
    """

    name: str
    generation: int = 0
    inode: int = 0
    offset: int = 0
    line: int = 0
    row: int = 0
    skipped: int = 0
    content: str = ""
    rows_before: int = 0
    skipped_before: int = 0
    header: list[str] | None = None
    columns: list[str] | None = None
    separator: str | None = None
    dates: bool | None = None
    order: Order = ""
    decimals: dict[str, Decimal] = field(default_factory=dict)
    position: int = 0

    def start(self) -> Self:
        """Return the place at the start of the same text."""
        return replace(self, offset=0, line=0, row=0, skipped=0, content="", header=None, separator=None)

    def next_text(self, name: str) -> Self:
        """Return the place at the start of the text that takes this one's place."""
        before = {"rows_before": self.rows_before + self.row, "skipped_before": self.skipped_before + self.skipped}
        return replace(self.start(), name=name, generation=self.generation + 1, **before)

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


class Found(NamedTuple):
    """What there is after a place.

    Attributes
    ----------
    lines
        Complete ones: the first alone, as long as the header is not known.
    content
        A digest of the bytes before their end.
    is_other
        Whether another text has taken the place of the one that was read.
    has_ended
        Whether nothing more will come.
    rest
        Of a text that ended within a line.
    """

    lines: list[bytes] = []  # noqa: RUF012
    content: str = ""
    is_other: bool = False
    has_ended: bool = False
    rest: bytes = b""


@runtime_checkable
class Source(Protocol):
    """A text that grows."""

    label: str
    inode: int
    # Whether the source keeps its lines, so that they can be read again.
    is_kept: bool

    def read(self, place: Place) -> Found:
        """Return the lines after a place, `MAX_LINES` at most."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class GrowingFile:
    """A file that grows, is renamed and begun anew, or cut and begun anew.

    The file is kept open, so that what is written to it after it was renamed is read too.
    """

    is_kept = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.label = str(path)
        self.inode = 0
        self._file: IO[bytes] | None = None
        # The size and the time of change at which there was nothing new.
        self._seen: tuple[int, int] | None = None
        # Whether another file has the name, and nothing more has come since.
        self._is_left = False

    def read(self, place: Place) -> Found:
        """Return the lines after a place.

        Raises
        ------
        OSError
            If there is no such file, or it cannot be read; it may be there later.
        DataError
            If it has no lines.
        """
        if self._file is None:
            self._take(self._find(place))
        assert self._file is not None
        now = os.fstat(self._file.fileno())
        if (now.st_size, now.st_mtime_ns) != self._seen:
            lines = complete(self._after(place), place)
            content = self._content(place.offset + sum(map(len, lines)))
            # The content is checked last, since the file may have been cut meanwhile.
            if self._content(place.offset) != place.content:
                return Found(is_other=True)
            if lines:
                self._is_left = False
                return Found(lines, content)
            self._seen = (now.st_size, now.st_mtime_ns)
        return self._look_for_another(place, now)

    def _after(self, place: Place) -> bytes:
        data = self._at(place.offset, _BYTES)
        if len(data) == _BYTES and b"\n" not in data:
            data = self._at(place.offset, _MAX_LINE)
            if len(data) == _MAX_LINE and b"\n" not in data:
                raise DataError(
                    f"{self.path}: line {place.line + 1} has over {_MAX_LINE:,} bytes; expected a table of text"
                )
        return data

    def _look_for_another(self, place: Place, now: os.stat_result) -> Found:
        """Go over to the file that has the name by now, once nothing more comes of the one that had it."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            # The file was renamed, and the next one does not exist yet.
            return Found()
        if os.path.samestat(there, now):
            return Found()
        if not self._is_left:
            self._is_left = True
            return Found()
        rest = self._at(place.offset, _BYTES)
        self._take(self.path.open("rb", buffering=0))
        if there.st_size >= place.offset and self._content(place.offset) == place.content:
            # The file has the same content, written again.
            return Found()
        return Found(is_other=True, rest=rest)

    def _find(self, place: Place) -> IO[bytes]:
        """Open the file; where another one has its name since, the one that had it, if it is still beside it."""
        file = self.path.open("rb", buffering=0)
        if _content(file, place.offset) != place.content:
            for path in self.path.parent.iterdir():
                if path.is_file() and path.stat().st_ino == place.inode and path.stat().st_size >= place.offset:
                    old = path.open("rb", buffering=0)
                    if _content(old, place.offset) == place.content:
                        file.close()
                        return old
                    old.close()
        return file

    def _take(self, file: IO[bytes]) -> None:
        self.close()
        self._file, self.inode = file, os.fstat(file.fileno()).st_ino

    def _at(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        return _read(self._file, offset, size)

    def _content(self, offset: int) -> str:
        assert self._file is not None
        return _content(self._file, offset)

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._file is not None:
            self._file.close()
        self._file, self._seen, self._is_left = None, None, False


class Pipe:
    """Text that comes through a pipe, and cannot be read again."""

    inode = 0
    is_kept = False

    def __init__(self, file: IO[bytes], label: str = "standard input") -> None:
        self.label = label
        self._chunks: Queue[bytes] = Queue(16)
        self._data = b""
        self._has_ended = False
        # The descriptor itself is read: to wait in a buffered file would hold its lock when the process ends.
        self._thread = Thread(target=self._run, args=(file.fileno(),), name="streamgp-pipe", daemon=True)
        self._thread.start()

    def _run(self, descriptor: int) -> None:
        data = b"."
        while data:
            try:
                data = os.read(descriptor, 1 << 16)
            except OSError:
                data = b""
            self._chunks.put(data)

    def read(self, place: Place) -> Found:
        """Return the lines that have come; wait a moment for one.

        Raises
        ------
        DataError
            If it has no lines.
        """
        while not self._has_ended and self._data.count(b"\n") < MAX_LINES:
            try:
                chunk = self._chunks.get(timeout=0.0 if b"\n" in self._data else PAUSE)
            except Empty:
                break
            self._data += chunk
            if not chunk:
                self._has_ended = True
                self._data += b"\n" if self._data[-1:] not in (b"", b"\n") else b""
            elif len(self._data) > _MAX_LINE and b"\n" not in self._data:
                what = f"line {place.line + 1} has over {_MAX_LINE:,} bytes"
                raise DataError(f"{self.label}: {what}; expected a table of text")
        lines = complete(self._data, place)
        self._data = self._data[sum(map(len, lines)) :]
        return Found(lines, has_ended=self._has_ended and not self._data)

    def close(self) -> None:
        """Leave the pipe as it is: whoever opened it closes it."""


def complete(data: bytes, place: Place) -> list[bytes]:
    """Return the complete lines, `MAX_LINES` at most, and the first alone as long as the header is not known."""
    most = 1 if place.header is None else MAX_LINES
    return [line + b"\n" for line in data.split(b"\n", most)[:-1]]


def _read(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size) or b""


def _content(file: IO[bytes], offset: int) -> str:
    """Return a digest of the bytes at both ends of what is before an offset."""
    if not offset:
        return ""
    size = min(offset, _ENDS)
    return hashlib.blake2b(_read(file, 0, size) + _read(file, offset - size, size), digest_size=16).hexdigest()
