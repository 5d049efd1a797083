"""BLAS and LAPACK in place, on float64 arrays in Fortran order, with Python's lock let go.

SciPy's own wrappers hold the lock, so that two threads would wait for each other. The addresses of the same routines
are public (`scipy.linalg.cython_blas`), and a foreign call through `ctypes` lets the lock go.
"""

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _routine(module: ModuleType, name: str, prototype: Any = ctypes.CFUNCTYPE) -> Callable[..., None]:
    """A routine as a function of plain addresses; it has as many arguments as its signature names.

    With `ctypes.PYFUNCTYPE` it keeps the lock: a short call is over before another thread has woken up.
    """
    capsule = module.__pyx_capi__[name]
    signature = _name_of(capsule)
    arguments = signature.count(b",") + 1
    return prototype(None, *[ctypes.c_void_p] * arguments)(_pointer_of(capsule, signature))


_dgemm = _routine(cython_blas, "dgemm")
_dsymm = _routine(cython_blas, "dsymm")
_dsyrk = _routine(cython_blas, "dsyrk")
_dtrsm = _routine(cython_blas, "dtrsm")
_dgemm_short = _routine(cython_blas, "dgemm", ctypes.PYFUNCTYPE)
_dtrsm_short = _routine(cython_blas, "dtrsm", ctypes.PYFUNCTYPE)
_dtrmm_short = _routine(cython_blas, "dtrmm", ctypes.PYFUNCTYPE)
_dpotrf_short = _routine(cython_lapack, "dpotrf", ctypes.PYFUNCTYPE)

# Arguments go by address, so that constants need a place to live for as long as the program.
_letters = {letter: ctypes.c_char(letter.encode()) for letter in "LRUNT"}
_L, _R, _N, _T = (ctypes.addressof(_letters[letter]) for letter in "LRNT")


class Number:
    """A double that BLAS can read, or an int."""

    def __init__(self, value: float) -> None:
        self._held: Any = ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)
        self.at = ctypes.addressof(self._held)

    @property
    def value(self) -> float:
        return self._held.value


_ONE, _ZERO, _MINUS_ONE = Number(1.0), Number(0.0), Number(-1.0)


def address(a: np.ndarray) -> int:
    """Where an array's numbers are."""
    return a.__array_interface__["data"][0]


class Matrices:
    """Calls on matrices of fixed sizes, F x B against F x F, B x B, B x E and F x E, by address.

    Everything is in Fortran order (columns are contiguous); of symmetric matrices only the lower triangle is read
    and written, except where stated.
    """

    def __init__(self, features: int, rows: int, outputs: int) -> None:
        self._f, self._b, self._e = Number(int(features)), Number(int(rows)), Number(int(outputs))
        self._info = Number(0)

    def symmetric_product(self, S: int, P: int, out: int) -> None:
        """out (F x B) = S P, with S (F x F) symmetric."""
        f, b = self._f.at, self._b.at
        _dsymm(_L, _L, f, b, _ONE.at, S, f, P, f, _ZERO.at, out, f)

    def gram(self, P: int, X: int, out: int) -> None:
        """out (B x B, all of it) = P' X."""
        f, b = self._f.at, self._b.at
        _dgemm(_T, _N, b, b, f, _ONE.at, P, f, X, f, _ZERO.at, out, b)

    def project(self, P: int, mean: int, out: int) -> None:
        """out (B x E) = P' mean."""
        f, b, e = self._f.at, self._b.at, self._e.at
        _dgemm_short(_T, _N, b, e, f, _ONE.at, P, f, mean, f, _ZERO.at, out, b)

    def cholesky(self, K: int) -> bool:
        """K (B x B) becomes its lower factor; false if it has none."""
        _dpotrf_short(_L, self._b.at, K, self._b.at, self._info.at)
        return self._info.value == 0

    def solve_rows(self, L: int, z: int) -> None:
        """z (B x E) becomes L^-1 z."""
        b, e = self._b.at, self._e.at
        _dtrsm_short(_L, _L, _N, _N, b, e, _ONE.at, L, b, z, b)

    def multiply_rows(self, L: int, z: int) -> None:
        """z (B x E) becomes L z."""
        b, e = self._b.at, self._e.at
        _dtrmm_short(_L, _L, _N, _N, b, e, _ONE.at, L, b, z, b)

    def solve_columns(self, L: int, X: int) -> None:
        """X (F x B) becomes X L^-T."""
        f, b = self._f.at, self._b.at
        _dtrsm(_R, _L, _T, _N, f, b, _ONE.at, L, b, X, f)

    def add_product(self, X: int, z: int, beta: Number, mean: int) -> None:
        """mean (F x E) becomes beta mean + X z."""
        f, b, e = self._f.at, self._b.at, self._e.at
        _dgemm_short(_N, _N, f, e, b, _ONE.at, X, f, z, b, beta.at, mean, f)

    def downdate(self, X: int, beta: Number, S: int) -> None:
        """S (F x F) becomes beta S - X X'."""
        f, b = self._f.at, self._b.at
        _dsyrk(_L, _N, f, b, _MINUS_ONE.at, X, f, beta.at, S, f)
