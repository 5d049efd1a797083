"""Lines of text from a file, a compressed file or standard input."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from streamgp.table.layout import GZIP, describe_other_kind
from streamgp.table.schema import DataError

_MAX_LINE = 1 << 24  # characters; a longer line is not a table's


@runtime_checkable
class Readable(Protocol):
    """An open file, of text or of bytes."""

    def readline(self, size: int = -1, /) -> str | bytes:
        """Read a line of at most `size` characters; nothing at the end of the file."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Lines:
    """The lines of a text file, decoded one by one, so that errors can name the line."""

    def __init__(self, stream: Readable, name: str, owned: IO[bytes] | None = None) -> None:
        self.name = name
        self.number = 0  # the number of the line given last
        self.bytes_total = None if owned is None else os.fstat(owned.fileno()).st_size
        self._stream = stream
        self._owned = owned
        self._lines = self._decode()

    @classmethod
    def open(cls, path: Path) -> "Lines":
        """Open a text file, through gzip if its name ends in .gz or its first bytes are those of gzip."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise DataError(f"{path}: the file cannot be opened ({error.strerror}).") from error
        if path.suffix.lower() == ".gz":
            return cls(io.BufferedReader(gzip.GzipFile(fileobj=file)), str(path), file)  # type: ignore[arg-type]
        return cls(file, str(path), file)

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _decode(self) -> Iterator[str]:
        try:
            if isinstance(self._stream, io.BytesIO):
                self._stream = io.BufferedReader(self._stream)  # type: ignore[arg-type]
            if isinstance(self._stream, io.BufferedReader) and self._stream.peek(2).startswith(GZIP):
                self._stream = io.BufferedReader(gzip.GzipFile(fileobj=self._stream))  # type: ignore[arg-type]
            while raw := self._stream.readline(_MAX_LINE):
                self.number += 1
                if self.number == 1 and isinstance(raw, bytes) and (fault := describe_other_kind(raw)) is not None:
                    raise DataError(f"{self.name}: {fault}.")
                if len(raw) == _MAX_LINE:
                    what = f"line {self.number} has over {_MAX_LINE} characters"
                    raise DataError(f"{self.name}: {what}; expected a table of text.")
                line = raw.decode("utf-8") if isinstance(raw, bytes) else raw
                yield line.removeprefix("\ufeff") if self.number == 1 else line
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise DataError(
                f"{self.name}: expected UTF-8 text, got byte 0x{byte:02x} in line {max(self.number, 1)}; "
                f"save the file as UTF-8."
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{self.name}: the gzip data is cut short or corrupt ({error}).") from error
        except OSError as error:
            raise DataError(f"{self.name}: the file cannot be read ({error.strerror or error}).") from error

    @property
    def bytes_read(self) -> int | None:
        """Return how many bytes have been read of a file that is opened by its path, else None."""
        if self._owned is None:
            return None
        return self.bytes_total if self._owned.closed else self._owned.tell()

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._owned is not None:
            self._stream.close()
            self._owned.close()
