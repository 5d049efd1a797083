"""Levels of the noise along rows in C: `numerics/kernel/noise.c`. The form in NumPy of `NoiseKinds` is its oracle."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.native import address, function


class _Fields(ctypes.Structure):
    """`noise_t`, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("filters", "kinds", "outputs")),
        *((name, ctypes.c_void_p) for name in ("discount", "half")),
        *((name, ctypes.c_double) for name in ("min_factor", "max_learnt")),
    ]


def is_compiled() -> bool:
    """Return whether the kernel was built."""
    return _compiled() is not None


def learn_noise(
    discount: Float[np.ndarray, " j"],
    half: Float[np.ndarray, " j"],
    min_factor: float,
    max_learnt: float,
    state: Sequence[Any],
    rows: Sequence[np.ndarray | None],
) -> list[np.ndarray]:
    """Learn rows; return shapes, rates and errors before each and after the last.

    Parameters
    ----------
    discount, half
        What is left of each kind's level from row to row, and what a row adds to its shape.
    min_factor, max_learnt
        Constants of `streamgp.filters.noise`.
    state
        Shape, rate and error before the rows.
    rows
        Errors and variances (m, k, e), what is left of an error by kind (m, j), and, or None, the last errors that
        were known (m, k, e) and the outliers (m, k).
    """
    states = []
    for first in state:
        states.append(np.empty((len(rows[0]) + 1, *first.shape)))  # type: ignore[arg-type]
        states[-1][0] = first
    fields = _Fields(*state[1].shape, address(discount), address(half), min_factor, max_learnt)
    given = [None if a is None else np.ascontiguousarray(a) for a in rows]
    places = (None if a is None else address(a) for a in (*given, *states))
    _compiled()(ctypes.addressof(fields), len(states[0]) - 1, *places)
    return states


@cache
def _compiled() -> Any:
    count, at = ctypes.c_int64, ctypes.c_void_p
    return function("learn_noise", [at, count, *[at] * 8])
