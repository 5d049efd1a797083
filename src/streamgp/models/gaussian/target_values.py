"""What every expert says of the targets that came: their log densities and levels, from one pass."""

import ctypes
from functools import cache
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics import student_t
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.mixtures import INFINITE_DOF
from streamgp.numerics.native import addresses, function

_LOG_2PI = log(2.0 * pi)


def target_values(
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
    dof: Float[AnyArray, "n k"] | None,
    y: Float[AnyArray, "n e"],
    kinds: int = 1,
) -> tuple[Float[AnyArray, "n k e"], Float[AnyArray, "n k e"]]:
    """Return the log density and the distribution function of each target, under each expert; NaN of missing ones.

    Parameters
    ----------
    loc, var, dof
        Mean, variance and degrees of freedom (None: Gaussian) of the experts.
    y
        The targets.
    kinds
        The degrees of freedom are those of so many kinds of noise, again and again.
    """
    if (found := _by_kernel(loc, var, dof, y, kinds, True)) is not None:
        return found
    xp = namespace(loc, var, y)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if dof is None:
            z = (y[:, None] - loc) / xp.sqrt(var)
            return -0.5 * (_LOG_2PI + xp.log(var)) - 0.5 * z * z, student_t.ndtr(z)
        finite = xp.minimum(dof[:, :kinds], INFINITE_DOF)
        rest = _of_experts(student_t.log_gamma_ratio(0.5 * finite) - 0.5 * _LOG_2PI, dof)
        error, scale2, kernel, finite = _standardised(loc, var, dof, y, kinds)
        log_density = rest - 0.5 * xp.log(scale2) - (0.5 * finite + 0.5) * kernel
        return log_density, student_t.ndtr(xp.copysign(student_t.hill(kernel, finite), error))


def target_levels(
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
    dof: Float[AnyArray, "n k"] | None,
    y: Float[AnyArray, "n e"],
    kinds: int = 1,
) -> Float[AnyArray, "n k e"]:
    """Return the distribution function of each target alone, as `target_values` does."""
    if (found := _by_kernel(loc, var, dof, y, kinds, False)) is not None:
        return found[1]
    xp = namespace(loc, var, y)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if dof is None:
            return student_t.ndtr((y[:, None] - loc) / xp.sqrt(var))
        error, _, kernel, finite = _standardised(loc, var, dof, y, kinds)
        return student_t.ndtr(xp.copysign(student_t.hill(kernel, finite), error))


def _by_kernel(loc: Any, var: Any, dof: Any, y: Any, kinds: int, with_density: bool) -> tuple[Any, Any] | None:
    """Return both from the kernel, the density if asked for; None where it was not built, or for other arrays."""
    compiled = _compiled()
    if compiled is None or namespace(loc, var, y) is not np or not loc.dtype == var.dtype == y.dtype == np.float64:
        return None
    loc, var, y = (np.ascontiguousarray(a) for a in (loc, var, y))
    dof = None if dof is None else np.ascontiguousarray(dof, np.float64)
    density, below = np.empty(loc.shape) if with_density else None, np.empty(loc.shape)
    compiled(*loc.shape, kinds, *addresses(loc, var, dof, y, density, below))
    return density, below


@cache
def _compiled() -> Any:
    count, at = ctypes.c_int64, ctypes.c_void_p
    return function("target_values", [count] * 4 + [at] * 6)


def _of_experts(of_kinds: Float[AnyArray, "n j"], dof: Float[AnyArray, "n k"]) -> Float[AnyArray, "n k 1"]:
    """Repeat what belongs to the kinds of noise for every filter."""
    return namespace(of_kinds).tile(of_kinds, (1, dof.shape[1] // of_kinds.shape[1]))[:, :, None]


def _standardised(loc: AnyArray, var: AnyArray, dof: AnyArray, y: AnyArray, kinds: int) -> tuple[Any, Any, Any, Any]:
    """Return errors, squared scales, log(1 + t^2 / dof) and finite degrees of freedom."""
    xp = namespace(loc, var, y)
    finite = _of_experts(xp.minimum(dof[:, :kinds], INFINITE_DOF), dof)
    error, scale2 = y[:, None] - loc, student_t.squared_scale(var, finite)
    return error, scale2, xp.log1p(error * error / (scale2 * finite)), finite


def mixed_levels(log_weights: Float[AnyArray, "n k"], below: Float[AnyArray, "n k e"]) -> Float[AnyArray, "n e"]:
    """Return the levels of targets under the mixture, from those under its experts, of which NaN has no weight."""
    xp = namespace(log_weights, below)
    return (xp.exp(log_weights)[:, :, None] * xp.where(xp.isfinite(below), below, 0.0)).sum(1)
