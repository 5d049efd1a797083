"""Student's t distribution by its mean and variance, smoothly up to the Gaussian (infinite degrees of freedom).

Degrees of freedom are at least `MIN_DOF`: so many have a variance, and their distribution function is met by
Hill's series within 2e-7 (4e-10 from 10 on, 1e-11 from 20 on).
"""

from math import log, pi, sqrt
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace, special

MIN_DOF = 5.0
_LOG_2PI = log(2.0 * pi)
_MIDDLE = 2.5
# Up to so many numbers, one call of SciPy takes less time than NumPy's calls for a polynomial.
_FEW = 1_000


def _mills_coefficients(degree: int) -> list[float]:
    """Compute the polynomial in t = (z - 2.5) / (z + 2.5) that interpolates Mills' ratio over all z >= 0."""
    chebyshev = np.polynomial.chebyshev
    t = chebyshev.chebpts1(degree + 1)
    mills = sqrt(0.5 * pi) * scipy.special.erfcx(_MIDDLE * (1.0 + t) / (1.0 - t) / sqrt(2.0))
    return chebyshev.cheb2poly(chebyshev.chebfit(t, mills, degree)).tolist()


# By the bytes of a number: to the digits that it holds.
_MILLS = {8: _mills_coefficients(20), 4: _mills_coefficients(8)}


def upper_tail(z: Float[AnyArray, "..."]) -> tuple[Float[AnyArray, "..."], Float[AnyArray, "..."]]:
    """Return the density of a standard normal at z >= 0, and the probability beyond: density times Mills' ratio."""
    xp = namespace(z)
    if xp is np and z.size <= _FEW and z.itemsize == 8:
        return np.exp(-0.5 * z * z) * (1.0 / sqrt(2.0 * pi)), scipy.special.ndtr(-z)
    t = 1.0 - (2.0 * _MIDDLE) / (z + _MIDDLE)
    first, *rest = reversed(_MILLS[z.dtype.itemsize])
    ratio = xp.full_like(t, first)
    for coefficient in rest:
        ratio *= t
        ratio += coefficient
    squares = z * z
    squares *= -0.5
    density = xp.exp(squares)
    density *= 1.0 / sqrt(2.0 * pi)
    ratio *= density
    return density, ratio


def ndtr(z: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return the distribution function of a standard normal, within 1e-13 (3e-7 in single precision)."""
    xp = namespace(z)
    if xp is np and z.size <= _FEW and z.itemsize == 8:
        return scipy.special.ndtr(z)
    above = (z > 0.0).astype(z.dtype)
    return above + (1.0 - 2.0 * above) * upper_tail(xp.abs(z))[1]


def ndtri(p: Float[AnyArray, "..."]) -> Any:
    """Return the quantile of a standard normal."""
    return special(p).ndtri(p)


def squared_scale(var: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return the squared scale of a t of variance `var`: var (dof - 2) / dof."""
    return var * (1.0 - 2.0 / dof)


def log_density(
    residual: Float[AnyArray, "..."], var: Float[AnyArray, "..."], dof: Float[AnyArray, "..."] | None
) -> Float[AnyArray, "..."]:
    """Return the log density of a t of variance `var`, `residual` from its mean; without `dof`, of a Gaussian."""
    if dof is None:
        xp = namespace(residual, var)
        return -0.5 * (_LOG_2PI + xp.log(var) + xp.square(residual) / var)
    xp = namespace(residual, var, dof)
    scale2 = squared_scale(var, dof)
    half = 0.5 * xp.where(xp.isinf(dof), 1.0, dof)
    squares = xp.square(residual) / scale2
    kernel = xp.where(xp.isinf(dof), 0.5 * squares, (half + 0.5) * xp.log1p(0.5 * squares / half))
    return log_gamma_ratio(0.5 * dof) - 0.5 * (_LOG_2PI + xp.log(scale2)) - kernel


def log_gamma_ratio(a: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2, a >= 1; a difference of logarithms would lose digits.

    Stirling's series at a + 8, where it is exact to 1e-13, and the recurrence of the Gamma function back to a.
    """
    xp = namespace(a)
    step = 1.0 / a  # a may be infinite
    inverse = step / (1.0 + 8.0 * step)
    square = inverse * inverse
    series = inverse * (-1.0 / 8.0 + square * (1.0 / 192.0 + square * (-1.0 / 640.0 + square * (17.0 / 14336.0))))
    above, below = 1.0 + 0.5 * step, 1.0
    for k in range(1, 8):
        above, below = above * (1.0 + (k + 0.5) * step), below * (1.0 + k * step)
    return series + xp.log(below / above * xp.sqrt(1.0 + 8.0 * step))


def normal_score(t: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return z with Phi(z) = Pr(T <= t) for a t of unit scale (Hill 1970, Algorithm 395)."""
    xp = namespace(t, dof)
    finite = xp.where(xp.isinf(dof), 1e8, dof)
    z = hill(xp.log1p(t * t / finite), finite)
    return xp.where(xp.isinf(dof), t, xp.copysign(z, t))


def hill(kernel: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return |z| with Phi(z) = Pr(T <= t), from log(1 + t^2 / dof) and finite `dof` (Hill 1970, Algorithm 395)."""
    xp = namespace(kernel, dof)
    a = dof - 0.5
    b = 48.0 * a * a
    y = a * kernel
    series = ((((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b) + y + 3.0) / b + 1.0
    return series * xp.sqrt(y)


def cdf(t: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Return Pr(T <= t) for a t of unit scale."""
    return ndtr(normal_score(t, dof))


def std_moments(dof: Float[AnyArray, "..."], log_ratio: Float[AnyArray, "..."]) -> list[Float[AnyArray, "..."]]:
    """Return E S^j for j = -3, ..., 2: a t of unit variance is a Gaussian whose standard deviation S is random.

    `log_ratio` is `log_gamma_ratio` of half the degrees of freedom.
    """
    xp = namespace(dof)
    inverse = 1.0 / dof
    half = xp.sqrt(1.0 - 2.0 * inverse)
    ratio = xp.exp(log_ratio) / half
    one = xp.ones_like(dof)
    first = half * half / (1.0 - inverse) * ratio
    return [ratio * (1.0 + inverse) / (half * half), 1.0 / (half * half), ratio, one, first, one]


def expected_distance(
    residual: Float[AnyArray, "..."],
    scale2: Float[AnyArray, "..."],
    dof: Float[AnyArray, "..."] | None,
    density: Float[AnyArray, "..."],
    below: Float[AnyArray, "..."],
) -> Float[AnyArray, "..."]:
    """Return E|X - x| at x = mean + `residual`, from the density there and Pr(X <= x): its integral by parts.

    `dof` is finite; without it, of a Gaussian.
    """
    if dof is not None:
        scale2 = (scale2 * dof + residual * residual) / (dof - 1.0)
    return residual * (2.0 * below - 1.0) + 2.0 * scale2 * density
