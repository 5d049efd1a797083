"""A file system that fails when told to: what the checkpoints are tried on."""

import builtins
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgp.numerics.checkpoint import directory


class Disk:
    """Stands between `save` and the file system; the call numbered `fail_at` finds the disk full.

    With `dead` every later call fails too, as when the power goes. `lose_unsynced` then does what the machine
    may do: what was written, made or renamed and not synced is gone.
    """

    def __init__(self, patch: pytest.MonkeyPatch, fail_at: int = 0, dead: bool = False) -> None:
        self.calls: list[str] = []
        self.fail_at, self.dead = fail_at, dead
        self.unsynced: set[Path] = set()
        self.unlisted: set[Path] = set()
        self.rename_undone: tuple[Path, bytes] | None = None
        self.paths: dict[int, Path] = {}
        self.fsync, self.replace, self.open_directory = os.fsync, os.replace, os.open
        patch.setattr(directory, "open", self._open, raising=False)
        patch.setattr(os, "fsync", self._fsync)
        patch.setattr(os, "replace", self._replace)
        patch.setattr(os, "open", self._open_directory)
        for name in ("mkdir", "unlink", "listdir"):
            patch.setattr(os, name, self._guarded(name, getattr(os, name)))

    def step(self, name: str) -> None:
        self.calls.append(name)
        number = len(self.calls)
        if number == self.fail_at or (self.dead and number > self.fail_at > 0):
            raise OSError(errno.ENOSPC, "No space left on device")

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.step(name)
            return call(*args, **kwargs)

        return guarded

    def _open(self, path: Path, mode: str) -> "File":
        self.step("open")
        self.unsynced.add(path)
        self.unlisted.add(path)
        file = File(self, builtins.open(path, mode))  # noqa: SIM115
        self.paths[file.fileno()] = path
        return file

    def _open_directory(self, path: Path, flags: int) -> int:
        self.step("open directory")
        descriptor = self.open_directory(path, flags)
        self.paths[descriptor] = path
        return descriptor

    def _fsync(self, descriptor: int) -> None:
        self.step("fsync")
        self.fsync(descriptor)
        path = self.paths[descriptor]
        self.unsynced.discard(path)
        if path.is_dir():
            self.rename_undone = None
            self.unlisted.clear()

    def _replace(self, source: Path, target: Path) -> None:
        self.step("replace")
        if target.exists():
            self.rename_undone = (target, target.read_bytes())
        self.replace(source, target)
        if source in self.unsynced:
            self.unsynced.add(target)

    def lose_unsynced(self) -> None:
        for path in self.unsynced:
            if path.exists():
                path.write_bytes(b"")
        for path in self.unlisted:
            path.unlink(missing_ok=True)
        if self.rename_undone:
            target, content = self.rename_undone
            target.write_bytes(content)


class File:
    """An open file on such a disk; a write that fails has written half."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self.disk, self.file, self.fileno = disk, file, file.fileno

    def __enter__(self) -> "File":
        return self

    def write(self, data: bytes) -> None:
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        self.disk.step("write")
        self.file.write(data[len(data) // 2 :])

    def flush(self) -> None:
        self.disk.step("flush")
        self.file.flush()

    def __exit__(self, *_: Any) -> None:
        self.file.close()
        self.disk.step("close")
