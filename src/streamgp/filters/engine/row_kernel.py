"""A stack of filters that predicts and learns single rows in C: `numerics/kernel/rows.c`.

Its oracle is the form in NumPy, `streamgp.filters.engine.rowfilter`.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.filters.engine.row_covariances import Triangles, Whole
from streamgp.numerics.native import address, addresses, function, structure


class RowPrediction(NamedTuple):
    """Every expert's prediction of the next row, with what learning from the row will need."""

    loc: Float[np.ndarray, "g r e"]
    var: Float[np.ndarray, "g r"]
    gain: Float[np.ndarray, "g r f"]  # P phi
    decay: Float[np.ndarray, "g r"]
    process_variance: Float[np.ndarray, "g r"]


class RowArrays(NamedTuple):
    """What the kernel reads and changes of a `RowFilter`, in the order of `filters_t`: arrays that stay in place."""

    mean: Float[np.ndarray, "g r e f"]
    pending: Float[np.ndarray, "g r n f"]
    decay: Float[np.ndarray, "g r"]
    process_variance: Float[np.ndarray, "g r"]
    shrink: Float[np.ndarray, "g r"]
    grown: Float[np.ndarray, "g r"]
    noise_var: Float[np.ndarray, "g r"]
    least_var: Float[np.ndarray, "g r"]


_COUNTS = "filters", "features", "outputs", "room", "reverts", "moves"
_Fields = structure(_COUNTS, (), ("cov", "is_lower", *RowArrays._fields))


class RowKernel:
    """The compiled form of a `RowFilter`."""

    def __init__(
        self, cov: Whole | Triangles, arrays: RowArrays, reverts: bool, moves: bool, functions: tuple[Any, Any]
    ) -> None:
        self._predict, self._learn = functions
        (G, R, room, F), E = arrays.pending.shape, arrays.mean.shape[2]
        self._shape = G, R, F, E
        self._held = cov, *cov.places, *arrays
        self._fields = _Fields(G * R, F, E, room, reverts, moves, *addresses(*self._held[1:]))
        self._at = ctypes.addressof(self._fields)
        # What goes in and out lies in the same places for every row.
        self._phi, self._step, self._std = np.empty((G, F)), np.empty((G, R, E)), np.empty((G, R))
        loc, gain, (var, decay, process) = np.empty((G, R, E)), np.empty((G, R, F)), np.empty((3, G, R))
        self._prediction = RowPrediction(loc, var, gain, decay, process)
        self._phi_at = address(self._phi)
        self._into = addresses(*self._prediction)
        self._given = [*self._into[2:], *addresses(self._step, self._std)]

    def predict(self, phi: Float[np.ndarray, "*g f"], extra: float, count: int) -> tuple[RowPrediction, bool]:
        """Predict a row after `count` that wait; return also whether all variances are sound.

        The prediction is there until the next one.
        """
        _, R, F, _ = self._shape
        stride = F if phi.size > F else 0
        self._phi[: len(phi) if stride else 1] = phi
        are_sound = self._predict(self._at, count, self._phi_at, stride, R, extra, *self._into)
        return self._prediction, bool(are_sound)

    def learn(
        self, prediction: RowPrediction, step: Float[np.ndarray, "g r e"], std: Float[np.ndarray, "g r"], count: int
    ) -> None:
        """Learn the row that was predicted last; it waits after `count` others."""
        self._step[...], self._std[...] = step, std
        self._learn(self._at, count, *self._given)


def row_kernel(cov: Whole | Triangles, arrays: RowArrays, reverts: bool, moves: bool) -> RowKernel | None:
    """Return the compiled form of a `RowFilter`, whose weights revert or move; None where it was not built."""
    functions = _functions()
    return None if functions is None else RowKernel(cov, arrays, reverts, moves, functions)


@cache
def _functions() -> tuple[Any, Any] | None:
    n, at, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
    predict = function("predict_singly", [at, n, at, n, n, number, *[at] * 5], n)
    learn = function("learn_singly", [at, n, *[at] * 5])
    return None if predict is None or learn is None else (predict, learn)
