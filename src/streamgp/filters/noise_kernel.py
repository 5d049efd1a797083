"""Levels of the noise along rows in C: `numerics/kernel/noise.c`. The form in NumPy of `NoiseKinds` is its oracle."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.native import addresses, function, structure

# `noise_t` of the kernel.
_Fields = structure(("filters", "kinds", "outputs"), ("min_factor", "max_learnt"), ("discount", "half"))


def is_compiled() -> bool:
    """Return whether the kernel was built."""
    return _compiled() is not None


class NoiseFields:
    """What the kernel needs to know of the kinds of noise: `noise_t`.

    Parameters
    ----------
    discount, half
        What is left of each kind's level from row to row, and what a row adds to its shape.
    constants
        `MIN_FACTOR` and `MAX_LEARNT` of `streamgp.filters.noise`.
    num_filters, num_outputs
        Of the ensemble.

    Attributes
    ----------
    at
        Where the kernel finds it.
    """

    def __init__(
        self,
        discount: Float[np.ndarray, " j"],
        half: Float[np.ndarray, " j"],
        constants: tuple[float, float],
        num_filters: int,
        num_outputs: int,
    ) -> None:
        self._held = discount, half
        self._fields = _Fields(num_filters, len(discount), num_outputs, *constants, *addresses(discount, half))
        self.at = ctypes.addressof(self._fields)


def learn_noise(
    fields: NoiseFields,
    state: Sequence[Any],
    rows: Sequence[np.ndarray | None],
) -> list[np.ndarray]:
    """Learn rows; return shapes, rates and errors before each and after the last.

    Parameters
    ----------
    fields
        Of the kinds of noise.
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
    *numbers, outliers = rows
    given = [None if a is None else np.ascontiguousarray(a, np.float64) for a in numbers]
    given.append(None if outliers is None else np.ascontiguousarray(outliers))
    _compiled()(fields.at, len(states[0]) - 1, *addresses(*given, *states))
    return states


@cache
def _compiled() -> Any:
    count, at = ctypes.c_int64, ctypes.c_void_p
    return function("learn_noise", [at, count, *[at] * 8])
