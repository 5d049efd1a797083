"""A directory belongs to the run that writes it: a lock that ends with its process, however that ends."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamgp.app.outputs import RunError

NAME = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)  # errors of file systems that have no locks


@contextmanager
def locked(directory: Path, option: str = "--out") -> Iterator[None]:
    """Keep other processes out of a directory for the body of a ``with`` statement; it is made if need be.

    A directory that was made and stayed empty goes again. On a file system without locks there is none.

    Raises
    ------
    RunError
        If another run holds it.
    """
    if directory.exists() and not directory.is_dir():
        raise RunError(f"{option}: expected a directory, got the file {directory}; name another one")
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    path = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = _hold(path, option)
    except OSError as error:
        raise RunError(
            f"{option}: nothing can be written to {directory} ({error.strerror}); name another one"
        ) from error
    try:
        yield
    finally:
        try:
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(descriptor)
        with suppress(OSError):
            for path in made:
                path.rmdir()  # only if nothing is in it


def _hold(path: Path, option: str) -> int:
    """Return the descriptor of the file, locked, with the number of this process in it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
            # A file that was removed before it was locked keeps nobody out, and another one is opened.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace") if sys.platform != "win32" else ""
            os.close(descriptor)
            process = f" (process {holder})" if holder else ""
            raise RunError(
                f"{path.parent} is being written by another process{process}: wait for its end, or name another "
                f"{option}"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock an open file or raise BlockingIOError; the system lets go of it when the process ends."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
    else:
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
