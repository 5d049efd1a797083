"""Recalibration of a mixture's distribution functions: a map of their levels.

Where errors have a sharper peak and longer tails than any expert expects, the middle of the mixture is too wide,
though its variance is right. The level u = F(y) at which targets come (the probability integral transform) shows it.
The normal score z of u is multiplied by one of six factors s, of unknown shares v:

    G(u) = sum_j v_j Phi(z / s_j),   z = Phi^-1(u)

and the recalibrated distribution is G(F(y)) (Kuleshov, Fenner and Ermon 2018, who fit such a map once). A factor of
1 changes nothing. `streamgp.likelihoods.recalibration_by_spread` learns the shares.

Scores beyond `EDGE` are few and hardly computable, so that G goes on in a line in u from there: a distribution
function still, with a density everywhere.
"""

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.native import address, addresses, function
from streamgp.numerics.student_t import ndtr, ndtri

STD_FACTORS = np.array([0.2, 0.4, 0.7, 1.0, 1.5, 2.5])
FACTOR_ONE = (STD_FACTORS == 1.0).astype(float)  # the shares that change nothing
EDGE = 4.0
MIN_LEVEL = float(scipy.special.ndtr(-EDGE))
_STEPS = 60
# After a Newton step in the score as small as this, the error is of the order of its square.
_CONVERGED = 1e-9
_SAME = int(FACTOR_ONE.argmax())
_GRID = np.linspace(-EDGE, EDGE, 1025)


def below(v: Float[AnyArray, "*#batch j"], u: Float[AnyArray, "*#batch"]) -> AnyArray:
    """Return G(u), from the shares `v`."""
    xp = namespace(v, u)
    side = xp.minimum(u, 1.0 - u)  # G is symmetric; small levels have all their digits
    inner = (v * ndtr(_stretched(scores(side)))).sum(-1)
    lower = xp.where(side < MIN_LEVEL, side * _edge_density(v), inner)
    return xp.where(u > 0.5, 1.0 - lower, lower)


def log_density(v: Float[AnyArray, "*#batch j"], u: Float[AnyArray, "*#batch"]) -> AnyArray:
    """Return log g(u), by which the log density of the mixture is raised."""
    xp = namespace(v, u)
    inner = (v * densities(scores(u))).sum(-1)
    return xp.log(xp.where(xp.abs(u - 0.5) > 0.5 - MIN_LEVEL, _edge_density(v), inner))


def level(v: Float[AnyArray, "*#batch j"], p: Float[AnyArray, "*#batch"]) -> AnyArray:
    """Return the u with G(u) = p: the mixture's quantile of it is the recalibrated quantile of p."""
    xp = namespace(v, p)
    if xp is np and (compiled := _compiled_level()) is not None:
        return _level_by_kernel(compiled, v, p)
    side = xp.minimum(p, 1.0 - p)
    aim, near = ndtri(side), ndtri(xp.maximum(side, MIN_LEVEL * 1e-3))

    def newton(_: Any, search: tuple[AnyArray, AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray, AnyArray]:
        low, high, z = search
        t = _stretched(z)
        under = (v * ndtr(t)).sum(-1)
        low, high = xp.where(under <= side, z, low), xp.where(under >= side, z, high)
        score = ndtri(under)  # nearly a line in z
        slope = (v * _normal(t) / _factors(t)).sum(-1) / _normal(score)
        moved = z + (aim - score) / slope
        good = ((moved >= low) & (moved <= high)) | (xp.abs(moved - z) <= _CONVERGED * xp.abs(z))
        return low, high, xp.where(good, moved, 0.5 * (low + high))

    # Both ends are negative or zero, and the score is in between.
    search = near * STD_FACTORS[-1], near * STD_FACTORS[0], near * xp.sqrt(variance_factor(v))
    if xp is not np:
        search = sys.modules["jax"].lax.fori_loop(
            0, _STEPS, newton, tuple(xp.broadcast_to(a, search[2].shape) for a in search)
        )
    else:
        with np.errstate(all="ignore"):
            for step in range(_STEPS):
                before, search = search[2], newton(step, search)
                if np.all(np.abs(search[2] - before) <= _CONVERGED * np.abs(before)):
                    break
    inner = ndtr(search[2])
    lower = xp.where(side < MIN_LEVEL * _edge_density(v), side / _edge_density(v), inner)
    return xp.where(p > 0.5, 1.0 - lower, lower)


def _level_by_kernel(compiled: Any, v: Float[np.ndarray, "*#batch j"], p: Float[np.ndarray, "*#batch"]) -> np.ndarray:
    shape = np.broadcast_shapes(v.shape[:-1], np.shape(p))
    shares = np.array(np.broadcast_to(v, (*shape, v.shape[-1])), np.float64, order="C")
    levels, found = np.array(np.broadcast_to(p, shape), np.float64, order="C"), np.empty(shape)
    constants = len(STD_FACTORS), address(STD_FACTORS), MIN_LEVEL, _CONVERGED, EDGE
    compiled(found.size, *constants, *addresses(shares, levels, found))
    return found


@cache
def _compiled_level() -> Any:
    """Return the kernel's `recalibrated_levels`; None where it was not built."""
    count, at, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
    return function("recalibrated_levels", [count, count, at, number, number, number, at, at, at])


def variance_factor(v: Float[AnyArray, "*batch j"]) -> Float[AnyArray, "*batch"]:
    """Return the factor by which the variance of a normal distribution grows."""
    return (v * _factors(v) ** 2).sum(-1)


def _edge_density(v: Float[AnyArray, "*batch j"]) -> Float[AnyArray, "*batch"]:
    """Return g beyond the edge."""
    return (v * scipy.special.ndtr(-EDGE / _factors(v))).sum(-1) / MIN_LEVEL


def scores(u: Float[AnyArray, "*batch"]) -> Float[AnyArray, "*batch"]:
    """Return normal scores within the edges."""
    return ndtri(namespace(u).clip(u, MIN_LEVEL, 1.0 - MIN_LEVEL))


def densities(z: Float[AnyArray, "*batch"]) -> Float[AnyArray, "*batch j"]:
    """Return the density of a score stretched by each factor, over that of the score itself."""
    half_square = 0.5 * (z * z)[..., None]
    s = _factors(half_square)
    return namespace(z).exp(half_square * (1.0 - s**-2.0)) / s


def _stretched(z: Float[AnyArray, "*batch"]) -> Float[AnyArray, "*batch j"]:
    """Return a score over each factor."""
    z = z[..., None]
    return z / _factors(z)


def _factors(like: AnyArray) -> Float[np.ndarray, "..."]:
    """Return `STD_FACTORS` along the last of as many axes."""
    return STD_FACTORS.reshape((1,) * (like.ndim - 1) + (-1,))


def _normal(z: AnyArray) -> AnyArray:
    return namespace(z).exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def crps_change(
    v: Float[AnyArray, "c j"],
    levels: Sequence[Float[AnyArray, " c"]],
    quantiles: Sequence[Float[AnyArray, " c"]],
    y: Float[AnyArray, " c"],
    u_y: Float[AnyArray, " c"],
) -> Float[AnyArray, " c"]:
    """Compute by how much recalibration changes the CRPS of mixtures at `y`, where they have the level `u_y`.

    The CRPS is the integral of (F(x) - 1[x >= y])^2, so that the change is that of G^2 - F^2, less twice that of
    G - F above y. As a function of the normal score of F, x is taken for a line between some `quantiles` of the
    mixtures, given with their `levels`, and y; G and F themselves are exact within the edges.
    """
    xp = namespace(v, *levels, *quantiles, y, u_y)
    inside = xp.abs(u_y - 0.5) < 0.5 - MIN_LEVEL
    z = scores(xp.stack([*levels, xp.where(inside, u_y, levels[0])], axis=1))
    x = xp.stack([*quantiles, xp.where(inside, y, quantiles[0])], axis=1)
    order = xp.argsort(z, axis=1)
    z, x = xp.take_along_axis(z, order, axis=1), xp.take_along_axis(x, order, axis=1)
    width = xp.diff(z, axis=1)
    slopes = xp.diff(x, axis=1) / xp.where(width > 0.0, width, xp.inf)
    ends = xp.full_like(z[:, :1], EDGE)
    # The outermost lines extend to the edges.
    z = xp.concatenate([-ends, z[:, 1:-1], ends], axis=1)
    above = xp.maximum(z, scores(u_y)[:, None])
    change = xp.diff(_squares(v, z), axis=1) - 2.0 * xp.diff(_excess(v, above), axis=1)
    return (slopes * change).sum(1)


def _excess(v: Float[AnyArray, "c j"], z: Float[AnyArray, "c m"]) -> Float[AnyArray, "c m"]:
    """Return the integral of G - F over scores, up to `z`."""
    t = _stretched(z)
    parts = _factors(t) * (t * ndtr(t) + _normal(t))
    return (v[:, None] * parts).sum(-1) - parts[..., _SAME]


def _squares(v: Float[AnyArray, "c j"], z: Float[AnyArray, "c m"]) -> Float[AnyArray, "c m"]:
    """Return the integral of G^2 - F^2 over scores, up to `z`: from a table of that of each pair of factors."""
    xp = namespace(v, z)
    pairs = xp.asarray(_PAIRS)
    at = (z + EDGE) / (2.0 * EDGE) * (len(_PAIRS) - 1)
    low = xp.clip(xp.floor(at).astype(int), 0, len(_PAIRS) - 2)
    part = (at - low)[..., None, None]
    table = (1.0 - part) * pairs[low] + part * pairs[low + 1]
    return xp.einsum("ci,cmij,cj->cm", v, table, v) - table[..., _SAME, _SAME]


def _table() -> Float[np.ndarray, "g j j"]:
    below = scipy.special.ndtr(_GRID[:, None] / STD_FACTORS)
    products = below[:, :, None] * below[:, None, :]
    return _cumulative(products, _GRID[1] - _GRID[0])


def _cumulative(values: Float[np.ndarray, "g j j"], step: float) -> Float[np.ndarray, "g j j"]:
    """Return integrals from the first point of an even grid to each, by Simpson's rule on three points at a time."""
    left, middle, right = values[:-2:2], values[1:-1:2], values[2::2]
    parts = np.empty((len(values) - 1, *values.shape[1:]))
    parts[::2] = (5.0 * left + 8.0 * middle - right) * (step / 12.0)
    parts[1::2] = (5.0 * right + 8.0 * middle - left) * (step / 12.0)
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(parts, axis=0)])


_PAIRS = _table()
