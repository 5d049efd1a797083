"""Quantiles of mixtures of Student's t, by Halley's method inside a shrinking bracket."""

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.mixtures import Mixtures, each, evaluate, moments
from streamgp.numerics.native import addresses, function
from streamgp.numerics.student_t import ndtri

_TOLERANCE = 1e-12
# The search in double precision starts where one in single precision, with this tolerance, ends.
_ROUGH_TOLERANCE = 1e-4
_MAX_STEPS = 100
# The kernel in C finds those of mixtures of so many components together at most; of more, NumPy's vectors are faster.
_FEW = 2_500


class _Search(NamedTuple):
    """Bracket of the quantile, the last point tried, and whether it is found."""

    low: Float[AnyArray, " c"]
    high: Float[AnyArray, " c"]
    x: Float[AnyArray, " c"]
    found: AnyArray


def mixture_quantiles(m: Mixtures, probabilities: Sequence[Any]) -> list[Float[AnyArray, " c"]]:
    """Return the points at which the distribution functions reach each of the probabilities, to 1e-9 of the scale.

    A probability is a number for all mixtures, or an array with one for each.
    """
    xp = namespace(m.loc)
    mean, std = moments(m)
    if xp is np and m.loc.size <= _FEW and mean.dtype == np.float64 and _compiled() is not None:
        return [_by_kernel(m, mean, std, probability) for probability in probabilities]
    rough = _standardised(m, mean, std) if xp is np else None
    found = []
    for probability in probabilities:
        probability = xp.broadcast_to(xp.asarray(probability, mean.dtype), mean.shape)
        # No distribution has its quantile further from the mean (Cantelli's inequality).
        low, high = -xp.sqrt((1.0 - probability) / probability), xp.sqrt(probability / (1.0 - probability))
        aim = ndtri(probability)
        start = xp.clip(aim, low, high)
        if rough is not None:
            sides = [side.astype(np.float32) for side in (low, high, start, probability, aim)]
            search = _Search(*sides[:3], found=np.zeros(start.shape, bool))
            start = _find(rough, search, sides[3], sides[4], _ROUGH_TOLERANCE).astype(start.dtype)
        search = _Search(mean + std * low, mean + std * high, mean + std * start, xp.zeros(mean.shape, bool))
        found.append((_find if xp is np else _find_traced)(m, search, probability, aim))
    return found


def _by_kernel(
    m: Mixtures, mean: Float[np.ndarray, " c"], std: Float[np.ndarray, " c"], probability: Any
) -> Float[np.ndarray, " c"]:
    p, found = np.array(np.broadcast_to(probability, mean.shape), np.float64), np.empty(mean.shape)
    parts = m.weights, m.loc, m.scale, m.dof, m.log_norm, mean, std, p
    given = [None if a is None else np.ascontiguousarray(a, np.float64) for a in parts]
    _compiled()(*m.loc.shape, *addresses(*given), _TOLERANCE, *addresses(found))
    return found


@cache
def _compiled() -> Any:
    """Return the kernel's `mixture_quantiles`; None where it was not built."""
    count, at = ctypes.c_int64, ctypes.c_void_p
    return function("mixture_quantiles", [count, count, *[at] * 8, ctypes.c_double, at])


def _standardised(m: Mixtures, mean: Float[AnyArray, " c"], std: Float[AnyArray, " c"]) -> Mixtures:
    """Return the mixtures with mean zero and variance one, in single precision: a step there costs a third."""
    unit = std[:, None]
    moved = m._replace(
        loc=(m.loc - mean[:, None]) / unit,
        var=m.var / (unit * unit),
        scale=m.scale / unit,
        log_norm=m.log_norm + np.log(unit),
    )
    return each(lambda a: a.astype(np.float32), moved)


def _find(
    m: Mixtures, search: _Search, probability: Any, aim: Any, tolerance: float = _TOLERANCE
) -> Float[np.ndarray, " c"]:
    """Search in NumPy, going on with the rows that are not found yet."""
    result, rows = np.empty_like(search.x), np.arange(len(search.x))
    with np.errstate(all="ignore"):
        for _ in range(_MAX_STEPS):
            search = _halley(m, search, probability, aim, tolerance)
            result[rows] = search.x
            going = ~search.found
            if not going.any():
                break
            # Few rows need more than two or three steps.
            rows, search = rows[going], _Search(*(a[going] for a in search))
            probability, aim = probability[going], aim[going]
            m = each(lambda a, going=going: a[going], m)
    return result


def _find_traced(m: Mixtures, search: _Search, probability: Any, aim: Any) -> Float[AnyArray, " c"]:
    """Search in JAX, with all rows until the last is found."""

    def step(carry: tuple) -> tuple:
        return _halley(m, carry[0], probability, aim), carry[1] + 1

    def going(carry: tuple) -> AnyArray:
        return ~carry[0].found.all() & (carry[1] < _MAX_STEPS)

    return sys.modules["jax"].lax.while_loop(going, step, (search, 0))[0].x


def _halley(m: Mixtures, search: _Search, probability: Any, aim: Any, tolerance: float = _TOLERANCE) -> _Search:
    """Take one step of Halley's method on the normal score of the distribution function, which is nearly a line.

    Where it leaves the bracket, the bracket is halved.
    """
    xp = namespace(m.loc)
    low, high, x, found = search
    values = evaluate(m, x)
    densities = m.weights * xp.exp(values.log_density)
    pull = values.t / m.scale
    if m.dof is not None:
        pull = pull * (m.dof + 1.0) / (m.dof + values.t * values.t)
    below, density, slope = (m.weights * values.below).sum(1), densities.sum(1), -(densities * pull).sum(1)
    low, high = xp.where(below <= probability, x, low), xp.where(below >= probability, x, high)
    score = ndtri(below)
    normal = xp.exp(-0.5 * score * score) / sqrt(2.0 * pi)
    rate = density / normal
    newton = (aim - score) / rate
    bend = 0.5 * newton * (slope / density + score * rate)
    moved = x + newton / xp.clip(1.0 + bend, 0.5, 2.0)
    # What a step leaves is of the third order.
    left = xp.abs(newton * rate) * (bend * bend + xp.square(newton * rate))
    inside = (moved > low) & (moved < high)
    closed = high - low <= 4.0 * xp.finfo(x.dtype).eps * xp.maximum(xp.abs(low), xp.abs(high))
    exact = xp.abs(newton) <= 4.0 * xp.finfo(x.dtype).eps * xp.abs(x)
    moved = xp.where(inside, moved, xp.where(exact, x, 0.5 * (low + high)))
    now = (inside & (left <= tolerance)) | closed | exact
    return _Search(low, high, xp.where(found, x, moved), found | now)
