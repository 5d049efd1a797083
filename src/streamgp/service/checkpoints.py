"""The checkpoints of a stream, each in a directory that is never changed once it is complete, and which are kept."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.problems import Problem

KEPT = 2
# So many of the latest checkpoints that a client asked for are kept.
ASKED = 5
# Of each kind (seconds, number), the last checkpoint of so many stretches of so many seconds is kept; and of days.
LADDER = ((600.0, 3), (3600.0, 6))
DAYS = 7
ABOUT = "about.json"
# The directory for files that could not be used.
ASIDE = "aside"
_NAME = re.compile(r"\d{15}")


class Return(NamedTuple):
    """A stream's return to a checkpoint: the position at which it was asked for, that of the checkpoint, and when."""

    position: int
    to: int
    at: float


class Checkpoints:
    """Checkpoints by the position of the log that they hold everything up to.

    The one before the last is kept too, so that a copy of the directory that is made while a new one is written, and
    an old one deleted, has one that is whole. Older ones are kept for who wants to return to them.

    Parameters
    ----------
    directory
        It is made if need be.
    days
        The last checkpoint of each of so many days is kept.
    """

    def __init__(self, directory: Path, days: int = DAYS) -> None:
        self.directory = directory
        self._ladder = (*LADDER, (86_400.0, max(days, DAYS)))
        # The positions of checkpoints that somebody reads or returns to.
        self.held: list[int] = []
        directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def holding(self, position: int) -> Iterator[None]:
        """Keep a checkpoint during the body of a ``with`` statement."""
        self.held.append(position)
        try:
            yield
        finally:
            self.held.remove(position)

    def positions(self) -> list[int]:
        """Return the positions of all that there are, in ascending order."""
        return sorted(int(path.name) for path in self.directory.iterdir() if _NAME.fullmatch(path.name))

    def path(self, position: int) -> Path:
        """Return the directory of one."""
        return self.directory / f"{position:015d}"

    def about(self, position: int) -> dict[str, Any]:
        """Return when one was written (``at``), and what else was noted of it."""
        path = self.path(position)
        try:
            about = json.loads((path / ABOUT).read_bytes())
            if isinstance(about["at"], int | float) and isinstance(about["asked"], bool):
                return about
        except (OSError, ValueError, TypeError, KeyError):
            # The checkpoint is damaged or missing.
            pass
        return {"at": path.stat().st_mtime, "asked": False}

    def set_aside(self, position: int) -> Path:
        """Move one that cannot be used out of the way, and return where to."""
        aside = self.directory.parent / ASIDE
        aside.mkdir(exist_ok=True)
        name = f"checkpoint-{position:015d}"
        taken = sum(path.name.startswith(name) for path in aside.iterdir())
        target = aside / (name + (f"-{taken + 1}" if taken else ""))
        self.path(position).rename(target)
        sync_directory(aside)
        sync_directory(self.directory)
        return target

    def offered(self, returns: Iterable[Return]) -> dict[int, dict[str, Any]]:
        """Return what is noted of those that a stream may return to: all but those that a return has left behind."""
        returns, found = list(returns), {}
        for position in self.positions():
            if not any(each.to < position < each.position for each in returns):
                try:
                    found[position] = self.about(position)
                except FileNotFoundError:
                    # The checkpoint has been deleted meanwhile.
                    continue
        return found

    def write(
        self,
        position: int,
        save: Callable[[Path], None],
        about: dict[str, Any] | None = None,
        returns: Iterable[Return] = (),
    ) -> int:
        """Write one, delete those that are no longer kept, and return from which position on the log is needed.

        Parameters
        ----------
        position
            Of the log.
        save
            Writes it to a directory.
        about
            When, ``at``, and what else is to be noted.
        returns
            Of the stream, to checkpoints before this one.

        Raises
        ------
        CheckpointError
            If the disk refuses it; the others stand.
        """
        returns = list(returns)
        self._put(position, save, {"at": 0.0, "asked": False} | (about or {}), "new")
        # A checkpoint beyond this position is not of this log.
        for beyond in [each for each in self.positions() if each > position]:
            self.set_aside(beyond)
        found = self.positions()
        kept = self._kept(found, returns)
        for old in found:
            if old not in kept:
                shutil.rmtree(self.path(old), ignore_errors=True)
        return found[-KEPT:][0]

    def add(self, position: int, save: Callable[[Path], None], about: dict[str, Any]) -> None:
        """Write one of a position before the latest, which somebody asked for; the others stay as they are."""
        self._put(position, save, about | {"asked": True}, "added")

    def _put(self, position: int, save: Callable[[Path], None], about: dict[str, Any], aside_name: str) -> None:
        aside, path = self.directory / aside_name, self.path(position)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            save(aside)
            _note(aside, about)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        shutil.rmtree(path, ignore_errors=True)
        aside.rename(path)
        # The directory is synced before older checkpoints are deleted.
        sync_directory(self.directory)

    def ask_for(self, position: int) -> None:
        """Note that somebody asked for one, and wants to find it again."""
        about = self.about(position)
        if not about.get("asked"):
            _note(self.path(position), about | {"asked": True})

    def _kept(self, found: list[int], returns: list[Return]) -> set[int]:
        base = found[-KEPT:][0]
        kept = {*found[-KEPT:], *self.held, *(each.to for each in returns if each.position > base)}
        offered = self.offered(returns)
        kept.update([position for position, about in offered.items() if about.get("asked")][-ASKED:])
        for seconds, most in self._ladder:
            last = {int(about["at"] // seconds): position for position, about in offered.items()}
            kept.update(last[each] for each in sorted(last)[-most:])
        return kept

    def load(
        self, last: int, read: Callable[[Path], Any], notices: list[str] | None = None
    ) -> tuple[int, Any] | None:
        """Read the latest one that is whole and not beyond the last entry of the log; None if there is none at all.

        Later ones that cannot be read are moved out of the way, once an earlier one was read, and `notices` says so.

        Raises
        ------
        Problem
            If none of those that there are can be read.
        """
        found = self.positions()
        if not found:
            return None
        unread: list[tuple[int, CheckpointError]] = []
        wrong = f"the log ends at {last:,}, before the first checkpoint, at {found[0]:,}"
        for position in reversed(found):
            if position <= last:
                try:
                    loaded = read(self.path(position))
                except CheckpointError as error:
                    wrong = str(error)
                    unread.append((position, error))
                    continue
                for each, error in unread:
                    said = f"the checkpoint of {each:,} cannot be used ({error}); it is in {self.set_aside(each)}"
                    (notices if notices is not None else []).append(said)
                return position, loaded
        raise Problem(500, f"{self.directory}: no checkpoint can be read ({wrong}); use a copy of the directory")


def _note(directory: Path, about: dict[str, Any]) -> None:
    aside = directory / f"{ABOUT}.part"
    with aside.open("w") as file:
        file.write(json.dumps(about) + "\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(directory / ABOUT)
