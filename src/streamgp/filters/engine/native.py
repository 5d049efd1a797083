"""The block filter in C: that of `streamgp.filters.engine.blockfilter`, without Python between the products.

`streamgp.numerics.native` says how it comes to be there. Without it the form in NumPy works.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

from streamgp.filters import guard
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine import blockfilter
from streamgp.filters.engine.blas import pointer
from streamgp.filters.kalman import ExpertVariances, FilterState, Predicted
from streamgp.numerics.native import library

MAX_OUTPUTS = 16
_ROUTINES = ((cython_blas, "dgemm"), (cython_blas, "dsymm"), (cython_blas, "dsyrk"), (cython_blas, "dtrsm"))
# The structures of blocks.c, field by field; pointers are numbers.
_EXPERT = np.dtype(
    [(name, np.uintp) for name in ("mean", "cov", "level", "run", "agreement", "last")]
    + [(name, np.float64) for name in ("decay", "diffusion", "prior_var", "noise_var")]
    + [(name, np.uintp) for name in ("loc", "var", "is_outlier")]
)
_ROWS = np.dtype([(name, np.uintp) for name in ("Phi", "gram", "y", "tau", "extra", "mask")])


class Kernel:
    """The compiled filter, with the addresses of BLAS and the constants of the guard that it is given."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        routines = (*_ROUTINES, (cython_lapack, "dpotrf"))
        self._blas = np.array([pointer(module, name) for module, name in routines], np.uintp)
        self._rules = np.array(guard.KERNEL_CONSTANTS, np.float64)
        pointers, numbers = [ctypes.c_void_p] * 3, [ctypes.c_int64] + [ctypes.c_int] * 3
        self._learn = compiled.learn_experts
        self._learn.restype = None
        self._learn.argtypes = [*pointers[:2], ctypes.c_int64, *pointers, *numbers, ctypes.c_void_p]
        self._size = compiled.work_size
        self._size.restype, self._size.argtypes = ctypes.c_int64, [ctypes.c_int] * 3

    def learn(
        self, experts: np.ndarray, rows: np.ndarray, left: np.ndarray, sizes: tuple[int, int, int, int]
    ) -> None:
        """Let experts learn their rows from blocks `left` on, which are overwritten; `sizes` are m, F, B and E."""
        memory = np.empty(self._size(*sizes[1:]))
        given = (self._blas, self._rules, len(experts), experts, rows, left, *sizes, memory)
        self._learn(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in given))


@cache
def kernel() -> Kernel | None:
    """Return the compiled filter, or None where there is none."""
    compiled = library()
    return None if compiled is None else Kernel(compiled)


def supports(beliefs: FilterState, later: Any) -> bool:
    """Return whether the kernel is there, and can let these experts learn."""
    return later is None and beliefs.mean.shape[-1] <= MAX_OUTPUTS and kernel() is not None


def update_blocks(
    beliefs: FilterState,
    Phi: list[np.ndarray],
    gram: list[np.ndarray] | None,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None],
    dynamics: Dynamics,
    noise: ExpertVariances,
    into: Predicted,
) -> None:
    """Let G x R experts over G bases learn from consecutive blocks, in place; write their predictions `into` arrays.

    As `streamgp.filters.engine.blockfilter.update_blocks`, of rows of which none is forecast.

    Parameters
    ----------
    beliefs
        Of every expert (G, R), overwritten with the new ones.
    Phi, gram
        Features (m, B, F) and their Gram matrices (m, B, B) by basis; None if all weights are static.
    rows
        Targets, mask, times and additional variance of the blocks.
    dynamics, noise
        Of every expert (G, R).
    into
        Arrays (G, R, m, ...) for mean and variance of every row, and whether it is an outlier.
    """
    found = kernel()
    assert found is not None
    (G, R, F, E), (m, B, _) = beliefs.mean.shape, Phi[0].shape
    rows = tuple(None if a is None else np.ascontiguousarray(a) for a in rows)  # type: ignore[assignment]
    Phi = [np.ascontiguousarray(a) for a in Phi]
    gram = None if gram is None else [np.ascontiguousarray(a) for a in gram]
    experts, given = np.zeros((G, R), _EXPERT), np.zeros((G, R), _ROWS)
    state = beliefs.guard
    for name, a in zip(("mean", "cov", "loc", "var"), (beliefs.mean, beliefs.cov, into.loc, into.var), strict=True):
        experts[name] = _addresses(a)
    if state is not None:
        for name in ("level", "run", "agreement", "last"):
            experts[name] = _addresses(getattr(state, name))
        experts["is_outlier"] = _addresses(into.is_outlier)
    for name, a in zip(("decay", "diffusion", "prior_var", "noise_var"), (*_both(dynamics), *noise), strict=True):
        experts[name] = a
    given["Phi"] = np.array([a.ctypes.data for a in Phi], np.uintp)[:, None]
    if gram is not None:
        given["gram"] = np.array([a.ctypes.data for a in gram], np.uintp)[:, None]
    for name, a in zip(("y", "mask", "tau", "extra"), rows, strict=True):
        given[name] = 0 if a is None else a.ctypes.data
    left = np.zeros((G, R), np.int64)
    while True:
        found.learn(experts.reshape(-1), given.reshape(-1), left.reshape(-1), (m, F, B, E))
        if (left == m).all():
            return
        for g, r in np.argwhere(left < m).tolist():  # a block whose covariance has no factor, which NumPy repairs
            at = slice(int(left[g, r]), int(left[g, r]) + 1)
            _one_block((g, r), at, beliefs, Phi[g], None if gram is None else gram[g], rows, dynamics, noise, into)
            left[g, r] += 1


def _one_block(
    which: tuple[int, int],
    at: slice,
    beliefs: FilterState,
    Phi: np.ndarray,
    gram: np.ndarray | None,
    rows: tuple[Any, ...],
    dynamics: Dynamics,
    noise: ExpertVariances,
    into: Predicted,
) -> None:
    """Let one expert learn one block in NumPy."""
    g, r = which
    its = (slice(g, g + 1), slice(r, r + 1))
    state = beliefs.guard
    own = FilterState(
        beliefs.mean[its], beliefs.cov[its], None if state is None else guard.Guard(*(a[its] for a in state))
    )
    y, mask, tau, extra = (None if a is None else a[at] for a in rows)
    assert y is not None and mask is not None and tau is not None
    variances = ExpertVariances(*(np.asarray(a)[its] for a in noise))
    moving = Dynamics(*(np.asarray(a)[its] for a in _both(dynamics)))
    grams = None if gram is None else gram[None, at]
    said = blockfilter.update_blocks(own, Phi[None, at], grams, y, mask, tau, moving, variances, None, extra)
    for whole, found in zip(into, said, strict=True):
        if whole is not None:
            whole[*its, at] = found


def _both(dynamics: Dynamics) -> tuple[Any, Any]:
    return dynamics.decay, dynamics.diffusion


def _addresses(a: Any) -> np.ndarray:
    """Return where the numbers of every expert (G, R) begin."""
    start, (by_g, by_r) = a.ctypes.data, a.strides[:2]
    return (start + by_g * np.arange(a.shape[0])[:, None] + by_r * np.arange(a.shape[1])[None]).astype(np.uintp)
