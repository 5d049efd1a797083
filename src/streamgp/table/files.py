"""Files that are written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from streamgp.numerics.checkpoint.directory import sync_directory


def write_aside(path: Path, data: bytes) -> None:
    """Write a file so that its name holds either the old content or all of the new.

    Raises
    ------
    OSError
        If that fails; it names the file, as an error of a full disk does not.
    """
    aside = path.with_name(f".{path.name}.tmp")
    try:
        aside.write_bytes(data)
        put_in_place(aside, path)
    except BaseException as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def put_in_place(aside: Path, path: Path) -> None:
    """Give a complete file its name once the disk has it."""
    with open(aside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_directory(path.parent)  # a checkpoint may be about to count on it
