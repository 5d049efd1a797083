"""Memory of a process that makes and drops arrays of a few megabytes all the time, and few cycles of objects."""

import atexit
import ctypes
import gc
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT, _LARGEST = 64 << 20, 8 << 20
_YOUNG = 100_000  # objects made, less those dropped, between two looks for garbage; Python's own 700


def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed for what comes next, instead of giving each array back at once.

    To fill new pages with zeros is a tenth of a run's time otherwise. It concerns the whole process: commands do it,
    no import. Elsewhere than with glibc, nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def collect_garbage_seldom() -> None:
    """Let Python look for cycles of dropped objects seldom, and not at all when the process ends.

    Imports and charts make hundreds of thousands of objects that stay: looking through them again and again is a
    tenth of a short run. It concerns the whole process: commands do it, no import.
    """
    gc.set_threshold(_YOUNG, 10, 10)
    atexit.register(gc.freeze)
