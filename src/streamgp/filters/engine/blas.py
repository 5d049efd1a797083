"""BLAS in place on float64 arrays, without Python's global lock.

SciPy's own wrappers hold the lock, so that two threads would wait for each other. The addresses of the same routines
are public (`scipy.linalg.cython_blas`), and a foreign call through `ctypes` lets the lock go.
"""

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from scipy.linalg import cython_blas  # pyright: ignore[reportAttributeAccessIssue]

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def pointer(module: ModuleType, name: str) -> int:
    """Return the address of a routine of `scipy.linalg.cython_blas` or `cython_lapack`."""
    capsule = module.__pyx_capi__[name]
    return _pointer_of(capsule, _name_of(capsule))


def _routine(module: ModuleType, name: str, prototype: Any = ctypes.CFUNCTYPE) -> Callable[..., None]:
    """Return a routine as a function of plain addresses; it has as many arguments as its signature names.

    With `ctypes.PYFUNCTYPE` it keeps the lock: a short call is over before another thread has woken up.
    """
    arguments = _name_of(module.__pyx_capi__[name]).count(b",") + 1
    return prototype(None, *[ctypes.c_void_p] * arguments)(pointer(module, name))


_dsymm = _routine(cython_blas, "dsymm")
_dsymv = _routine(cython_blas, "dsymv", ctypes.PYFUNCTYPE)
_dsyrk = _routine(cython_blas, "dsyrk")
_dtrsm = _routine(cython_blas, "dtrsm", ctypes.PYFUNCTYPE)

# Arguments go by address, so that constants need a place to live for as long as the program.
_letters = {letter: ctypes.c_char(letter.encode()) for letter in "LRUN"}
_L, _R, _U, _N = (ctypes.addressof(_letters[letter]) for letter in "LRUN")


class Number:
    """A double that BLAS can read, or an int."""

    def __init__(self, value: float) -> None:
        self._held: Any = ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)
        self.at = ctypes.addressof(self._held)


_ONE, _ZERO, _MINUS_ONE, _NEXT = Number(1.0), Number(0.0), Number(-1.0), Number(1)


class Matrices:
    """Calls on matrices of fixed sizes, by address: features F x B, covariances F x F, factors B x B.

    BLAS counts columns first: it sees the transposes of NumPy's arrays, which have the rows of a block last. Working
    matrices are (F + E) x B: in their last E rows lies what belongs to the targets.
    """

    def __init__(self, features: int, rows: int, outputs: int) -> None:
        self._f, self._b, self._both = Number(int(features)), Number(int(rows)), Number(int(features + outputs))

    def symmetric_product(self, S: int, P: int, out: int) -> None:
        """Compute the first F rows of out ((F + E) x B) = S P, of S (F x F) only the lower triangle being read."""
        f, b = self._f.at, self._b.at
        _dsymm(_L, _L, f, b, _ONE.at, S, f, P, f, _ZERO.at, out, self._both.at)

    def symmetric_vector(self, S: int, p: int, out: int, upper: bool = False) -> None:
        """Compute out (F) = S p, of S (F x F) only one triangle being read."""
        f = self._f.at
        _dsymv(_U if upper else _L, f, _ONE.at, S, f, p, _NEXT.at, _ZERO.at, out, _NEXT.at)

    def downdate(self, X: int, beta: Number, S: int, upper: bool = False) -> None:
        """Replace one triangle of S (F x F) by that of beta S - X X', X the first F rows of (F + E) x B."""
        f, b = self._f.at, self._b.at
        _dsyrk(_U if upper else _L, _N, f, b, _MINUS_ONE.at, X, self._both.at, beta.at, S, f)

    def solve(self, L: int, X: int) -> None:
        """Replace X ((F + E) x B) by X L^-T, where `L` is NumPy's lower factor."""
        both, b = self._both.at, self._b.at
        _dtrsm(_R, _U, _N, _N, both, b, _ONE.at, L, b, X, both)
