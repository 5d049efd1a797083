"""Where a log ends, kept apart from it, so that a log that has lost its end is known.

SQLite drops what comes after the first damaged page of its write-ahead log without a word. So the position of the
last entry that was acknowledged, and its link of the chain of entries, stand in a small file too. It is written after
the log has the entry, and is never ahead of it.
"""

import hashlib
import json
import os
import struct
from pathlib import Path
from time import monotonic
from typing import NamedTuple

NAME = "end"
SYNC_SECONDS = 1.0  # at most between an acknowledgement and the disk having this file, if the machine loses power
_SLOT = 512  # bytes: that of a sector, which is written as a whole
_CHECK = 32


class End(NamedTuple):
    """The end of a log.

    Attributes
    ----------
    position, at, chain
        Of the last entry: its place, when it was accepted, and its link of the chain of entries.
    number, digest
        Of the file of the log, and of its bytes, which no longer change; empty while they may.
    is_closed
        Whether the file has all, without a write-ahead log.
    """

    position: int
    at: float
    chain: bytes
    number: int
    digest: str
    is_closed: bool = False


class EndFile:
    """The file that says where a log ends: two slots, written in turn, so that one of them is whole.

    Parameters
    ----------
    path
        Of the file; it is made with the first end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exists = path.exists()
        data = path.read_bytes() if self.exists else b""
        slots = [_read(data[at : at + _SLOT]) for at in (0, _SLOT)]
        whole = [each for each in slots if each is not None]
        self.end = max(whole, key=lambda each: each[0])[1] if whole else None
        self.is_damaged = self.exists and (len(whole) < 2 or len(data) != 2 * _SLOT)
        self._count = max((each[0] for each in whole), default=0)
        self._file: int | None = None
        self._synced: float | None = None  # when, if something was written since

    def write(self, end: End) -> None:
        """Write where the log ends; the system has it then, and the disk within `SYNC_SECONDS`."""
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            os.ftruncate(self._file, 2 * _SLOT)
            self._count += 1  # both slots: what one of them had may be damaged
            os.pwrite(self._file, _slot(self._count, end), self._count % 2 * _SLOT)
        self._count += 1
        os.pwrite(self._file, _slot(self._count, end), self._count % 2 * _SLOT)
        self.end = end
        if self._synced is None:
            self._synced = monotonic()

    @property
    def is_behind(self) -> bool:
        """Whether the disk may not have it yet."""
        return self._synced is not None

    def sync(self, seconds: float = 0.0) -> None:
        """Wait until the disk has it, if that was not so for so many seconds."""
        if self._file is not None and self._synced is not None and monotonic() - self._synced >= seconds:
            os.fsync(self._file)
            self._synced = None

    def close(self) -> None:
        """Write it to the disk, and write no more."""
        if self._file is not None:
            self.sync()
            os.close(self._file)
            self._file = None


def link(before: bytes, position: int, kind: str, at: float, body: bytes) -> bytes:
    """Return an entry's link of the chain: a digest of all entries up to it."""
    text = kind.encode()
    return hashlib.blake2b(
        before + struct.pack("<qdq", position, at, len(text)) + text + body, digest_size=16
    ).digest()


def digest_of(file: Path | int) -> str:
    """Return a digest of the bytes of a file; one that is given as an open descriptor stays open."""
    with open(file, "rb", closefd=isinstance(file, Path)) as data:
        return hashlib.file_digest(data, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _slot(count: int, end: End) -> bytes:
    values = {"count": count} | end._asdict() | {"chain": end.chain.hex()}
    text = json.dumps(values).encode().ljust(_SLOT - _CHECK - 2) + b"\n"
    return _check(text) + b" " + text


def _read(slot: bytes) -> tuple[int, End] | None:
    if len(slot) != _SLOT or slot[:_CHECK] != _check(slot[_CHECK + 1 :]) or slot[_CHECK : _CHECK + 1] != b" ":
        return None
    values = json.loads(slot[_CHECK + 1 :])
    return values.pop("count"), End(**values | {"chain": bytes.fromhex(values["chain"])})


def _check(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECK // 2).hexdigest().encode()
