"""Integrals over Gaussian latent values that have no closed form."""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Int

from streamgp.numerics.linalg import add_diagonal, cholesky

# The number of points of an integral over several latent values.
POINTS = 64
# exp(-FALL) of the largest value of an integrand is where it is left off: under the rounding of its sum.
FALL = 37.0
# The variance of a latent value that is known. It is too small to affect any digit.
MIN_VARIANCE = 1e-24
# The smallest divisor, where the divisor may be zero.
_TINY = 1e-30
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
NODES, WEIGHTS = 0.5 * (1.0 + _NODES), 0.5 * _WEIGHTS
"""Gauss and Legendre's rule on [0, 1]."""


def log_logistic_normal(mean: Float[Array, ""], var: Float[Array, ""]) -> Float[Array, " 2"]:
    """Compute log E[1 / (1 + exp(f))] and log E[1 / (1 + exp(-f))], f ~ N(mean, var): of a zero and of a one.

    The logistic function is a step at zero, whose integral is a probit, and what it lacks of the step, which is
    1 / (1 + exp(|f|)). With m = -mean > 0 the lack adds, over t > 0, (N(t; m, s) - N(t; -m, s)) / (1 + exp(t)): a
    smooth bump on one side of zero, for 64 nodes of Gauss and Legendre, and all of its terms are positive. So tails
    keep their digits: within 1e-13, relatively, for means in
    [-1000, 1000] and variances in [1e-12, 1e8]. The other outcome is the complement.
    """
    m, s = jnp.abs(mean), jnp.maximum(var, MIN_VARIANCE)
    root = jnp.sqrt(s)
    # The bump, from t = m on, is exp(-t - (t - m)^2 / (2 s)) at most. Right of m - s it falls like a Gaussian; if
    # that is left of zero, from zero on, faster.
    reach = np.sqrt(2.0 * FALL) * root
    slope = jnp.maximum(1.0 - m / s, 0.0)
    low = jnp.maximum(-m, -s - reach)
    high = jnp.where(m > s, reach - s, 2.0 * FALL / (slope + jnp.sqrt(slope**2 + 2.0 * FALL / s)) - m)
    d = low + (high - low) * NODES.astype(m.dtype)
    t = jnp.maximum(m + d, 0.0)
    log_bump = jax.nn.log_sigmoid(-t) - 0.5 * d * d / s - jnp.log(root) - 0.5 * np.log(2.0 * np.pi)
    log_step = log_ndtr(-m / root)
    top = jax.lax.stop_gradient(jnp.maximum(log_step, log_bump.max()))
    share = -jnp.expm1(-2.0 * m * t / s) * jnp.exp(log_bump - top) @ WEIGHTS.astype(m.dtype)
    log_tail = jnp.minimum(top + jnp.log(jnp.exp(log_step - top) + (high - low) * share), -np.log(2.0))
    tail_first = jnp.stack([log_tail, jnp.log1p(-jnp.exp(log_tail))])
    return jnp.where(mean > 0.0, tail_first, tail_first[::-1])


def log_integral(
    log_g: Callable[[Array], Array], mode: Float[Array, ""], mean: Float[Array, ""], var: Float[Array, ""]
) -> Float[Array, ""]:
    """Compute the log of the integral of g(f) N(f; mean, var), g log-concave; `mode` is the product's mode.

    On either side of the mode, from there to where the product has fallen by exp(-37), Gauss and Legendre's rule.
    The place is found by bisection: it is no further away than the Gaussian alone would have it.
    """
    s = jnp.maximum(var, MIN_VARIANCE)
    reach = np.sqrt(2.0 * FALL) * jnp.sqrt(s)

    def log_ratio(d: Array) -> Array:
        # Above one only by the error of the mode, which may be many times the width if the prior is extremely narrow.
        return jnp.minimum(log_g(mode + d) - log_g(mode) - (d * (0.5 * d + (mode - mean))) / s, FALL)

    def side(sign: float) -> Array:
        def narrow(_: Array, powers: tuple) -> tuple:
            low, high = powers
            middle = 0.5 * (low + high)
            fallen = ~(log_ratio(sign * reach * jnp.exp2(middle)) > -FALL)
            return jnp.where(fallen, low, middle), jnp.where(fallen, middle, high)

        ends = jnp.full_like(s, -48.0), jnp.zeros_like(s)
        end = reach * jnp.exp2(jax.lax.fori_loop(0, 10, narrow, ends)[1])
        return end * jnp.exp(jax.vmap(log_ratio)(sign * end * NODES.astype(s.dtype))) @ WEIGHTS.astype(s.dtype)

    peak = log_g(mode) - 0.5 * (mode - mean) ** 2 / s - 0.5 * jnp.log(2.0 * np.pi * s)
    return peak + jnp.log(side(-1.0) + side(1.0))


def log_softmax_normal(
    mean: Float[Array, " k"], cov: Float[Array, "c c"], contrasts: Float[Array, "c k"]
) -> Float[Array, " k"]:
    """Compute log E softmax(f), f = mean + contrasts' g with g ~ N(0, cov); they sum to one.

    Each class has the 64 points of `normal_points` around the mode of its own integrand, where g = root z and z is
    N(0, I) a priori, weighed by the ratio of that to N(mode, I). The softmax is log-concave, so no term is larger
    than that at the mode: no point outweighs the others, and a class that few points around the mean would reach
    keeps its probability. At last the probabilities are made to sum to one.

    Against 40,000 random points, in forty problems of 3 to 20 classes, the largest error of a probability was 4e-5
    for variances around 0.1, 0.002 around 1, 0.02 around 10, and 0.05 from 100 on (a third on average); of
    the log of a probability above 0.01 it was 2e-4, 0.03, 0.3 and 0.9. Points around the mean would do half as well
    in the first respect, and miss the log by up to ten from variances of 100 on.
    """
    # Latent values of no variance, or that are copies of each other, have a root as well.
    root = contrasts.T @ cholesky(add_diagonal(cov, 1e-12 * jnp.diagonal(cov).mean() + MIN_VARIANCE))
    points = jnp.asarray(normal_points(len(cov)), mean.dtype)

    def log_probability(k: Int[Array, ""]) -> Float[Array, ""]:
        mode = _softmax_mode(mean, root, k)
        f = (mean + root @ mode)[None] + points @ root.T
        terms = jax.nn.log_softmax(f, axis=1)[:, k] - points @ mode
        return jax.nn.logsumexp(terms) - 0.5 * mode @ mode

    return jax.nn.log_softmax(jax.vmap(log_probability)(jnp.arange(len(mean))))


def _softmax_mode(mean: Float[Array, " k"], root: Float[Array, "k c"], k: Int[Array, ""]) -> Float[Array, " c"]:
    """Find about where softmax(mean + root z)_k N(z; 0, I) is largest.

    Whatever it is, the integral around it is right; nearer the mode it has less error. To begin with, the nearest
    points where f_k is no less than its strongest rival; then Newton's steps along conjugate gradients, damped by
    how far they move f, so that each gains (Sun and Tran-Dinh 2019, Theorem 2, with nu = 2).
    """
    one = jax.nn.one_hot(k, len(mean), dtype=mean.dtype)

    def project(_: Array, z: Array) -> Array:
        f = mean + root @ z
        rival = jnp.argmax(jnp.where(one > 0.0, -jnp.inf, f))
        along = root[k] - root[rival]
        return z + jnp.clip((f[rival] - f[k]) / (along @ along), 0.0, 1.0) * along

    def newton(_: Array, z: Array) -> Array:
        p = jax.nn.softmax(mean + root @ z)

        def curve(v: Array) -> Array:
            moved = root @ v
            return v + (p * (moved - p @ moved)) @ root

        residual = (one - p) @ root - z
        step, along, squares = jnp.zeros_like(z), residual, residual @ residual
        for _steps in range(min(len(z), 4)):
            curved = curve(along)
            length = squares / jnp.maximum(along @ curved, _TINY)
            step, residual = step + length * along, residual - length * curved
            squares, before = residual @ residual, squares
            along = residual + squares / jnp.maximum(before, _TINY) * along
        reach = jnp.ptp(root @ step) + _TINY
        return z + jnp.log1p(reach) / reach * step

    start = jax.lax.fori_loop(0, 3, project, jnp.zeros_like(root[0]))
    return jax.lax.fori_loop(0, 6, newton, start)


@lru_cache
def normal_points(dim: int) -> Float[np.ndarray, "p c"]:
    """Return points that stand for N(0, I): Richtmyer's lattice and its opposite, of exact mean and covariance."""
    primes = [p for p in range(2, 10 * dim + 10) if all(p % q for q in range(2, p))][:dim]
    u = np.outer(np.arange(1, POINTS // 2 + 1), np.sqrt(primes)) % 1.0
    z = scipy.special.ndtri(u)
    z = np.concatenate([z, -z])
    return np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T).T
