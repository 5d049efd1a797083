"""All streams of a directory."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol
from uuid import uuid4

from streamgp.numerics.checkpoint import CheckpointError
from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.config import NAME, StreamConfig
from streamgp.service.events import Events
from streamgp.service.live_stream import LiveStream
from streamgp.service.problems import Problem
from streamgp.service.standby.epoch import EpochFile
from streamgp.service.standby.leadership import TIMEOUT, Leadership

MAX_STREAMS = 1_000
CONFIG = "stream.json"
MAX_CONFIG = 1 << 26  # bytes
LOGGER = logging.getLogger("streamgp.service")


class Works(Protocol):
    """What works beside the streams."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Finish what was handed in, and end."""
        ...


class Follows(Works, Protocol):
    """What feeds a stream from elsewhere."""

    # The name of the stream.
    name: str

    def status(self) -> dict[str, Any]:
        """Return what is read, and how far."""
        ...


def _config_of(path: Path) -> StreamConfig:
    """Return what the stream of a directory is."""
    if not (path / CONFIG).exists():
        raise Problem(500, f"{path}: expected {CONFIG}, which says what the stream is, found none; use a backup")
    # Only a regular file of limited size is read: a pipe would never end.
    if not ((path / CONFIG).is_file() and (path / CONFIG).stat().st_size <= MAX_CONFIG):
        raise Problem(500, f"{path / CONFIG}: expected a file of at most {MAX_CONFIG:,} bytes; use a backup")
    try:
        config = StreamConfig.from_document(json.loads((path / CONFIG).read_text(encoding="utf-8")))
    except Problem as problem:
        raise Problem(500, f"{path / CONFIG}: {problem.detail}; use a backup") from problem
    except (ValueError, RecursionError) as error:
        raise Problem(500, f"{path / CONFIG}: expected JSON, found something else ({error}); use a backup") from error
    if config.name != path.name:
        raise Problem(500, f"{path / CONFIG}: expected the name {path.name!r}, got {config.name!r}; use a backup")
    return config


def unknown_stream(name: str) -> Problem:
    """Return what is said of a stream that is not there; it names no other, which may not be the client's to know."""
    return Problem(404, f"stream: expected one that GET /v1/streams lists, got {name[:80]!r}")


def _writable(text: str) -> str:
    """Return text for logs and answers, in which a directory may have a name of any bytes."""
    return text.encode(errors="backslashreplace").decode()


def _reason(path: Path, error: Exception) -> str:
    """Return why a stream could not be opened, in a sentence."""
    if isinstance(error, Problem | OSError | CheckpointError):
        return str(error)
    return f"{path}: what it holds does not fit together ({type(error).__name__}: {error!s:.200}); use a backup"


class Streams:
    """The streams of a directory, each in one of its own below ``streams``.

    Parameters
    ----------
    directory
        It is made if need be. One process at a time may have it.
    timeout
        The seconds for which it waits for its standby, if it has one.

    Raises
    ------
    Problem
        If it cannot be read who leads.
    """

    def __init__(self, directory: Path, timeout: float = TIMEOUT) -> None:
        self.directory = directory / "streams"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.events = Events()
        self._lock = Lock()
        self._streams: dict[str, LiveStream] = {}
        self._sources: dict[str, Follows] = {}
        self.broken: dict[str, str] = {}
        self.leadership = Leadership(EpochFile(directory), self._positions, timeout)
        self._others: list[Works] = [self.leadership]

    def _positions(self) -> dict[str, int]:
        return {stream.token: stream.last_position for stream in self.all()}

    def add(self, other: Works) -> None:
        """Start something that works beside the streams with them, and stop it before them."""
        self._others.append(other)

    def follow(self, source: Follows) -> None:
        """Start something that feeds a stream with the streams, and stop it before them."""
        self._sources[source.name] = source

    def source(self, name: str) -> dict[str, Any] | None:
        """Return what feeds a stream; None if nothing does."""
        source = self._sources.get(name)
        return None if source is None else source.status()

    def start(self) -> None:
        """Open all streams; each replays its log in a thread of its own."""
        for path in sorted(self.directory.iterdir()):
            # The directory was being created or deleted.
            if path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_dir():
                try:
                    self._open(path, _config_of(path))
                except Exception as error:
                    # The failure of one stream must not stop the others.
                    self.broken[path.name] = _writable(_reason(path, error))
                    LOGGER.error("stream %s could not be opened: %s", _writable(path.name), self.broken[path.name])
        for each in [*self._others, *self._sources.values()]:
            each.start()

    def _open(self, path: Path, config: StreamConfig) -> LiveStream:
        name = config.name
        stream = LiveStream(path, config, lambda event, what: self.events.tell(name, event, what), self.leadership)
        self._streams[name] = stream
        stream.start()
        return stream

    def all(self) -> list[LiveStream]:
        """Return the streams, by name."""
        return [stream for _, stream in sorted(self._streams.copy().items())]

    def get(self, name: str) -> LiveStream:
        """Return a stream.

        Raises
        ------
        Problem
            If there is none of this name.
        """
        stream = self._streams.get(name)
        if stream is None:
            if name in self.broken:
                raise Problem(500, f"stream {name!r} could not be opened: {self.broken[name]}; or delete the stream")
            raise unknown_stream(name)
        return stream

    def create(
        self, config: StreamConfig, check_room: Callable[[Collection[str]], None] | None = None
    ) -> tuple[LiveStream, bool]:
        """Make a stream; say whether it is new: the same one may be made again.

        Parameters
        ----------
        config
            What it is.
        check_room
            Raises `Problem` if there may be no more beside those of these names; None: as many as the service takes.

        Raises
        ------
        Problem
            If there is another one of its name, there are too many, or this service does not lead.
        """
        self.leadership.check()
        with self._lock:
            path = self.directory / config.name
            known = self._streams.get(config.name)
            if known is not None and known.config == config:
                return known, False
            if config.name in self.broken:
                raise Problem(
                    409,
                    f"name: {config.name!r} is that of a stream that is broken; delete it, or choose another",
                )
            if known is not None or path.exists():
                raise Problem(409, f"name: {config.name!r} is that of another stream; choose another, or delete it")
            if len(self._streams) >= MAX_STREAMS:
                raise Problem(409, f"streams: expected at most {MAX_STREAMS:,}; use keys for many like ones")
            if check_room is not None:
                check_room([*self._streams, *self.broken])
            aside = self.directory / f".{uuid4().hex}"
            try:
                aside.mkdir()
                with (aside / CONFIG).open("w") as file:
                    file.write(config.to_json())
                    file.flush()
                    os.fsync(file.fileno())
                sync_directory(aside)
                aside.rename(path)
                sync_directory(self.directory)
            except OSError as error:
                shutil.rmtree(aside, ignore_errors=True)
                raise Problem(507, f"{config.name}: could not be made ({error.strerror}); free some space") from error
            try:
                return self._open(path, config), True
            except ValueError as error:
                shutil.rmtree(path, ignore_errors=True)
                raise Problem(422, str(error)) from error

    def put(self, name: str, made: Path | None, aside: Path | None = None) -> None:
        """Put a directory in the place of a stream, if there is one of the name, and open it.

        Parameters
        ----------
        name
            Of the stream.
        made
            Its directory from now on; None: there is no such stream any more.
        aside
            Where the former one goes; None: it is deleted.
        """
        if name in self._streams or name in self.broken:
            self._end(name, aside)
        if made is not None:
            with self._lock:
                path = self.directory / name
                made.rename(path)
                sync_directory(self.directory)
                try:
                    self._open(path, _config_of(path))
                except BaseException:
                    shutil.rmtree(path, ignore_errors=True)
                    raise

    def delete(self, name: str) -> None:
        """End a stream and delete all that there is of it."""
        self.leadership.check()
        if name not in self.broken and not NAME.fullmatch(name):
            raise unknown_stream(name)
        if name not in self.broken:
            self.get(name)
        self._end(name)

    def _end(self, name: str, to: Path | None = None) -> None:
        """End a stream; delete all that there is of it, or move it."""
        stream = None if name in self.broken else self.get(name)
        source = self._sources.pop(name, None)
        if source is not None:
            source.stop()
        with self._lock:
            self._streams.pop(name, None)
            self.broken.pop(name, None)
        if stream is not None:
            try:
                stream.stop()
            except Exception as error:
                # Files on disk are deleted in any case.
                LOGGER.error("stream %s did not end in order: %s", name, error)
        if to is not None:
            to.parent.mkdir(exist_ok=True)
            (self.directory / name).rename(to)
            return
        aside = self.directory / f".{uuid4().hex}"
        # The directory may be gone already.
        with suppress(FileNotFoundError):
            (self.directory / name).rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def stop(self) -> None:
        """Finish what was accepted, write checkpoints and end."""
        for each in [*self._others, *self._sources.values()]:
            each.stop()
        self.events.close()
        threads = [Thread(target=stream.stop) for stream in self.all()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
