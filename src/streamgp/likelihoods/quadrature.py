"""Integrals over Gaussian latent values that have no closed form, of many at once."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float
from scipy.special import log_ndtr

from streamgp.likelihoods.base import Values
from streamgp.numerics.arrays import logsumexp

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
# Numbers whose exponential is a number, and whose product with another such is one.
_SAFE = 300.0


def log_logistic_normal(mean: Float[Values, "..."], var: Float[Values, "..."]) -> Float[Values, "... 2"]:
    """Compute log E[1 / (1 + exp(f))] and log E[1 / (1 + exp(-f))], f ~ N(mean, var): of a zero and of a one.

    The logistic function is a step at zero, whose integral is a probit, and what it lacks of the step, which is
    1 / (1 + exp(|f|)). With m = -mean > 0 the lack adds, over t > 0, (N(t; m, s) - N(t; -m, s)) / (1 + exp(t)): a
    smooth bump on one side of zero, for 64 nodes of Gauss and Legendre, and all of its terms are positive. So tails
    keep their digits: within 1e-13, relatively, for means in
    [-1000, 1000] and variances in [1e-12, 1e8]. The other outcome is the complement.
    """
    m, s = np.abs(mean), np.maximum(var, MIN_VARIANCE)
    root = np.sqrt(s)
    # The bump, from t = m on, is exp(-t - (t - m)^2 / (2 s)) at most. Right of m - s it falls like a Gaussian; if
    # that is left of zero, from zero on, faster.
    reach = np.sqrt(2.0 * FALL) * root
    slope = np.maximum(1.0 - m / s, 0.0)
    low = np.maximum(-m, -s - reach)
    high = np.where(m > s, reach - s, 2.0 * FALL / (slope + np.sqrt(slope**2 + 2.0 * FALL / s)) - m)
    d = low[..., None] + (high - low)[..., None] * NODES
    t = np.maximum(m[..., None] + d, 0.0)
    exponent = d * d
    exponent *= (-0.5 / s)[..., None]
    exponent -= t
    log_step = log_ndtr(-m / root)
    log_norm = np.log(root) + 0.5 * np.log(2.0 * np.pi)
    top = np.maximum(log_step, exponent.max(-1) - log_norm)
    exponent -= (top + log_norm)[..., None]
    with np.errstate(under="ignore"):
        share = np.exp(exponent, out=exponent)
        share /= 1.0 + np.exp(-t)
        t *= (-2.0 * m / s)[..., None]
        share *= np.expm1(t, out=t)
        log_tail = top + np.log(np.exp(log_step - top) - (high - low) * (share @ WEIGHTS))
    log_tail = np.minimum(log_tail, -np.log(2.0))
    log_other = np.log1p(-np.exp(log_tail))
    is_positive = mean > 0.0
    first = np.where(is_positive, log_tail, log_other)
    return np.stack([first, np.where(is_positive, log_other, log_tail)], axis=-1)


def log_integral(
    log_g: Callable[[Any], Any],
    mode: Float[Values, "..."],
    mean: Float[Values, "..."],
    var: Float[Values, "..."],
) -> Float[Values, "..."]:
    """Compute the log of the integral of g(f) N(f; mean, var), g log-concave; `mode` is the product's mode.

    `log_g` takes the f of all integrals, with a last axis for several of each. On either side of the mode, from there
    to where the product has fallen by exp(-37), Gauss and Legendre's rule. The place is found by bisection: it is no
    further away than the Gaussian alone would have it.
    """
    s = np.maximum(var, MIN_VARIANCE)
    reach = np.sqrt(2.0 * FALL) * np.sqrt(s)
    wide, shift, at = s[..., None], (mode - mean)[..., None], mode[..., None]
    at_mode = log_g(at)

    def log_ratio(d: Any) -> Any:
        # Above one only by the error of the mode, which may be many times the width if the prior is extremely narrow.
        return np.minimum(log_g(at + d) - at_mode - (d * (0.5 * d + shift)) / wide, FALL)

    signs = np.array([-1.0, 1.0])
    low, high = np.full((*s.shape, 2), -200.0), np.zeros((*s.shape, 2))
    ends = signs * reach[..., None]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for _ in range(12):
            middle = 0.5 * (low + high)
            fallen = ~(log_ratio(ends * np.exp2(middle)) > -FALL)
            low, high = np.where(fallen, low, middle), np.where(fallen, middle, high)
        ends = ends * np.exp2(high)
        total = 0.0
        for k, sign in enumerate(signs):
            total = total + sign * ends[..., k] * (np.exp(log_ratio(ends[..., k, None] * NODES)) @ WEIGHTS)
    peak = at_mode[..., 0] - 0.5 * (mode - mean) ** 2 / s - 0.5 * np.log(2.0 * np.pi * s)
    return peak + np.log(total)


def log_softmax_normal(
    mean: Float[Values, "... k"], cov: Float[Values, "... c c"], contrasts: Float[np.ndarray, "c k"]
) -> Float[Values, "... k"]:
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
    c = len(contrasts)
    eye = np.eye(c)
    # Latent values of no variance, or that are copies of each other, have a root as well.
    scale = 1e-12 * np.trace(cov, axis1=-2, axis2=-1) / c + MIN_VARIANCE
    jitter = scale[..., None, None] + c * np.finfo(float).eps * (cov * eye)
    root = contrasts.T @ np.linalg.cholesky(cov + jitter * eye)
    modes = _softmax_modes(mean, root)  # (..., of a class, c)
    centres = mean[..., None, :] + modes @ np.swapaxes(root, -1, -2)
    points = normal_points(c)
    moves = root @ points.T  # (..., class, point)
    terms = _log_shares(centres, moves) - modes @ points.T
    log_p = logsumexp(terms) - 0.5 * (modes * modes).sum(-1)
    return log_p - logsumexp(log_p, keepdims=True)


def _log_shares(centres: Any, moves: Any) -> Any:
    """Return log softmax(centres_k + moves_p)_k, (..., k, p), from centres (..., k, class) and moves (..., class, p).

    The sums over classes are products of matrices of exponentials, but where these would under- or overflow.
    """
    own = np.diagonal(centres, axis1=-2, axis2=-1)
    centred = centres - own[..., :, None]
    high = moves.max(axis=(-2, -1), keepdims=True)
    ok = (centred.max(axis=(-2, -1)) < _SAFE) & (high[..., 0, 0] - moves.min(axis=(-2, -1)) < _SAFE)
    if ok.all():
        with np.errstate(under="ignore"):
            return moves - high - np.log(np.exp(centred) @ np.exp(moves - high))
    found = np.empty(np.broadcast_shapes(moves.shape, (*centres.shape[:-1], 1)))
    if ok.any():
        found[ok] = _log_shares(centres[ok], moves[ok])
    # One class after the other, so that memory holds no more than for one.
    centred, moves = centred[~ok], moves[~ok]
    found[~ok] = np.stack(
        [moves[:, k] - logsumexp(centred[:, k, :, None] + moves, axis=-2) for k in range(moves.shape[-2])],
        axis=-2,
    )
    return found


def _softmax_modes(mean: Float[Values, "... k"], root: Float[Values, "... k c"]) -> Any:
    """Find, for each class k, about where softmax(mean + root z)_k N(z; 0, I) is largest, (..., k, c).

    Whatever it is, the integral around it is right; nearer the mode it has less error. To begin with, the nearest
    points where f_k is no less than its strongest rival; then Newton's steps along conjugate gradients, damped by
    how far they move f, so that each gains (Sun and Tran-Dinh 2019, Theorem 2, with nu = 2).
    """
    K, c = root.shape[-2:]
    own = np.eye(K)
    turned = np.swapaxes(root, -1, -2)
    z = np.zeros((*mean.shape[:-1], K, c))
    for _ in range(3):
        f = mean[..., None, :] + z @ turned
        rival = np.where(own > 0.0, -np.inf, f).argmax(-1)
        along: Any = root - np.take_along_axis(np.asarray(root), rival[..., None], axis=-2)
        behind = np.take_along_axis(f, rival[..., None], axis=-1)[..., 0] - np.diagonal(f, axis1=-2, axis2=-1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = np.clip(behind / (along * along).sum(-1), 0.0, 1.0)
        z = z + share[..., None] * along
    for _ in range(6):
        z = z + _newton_step(mean, root, turned, own, z)
    return z


def _newton_step(mean: Any, root: Any, turned: Any, own: Any, z: Any) -> Any:
    """Return a damped step of Newton's method for each class, its equations solved along conjugate gradients."""
    f = mean[..., None, :] + z @ turned
    p = np.exp(f - f.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    residual = (own - p) @ root - z
    step, along, squares = np.zeros_like(z), residual, (residual * residual).sum(-1, keepdims=True)
    for _ in range(min(z.shape[-1], 4)):
        moved = along @ turned
        curved = along + (p * (moved - (p * moved).sum(-1, keepdims=True))) @ root
        length = squares / np.maximum((along * curved).sum(-1, keepdims=True), _TINY)
        step, residual = step + length * along, residual - length * curved
        squares, before = (residual * residual).sum(-1, keepdims=True), squares
        along = residual + squares / np.maximum(before, _TINY) * along
    reach = np.ptp(step @ turned, axis=-1)[..., None] + _TINY
    return np.log1p(reach) / reach * step


@lru_cache
def normal_points(dim: int) -> Float[np.ndarray, "p c"]:
    """Return points that stand for N(0, I): Richtmyer's lattice and its opposite, of exact mean and covariance."""
    primes = [p for p in range(2, 10 * dim + 10) if all(p % q for q in range(2, p))][:dim]
    u = np.outer(np.arange(1, POINTS // 2 + 1), np.sqrt(primes)) % 1.0
    z = scipy.special.ndtri(u)
    z = np.concatenate([z, -z])
    return np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T).T
