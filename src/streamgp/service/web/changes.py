"""Whether a file is another one than before."""

from pathlib import Path


def version_of(path: Path) -> tuple[int, ...]:
    """Return what differs between two contents of a file; of one that is not there, nothing."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
