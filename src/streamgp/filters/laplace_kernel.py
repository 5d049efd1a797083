"""Laplace steps along a block of rows in C, `numerics/kernel/laplace.c`; the form in NumPy is its oracle."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.likelihoods import Categorical, Likelihood, NegativeBinomial, Ordinal, Poisson
from streamgp.likelihoods.binary import Logistic
from streamgp.likelihoods.categorical import SLOPE, contrasts
from streamgp.likelihoods.step import MAX_HALVINGS, MAX_STEPS, ROUNDING, TOLERANCE
from streamgp.numerics.native import address, function, structure

_BINARY, _CLASSES, _POISSON, _NEGATIVE_BINOMIAL, _GRADES = range(5)
_KNOWN = Categorical, Logistic, Ordinal, Poisson, NegativeBinomial
_COUNTS = "kind", "experts", "rows", "latents", "classes", "most_steps", "most_halvings"
_NUMBERS = "slope", "tolerance", "rounding", "clear"
_ARRAYS = "intercept", "dispersion", "contrasts", "y", "mask", "cov", "loc", "own_loc", "own_cov", "shift", "shrink"
_Fields = structure(_COUNTS, _NUMBERS, (*_ARRAYS, "gains", "room"))


class LaplaceKernel:
    """Steps of a block's rows.

    Parameters
    ----------
    likelihood
        Of the experts.
    clear
        The least eigenvalue, in shares of the largest variance, of which it is believed that it is above zero.
    arrays
        Of `steps_t`, by their names: float64 in one piece, but ``mask``.
    """

    def __init__(self, likelihood: Likelihood, clear: float, arrays: dict[str, np.ndarray]) -> None:
        e, n, C = arrays["own_loc"].shape
        kind, classes, slope, of_likelihood = _described(likelihood, e)
        room = 2 * classes + C + C * (C + 1) + 2 * (3 * C + C * C) + C
        self._held = arrays | of_likelihood | {"room": np.empty(room)}
        where = {name: address(a) for name, a in self._held.items()}
        counts, numbers = (kind, e, n, C, classes, MAX_STEPS, MAX_HALVINGS), (slope, TOLERANCE, ROUNDING, clear)
        self._fields = _Fields(*counts, *numbers, **where)
        self._at = ctypes.addressof(self._fields)

    def steps(self, first: int) -> int:
        """Take the steps of rows from a first one on; return the next that NumPy is to take, or how many all are."""
        return _compiled()(self._at, first)


def takes(likelihood: Likelihood) -> bool:
    """Return whether the kernel was built, and knows the likelihood."""
    return type(likelihood) in _KNOWN and _compiled() is not None


def _described(likelihood: Any, experts: int) -> tuple[int, int, float, dict[str, Float[np.ndarray, "..."]]]:
    """Return the kind of a likelihood, its classes, the slope of its log odds and its hyperparameters by expert."""
    kind = type(likelihood)
    if kind is Ordinal:
        thresholds = likelihood.thresholds()
        each = thresholds.shape[-1]
        return _GRADES, each + 1, 0.0, {"intercept": _each(thresholds, (experts, each))}
    intercept = np.asarray(likelihood.intercept, np.float64)
    if kind is Categorical and likelihood.num_classes > 2:
        J = likelihood.num_classes
        given = {"intercept": _each(intercept, (experts, J)), "contrasts": np.ascontiguousarray(contrasts(J))}
        return _CLASSES, J, 0.0, given
    if kind is Categorical:
        return _BINARY, 0, -SLOPE, {"intercept": _each(intercept[..., 1] - intercept[..., 0], (experts,))}
    found = {"intercept": _each(intercept, (experts,))}
    if kind is NegativeBinomial:
        found["dispersion"] = _each(np.asarray(likelihood.dispersion), (experts,))
        return _NEGATIVE_BINOMIAL, 0, 0.0, found
    return (_POISSON, 0, 0.0, found) if kind is Poisson else (_BINARY, 0, 1.0, found)


def _each(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(np.broadcast_to(values, shape), np.float64, order="C")


@cache
def _compiled() -> Any:
    """Return the kernel's `laplace_steps`; None where it was not built."""
    return function("laplace_steps", [ctypes.c_void_p, ctypes.c_int64], ctypes.c_int64)
