"""A copy of a directory of streams that holds together, made while the service runs or not."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import Any

from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.archive import NAME as ARCHIVE
from streamgp.service.checkpoints import ASIDE, Checkpoints
from streamgp.service.log_check import chained, damage, opened_to_read
from streamgp.service.log_end import NAME, End, EndFile, digest_of
from streamgp.service.log_files import log_files
from streamgp.service.problems import Problem

# The seconds between two tries.
PAUSE = 0.1
# A stream's checkpoints or files may be replaced while they are copied; the copy is tried so many times.
TRIES = 20
STREAMS = "streams"
CONFIG = "stream.json"
_LOCK = ".lock"


def back_up(
    directory: Path, target: Path, say: Callable[[int, int, str], None]
) -> tuple[dict[str, int], dict[str, str]]:
    """Copy the streams of a directory; return up to which position the copy has each, and why it has not the others.

    The copy is made aside, and gets its name when the disk has all of it. Of every stream the log is copied last, in
    one go, by SQLite itself, so that nothing else in the copy is of a later time.

    Parameters
    ----------
    directory
        Of the service.
    target
        Of the copy; it may exist if it is empty.
    say
        Called with the streams that are done, their number, and what is copied.

    Raises
    ------
    OSError
        If the disk refuses it; there is no copy then.
    """
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        for path in sorted(directory.iterdir()):
            # Tokens and other files beside the streams are copied.
            if path.is_file() and path.name != _LOCK:
                _copy(path, aside / path.name)
        names = [each.name for each in _streams(directory)]
        positions, failed = dict[str, int](), dict[str, str]()
        (aside / STREAMS).mkdir()
        for i, name in enumerate(names):
            say(i, len(names), name)
            try:
                position = copy_stream(directory / STREAMS / name, aside / STREAMS / name)
                if position is not None:
                    positions[name] = position
            except Problem as problem:
                failed[name] = problem.detail
                shutil.rmtree(aside / STREAMS / name, ignore_errors=True)
        sync_directory(aside / STREAMS)
        sync_directory(aside)
        aside.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return positions, failed


def _streams(directory: Path) -> list[Path]:
    found = directory / STREAMS
    return sorted(path for path in found.iterdir() if path.name[0] != "." and (path / CONFIG).exists())


def copy_stream(source: Path, target: Path) -> int | None:
    """Copy a stream; return its position, or None if it is deleted meanwhile."""
    wrong = "its files change too fast"
    for _ in range(TRIES):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            _copy_files(source, target)
            position = _copy_log(source / "log", target / "log")
            _copy_archive(source / ARCHIVE, target / ARCHIVE, position)
            if not _goes_on(target, position):
                raise FileNotFoundError("the log goes on from a later checkpoint")
            sync_tree(target)
            return position
        except FileNotFoundError as error:
            # A checkpoint or a file was replaced by a later one during the copy.
            wrong = str(error)
        if not (source / CONFIG).exists():
            shutil.rmtree(target, ignore_errors=True)
            return None
        sleep(PAUSE)
    raise Problem(503, f"{source}: could not be copied in {TRIES} tries ({wrong}); try again when less goes on")


def _copy_files(source: Path, target: Path) -> None:
    """Copy all but the log: checkpoints first, then the files of scored rows, which later ones make again."""
    _copy(source / CONFIG, target / CONFIG)
    (target / "checkpoints").mkdir()
    checkpoints = Checkpoints(source / "checkpoints")
    for position in reversed(checkpoints.positions()):
        path = target / "checkpoints" / f"{position:015d}"
        try:
            _copy_tree(checkpoints.path(position), path)
        except FileNotFoundError:
            # The file has been deleted. The check at the end shows whether it is needed.
            shutil.rmtree(path, ignore_errors=True)
    for path in sorted(source.iterdir()):
        if path.name in ("checkpoints", "log", CONFIG, ASIDE) or path.name.startswith((".", ARCHIVE)):
            continue
        if path.is_dir():
            _copy_tree(path, target / path.name)
        else:
            _copy(path, target / path.name)


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a directory; raise FileNotFoundError if something in it, or all of it, is deleted meanwhile."""
    try:
        shutil.copytree(source, target, copy_function=_copied, ignore=shutil.ignore_patterns("*.part", ".*.tmp"))
    except shutil.Error as error:
        gone = [str(path) for path, *_ in error.args[0] if not Path(path).exists()]
        if len(gone) < len(error.args[0]):
            raise
        raise FileNotFoundError(f"{gone[0]} was deleted meanwhile") from error


def _copied(source: str, target: str) -> Any:
    try:
        return shutil.copy2(source, target)
    except FileNotFoundError:
        if Path(source).parent.name == "history" or Path(source).parent.parent.name == "history":
            # The file is one of the oldest and has been deleted, or a return to a checkpoint has moved it.
            return target
        raise


def _copy_log(source: Path, target: Path) -> int:
    """Copy a log up to some moment, by SQLite, while another process may write it; return its position."""
    # The end is read before the log, which then has at least as much.
    end = EndFile(source / NAME).end
    found = log_files(source)
    if not found:
        raise FileNotFoundError(f"{source}: expected log-00000001.sqlite, found no log")
    target.mkdir()
    number = int(found[-1].name[4:12])
    path = target / found[-1].name
    try:
        with closing(opened_to_read(found[-1])) as db, closing(sqlite3.connect(path)) as copy:
            db.backup(copy)
            # Without a write-ahead log, the file holds the whole database.
            copy.execute("PRAGMA journal_mode=DELETE")
        last, at, chain = 0, 0.0, b""
        if end is not None and end.number > number:
            raise FileNotFoundError(f"{source}: a new file began")
        wrong = damage(target, (number, path), None if end is None else end._replace(digest=""))
        if wrong is not None:
            raise Problem(500, f"{str(wrong.problem.detail).replace(str(target), str(source))}")
        with closing(opened_to_read(path)) as db:
            for (last, _, at, _, chain), _ in chained(db):  # noqa: B007
                pass
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in {"ids", "marks"} & set(tables):
                later = db.execute(f"SELECT max(position) FROM {table}").fetchone()[0] or 0
                if later > last:
                    row = db.execute("SELECT chain FROM marks WHERE position = ?", (later,)).fetchone()
                    last, chain = later, b"" if row is None else row[0]
    except sqlite3.DatabaseError as error:
        raise Problem(500, f"{found[-1]}: could not be copied ({error})") from error
    written = EndFile(target / NAME)
    written.write(End(last, at, chain, number, digest_of(path), True))
    written.close()
    return last


def _copy_archive(source: Path, target: Path, position: int) -> None:
    """Copy what the log has dropped up to a position, by SQLite; after the log, which may drop more meanwhile."""
    if not source.exists():
        return
    try:
        with closing(opened_to_read(source)) as db, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            db.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            copy.execute("DELETE FROM entries WHERE position > ?", (position,))
    except sqlite3.DatabaseError:
        # The stream goes on without it, as it does where it was made.
        target.unlink(missing_ok=True)


def _goes_on(target: Path, position: int) -> bool:
    """Return whether the log of a copy goes on from its newest checkpoint."""
    positions = Checkpoints(target / "checkpoints").positions()
    with closing(opened_to_read(log_files(target / "log")[-1])) as db:
        first = db.execute("SELECT min(position) FROM entries").fetchone()[0]
    newest = positions[-1] if positions else 0
    return newest <= position and (position + 1 if first is None else first) <= newest + 1


def _copy(source: Path, target: Path) -> None:
    shutil.copy2(source, target)
    _sync_file(target)


def sync_tree(directory: Path) -> None:
    """Wait until the disk has all that is below a directory."""
    for each in _below(directory):
        if each.is_dir():
            sync_directory(each)
        else:
            _sync_file(each)


def _below(directory: Path) -> Iterator[Path]:
    yield from directory.rglob("*")
    yield directory


def _sync_file(path: Path) -> None:
    with suppress(PermissionError), path.open("rb") as file:
        os.fsync(file.fileno())
