"""Memory of a process that makes and drops arrays of a few megabytes all the time, and few cycles of objects."""

import atexit
import ctypes
import gc
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_KEPT, _LARGEST = 32 << 20, 8 << 20
_YOUNG = 100_000  # objects made, less those dropped, between two looks for garbage; Python's own 700


def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed for what comes next, instead of giving each array back at once.

    To fill new pages with zeros is a tenth of a run's time otherwise. All threads share what is kept: with a store
    for each, what one has freed is of no use to the others. It concerns the whole process: commands do it, no import.
    Elsewhere than with glibc, nothing happens.
    """
    for option, value in ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_ARENA_MAX, 1)):
        _glibc("mallopt", option, value)


def give_back() -> None:
    """Give memory that is free back to the system, before work of another kind; with glibc alone."""
    _glibc("malloc_trim", 0)


def _glibc(function: str, *arguments: int) -> None:
    """Call a function of the C library, where there is one of that name."""
    found = getattr(ctypes.CDLL(None), function, None) if sys.platform.startswith("linux") else None
    if found is not None:
        found(*arguments)


def collect_garbage_seldom() -> None:
    """Let Python look for cycles of dropped objects seldom, and not at all when the process ends.

    Imports and charts make hundreds of thousands of objects that stay: looking through them again and again is a
    tenth of a short run. It concerns the whole process: commands do it, no import.
    """
    gc.set_threshold(_YOUNG, 10, 10)
    atexit.register(gc.freeze)
