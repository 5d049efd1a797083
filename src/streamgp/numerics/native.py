"""The kernel in C, `numerics/kernel`: built when the package is, and loaded where it is there.

What it computes has a form in NumPy each, which is its oracle, and stands in for it where it was not built.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = ("streamgp_kernel.so", "streamgp_kernel.dylib", "streamgp_kernel.dll")  # hatch_build.py makes one of them
FOLDER = Path(__file__).parent / "kernel"
# The checksum of the declarations in C that this package was written for: see kernel.h.
INTERFACE = 0x2BDAFB92


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions; None where they were not built, not for this system, or from other sources."""
    for path in (FOLDER / name for name in _NAMES):
        if path.exists():
            try:
                found = ctypes.CDLL(str(path))
                states = found.kernel_interface
            except (OSError, AttributeError):
                return None
            states.restype = ctypes.c_int64
            return found if states() == INTERFACE else None
    return None


def function(name: str, arguments: Sequence[Any], returns: Any = None) -> Any:
    """Return a compiled function with arguments and a result of these types; None where it was not built."""
    found = library()
    if found is None:
        return None
    compiled = getattr(found, name)
    compiled.restype = returns
    compiled.argtypes = list(arguments)
    return compiled


def structure(
    counts: Sequence[str] = (), numbers: Sequence[str] = (), arrays: Sequence[str] = ()
) -> type[ctypes.Structure]:
    """Return a structure of the kernel with these fields: int64 first, then doubles, then addresses of arrays."""
    types = (ctypes.c_int64, counts), (ctypes.c_double, numbers), (ctypes.c_void_p, arrays)
    fields = [(name, kind) for kind, names in types for name in names]
    return type("Structure", (ctypes.Structure,), {"_fields_": fields})


def addresses(*arrays: np.ndarray | None) -> list[int | None]:
    """Return where each array's numbers are; None of none."""
    return [None if a is None else address(a) for a in arrays]


def address(a: np.ndarray) -> int:
    """Return where an array's numbers are."""
    writable: Any = a
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(writable))  # a quarter of the time of the other way
    except (TypeError, ValueError):  # arrays that are not in one piece, cannot be written, or are empty
        return a.__array_interface__["data"][0]
