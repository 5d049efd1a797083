"""Mixtures of Student's t, many at a time: in NumPy, or in JAX within its transformations.

`streamgp.numerics.quantiles` finds their quantiles, `streamgp.numerics.crps` scores them.
"""

from collections.abc import Callable
from math import log, pi
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.numerics import student_t
from streamgp.numerics.arrays import AnyArray, namespace

# So many degrees of freedom give a Gaussian to all digits, where infinity cannot be used.
INFINITE_DOF = 1e20
_LOG_2PI = log(2.0 * pi)
_LEAST_VAR = 1e-12  # in units of the targets; the largest is its inverse


class Mixtures(NamedTuple):
    """One mixture a row; `dof` is finite, or None where all components are Gaussian.

    `log_norm` is the log density of each component at its own mean, `log_ratio` that of `student_t.log_gamma_ratio`.
    """

    weights: Float[AnyArray, "c k"]
    loc: Float[AnyArray, "c k"]
    var: Float[AnyArray, "c k"]
    dof: Float[AnyArray, "c k"] | None
    scale: Float[AnyArray, "c k"]
    log_norm: Float[AnyArray, "c k"]
    log_ratio: Float[AnyArray, "c k"] | None


class Values(NamedTuple):
    """Every component at a point: its distance in units of the scale, log density and distribution function."""

    t: Float[AnyArray, "c k"]
    log_density: Float[AnyArray, "c k"]
    below: Float[AnyArray, "c k"]


def flatten(
    log_weights: Float[AnyArray, "n k"],
    loc: Float[AnyArray, "n k e"],
    var: Float[AnyArray, "n k e"],
    dof: Float[AnyArray, "n k"] | None,
) -> Mixtures:
    """Return the mixtures of n rows and e outputs as n e of one output, those of a row side by side."""
    xp = namespace(log_weights, loc, var, *(() if dof is None else (dof,)))
    n, k, e = loc.shape

    def flat(a: AnyArray) -> AnyArray:
        if e == 1 and a.size == n * k:
            return a.reshape(n, k)
        a = a[:, :, None] if a.ndim == 2 else a
        return xp.moveaxis(xp.broadcast_to(a, (n, k, e)), 1, 2).reshape(n * e, k)

    weights, loc, var = flat(xp.exp(log_weights)), flat(loc), flat(var)
    if dof is None:
        return Mixtures(weights, loc, var, None, xp.sqrt(var), -0.5 * (_LOG_2PI + xp.log(var)), None)
    finite = xp.minimum(xp.asarray(dof), INFINITE_DOF)
    log_ratio, dof = flat(student_t.log_gamma_ratio(0.5 * finite)), flat(finite)
    scale2 = student_t.squared_scale(var, dof)
    return Mixtures(weights, loc, var, dof, xp.sqrt(scale2), log_ratio - 0.5 * (_LOG_2PI + xp.log(scale2)), log_ratio)


def evaluate(m: Mixtures, x: Float[AnyArray, " c"]) -> Values:
    """Evaluate every component of each mixture at the mixture's own point."""
    xp = namespace(m.loc, x)
    t = (x[:, None] - m.loc) / m.scale
    if m.dof is None:
        return Values(t, m.log_norm - 0.5 * t * t, student_t.ndtr(t))
    kernel = xp.log1p(t * t / m.dof)
    below = student_t.ndtr(xp.copysign(student_t.hill(kernel, m.dof), t))
    return Values(t, m.log_norm - (0.5 * m.dof + 0.5) * kernel, below)


def each(function: Callable[[Any], Any], m: Mixtures) -> Mixtures:
    """Return the mixtures with a function applied to each of their arrays: of few numbers faster than by JAX."""
    return Mixtures._make(None if a is None else function(a) for a in m)


def repeated(m: Mixtures, times: int) -> Mixtures:
    """Return the mixtures, all of them so many times one after the other, in NumPy."""
    return each(lambda a: np.concatenate([a] * times), m)


def log_sum(a: Float[AnyArray, "n k"]) -> Float[AnyArray, " n"]:
    """Return the log of the sum of exponentials over the components."""
    xp = namespace(a)
    top = a.max(1)
    return top + xp.log(xp.exp(a - top[:, None]).sum(1))


def cdf(m: Mixtures, at_y: Values) -> Float[AnyArray, " c"]:
    """Return the mixtures' distribution functions, from what `evaluate` returns at y."""
    return (m.weights * at_y.below).sum(1)


def moments(m: Mixtures) -> tuple[Float[AnyArray, " c"], Float[AnyArray, " c"]]:
    """Return mean and standard deviation of each mixture."""
    xp = namespace(m.loc)
    mean = (m.weights * m.loc).sum(1)
    return mean, xp.sqrt((m.weights * (m.var + xp.square(m.loc - mean[:, None]))).sum(1))


def moments_of_rows(
    weights: Float[AnyArray, "n k"], loc: Float[AnyArray, "n k e"], var: Float[AnyArray, "n k e"]
) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, "n e"]]:
    """Return mean and variance of each output of rows: within the components plus between their means."""
    weights = weights[:, :, None]
    mean = (weights * loc).sum(1)
    off = loc - mean[:, None]
    return mean, (weights * (var + off * off)).sum(1)


def log_std(variance: Float[AnyArray, "n e"]) -> Float[AnyArray, "n e"]:
    """Return the log of standard deviations, which is held within bounds; zero of what is no number."""
    xp = namespace(variance)
    known = xp.where(xp.isnan(variance), 1.0, variance)
    return 0.5 * xp.log(xp.minimum(xp.maximum(known, _LEAST_VAR), 1.0 / _LEAST_VAR))
