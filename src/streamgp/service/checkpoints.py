"""The two latest checkpoints of a stream, each in a directory that is never changed once it is complete."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamgp.checkpoint import CheckpointError
from streamgp.checkpoint.directory import sync_directory
from streamgp.service.problems import Problem

KEPT = 2
_NAME = re.compile(r"\d{15}")


class Checkpoints:
    """Checkpoints by the position of the log that they hold everything up to.

    The one before the last is kept too, so that a copy of the directory that is made while a new one is written, and
    an old one deleted, has one that is whole.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def positions(self) -> list[int]:
        """Return the positions of all that there are, in ascending order."""
        return sorted(int(path.name) for path in self.directory.iterdir() if _NAME.fullmatch(path.name))

    def path(self, position: int) -> Path:
        """Return the directory of one."""
        return self.directory / f"{position:015d}"

    def write(self, position: int, save: Callable[[Path], None]) -> int:
        """Write one, delete those that are no longer kept, and return the position of the oldest that is.

        Raises
        ------
        CheckpointError
            If the disk refuses it; the others stand.
        """
        aside = self.directory / "new"
        shutil.rmtree(aside, ignore_errors=True)
        try:
            save(aside)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        path = self.path(position)
        shutil.rmtree(path, ignore_errors=True)
        aside.rename(path)
        sync_directory(self.directory)  # before anything that it replaces is dropped
        kept = self.positions()
        for old in kept[:-KEPT]:
            shutil.rmtree(self.path(old), ignore_errors=True)
        return kept[-KEPT:][0]

    def load(self, last: int, read: Callable[[Path], Any]) -> tuple[int, Any] | None:
        """Read the latest one that is whole and not beyond the last entry of the log; None if there is none at all.

        Raises
        ------
        Problem
            If none of those that there are can be read.
        """
        found = self.positions()
        if not found:
            return None
        wrong = f"the log ends at {last:,}, before the first checkpoint, at {found[0]:,}"
        for position in reversed(found):
            if position <= last:
                try:
                    return position, read(self.path(position))
                except CheckpointError as error:
                    wrong = str(error)
        raise Problem(500, f"{self.directory}: no checkpoint can be read ({wrong}); use a copy of the directory")
