"""The kernel in C, `numerics/kernel`: built when the package is, and loaded where it is there.

What it computes has a form in NumPy each, which is its oracle, and stands in for it where it was not built.
"""

import ctypes
from functools import cache
from pathlib import Path

_NAMES = ("streamgp_kernel.so", "streamgp_kernel.dylib", "streamgp_kernel.dll")  # hatch_build.py makes one of them
FOLDER = Path(__file__).parent / "kernel"


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions; None where they were not built, or not for this system."""
    for path in (FOLDER / name for name in _NAMES):
        if path.exists():
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                return None
    return None
