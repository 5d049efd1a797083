"""Student's t distribution by its mean and variance, smoothly up to the Gaussian (infinite degrees of freedom).

Degrees of freedom are at least `LEAST_DOF`: so many have a variance, and their distribution function is met by
Hill's series within 2e-7 (4e-10 from 10 on, 1e-11 from 20 on).
"""

from math import log, pi

import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Float

from streamgp.arrays import AnyArray, namespace

LEAST_DOF = 5.0
_LOG_2PI = log(2.0 * pi)


def squared_scale(var: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """The squared scale of a t of variance `var`: var (dof - 2) / dof."""
    return var * (1.0 - 2.0 / dof)


def log_density(
    residual: Float[AnyArray, "..."], var: Float[AnyArray, "..."], dof: Float[AnyArray, "..."] | None
) -> Float[AnyArray, "..."]:
    """Log density of a t of variance `var` at a distance `residual` from its mean; without `dof`, of a Gaussian."""
    if dof is None:
        xp = namespace(residual, var)
        return -0.5 * (_LOG_2PI + xp.log(var) + xp.square(residual) / var)
    xp = namespace(residual, var, dof)
    scale2 = squared_scale(var, dof)
    half = 0.5 * xp.where(xp.isinf(dof), 1.0, dof)
    squares = xp.square(residual) / scale2
    kernel = xp.where(xp.isinf(dof), 0.5 * squares, (half + 0.5) * xp.log1p(0.5 * squares / half))
    return _log_gamma_ratio(0.5 * dof) - 0.5 * (_LOG_2PI + xp.log(scale2)) - kernel


def _log_gamma_ratio(a: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2, for a >= 1; the difference of two logarithms would lose digits.

    Stirling's series at a + 8, where it is exact to 1e-13, and the recurrence of the Gamma function back to a.
    """
    xp = namespace(a)
    far = a + 8.0
    inverse = 1.0 / far
    square = inverse * inverse
    series = inverse * (-1.0 / 8.0 + square * (1.0 / 192.0 + square * (-1.0 / 640.0 + square * (17.0 / 14336.0))))
    shifted = 0.5 * xp.log1p(8.0 / a) + series
    for k in range(8):
        shifted = shifted - xp.log1p(0.5 / (a + k))
    return shifted


def normal_score(t: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """z with Phi(z) = Pr(T <= t) for a t of unit scale (Hill 1970, Algorithm 395)."""
    finite = jnp.where(jnp.isinf(dof), 1e8, dof)
    a = finite - 0.5
    b = 48.0 * a * a
    y = a * jnp.log1p(t * t / finite)
    series = ((((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b) + y + 3.0) / b + 1.0
    return jnp.where(jnp.isinf(dof), t, jnp.sign(t) * series * jnp.sqrt(y))


def cdf(t: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
    """Pr(T <= t) for a t of unit scale."""
    return ndtr(normal_score(t, dof))


def expected_distance(
    mean: Float[AnyArray, "..."], var: Float[AnyArray, "..."], dof: Float[AnyArray, "..."]
) -> Float[AnyArray, "..."]:
    """E|X| of a t with this mean and variance (the integral by parts of its distribution function)."""
    scale = jnp.sqrt(squared_scale(var, dof))
    z = mean / scale
    density = jnp.exp(log_density(z, 1.0 / (1.0 - 2.0 / dof), dof))
    spread = jnp.where(jnp.isinf(dof), 1.0, (dof + z * z) / (dof - 1.0))
    return mean * (2.0 * cdf(z, dof) - 1.0) + 2.0 * scale * density * spread
