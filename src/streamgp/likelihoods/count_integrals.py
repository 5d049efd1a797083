"""Integrals over the log mean of a count: its predictive probability and its distribution function."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import betainc, digamma, gammaincc, gammaln

from streamgp.likelihoods.quadrature import FALL, MIN_VARIANCE, NODES, WEIGHTS, log_integral
from streamgp.likelihoods.step import laplace_step
from streamgp.numerics import tree
from streamgp.numerics.student_t import ndtr

LOG_2PI = float(np.log(2.0 * np.pi))
# Up to here exp(u) - 1 - u is a series, whose seventh term adds nothing.
_NEAR = 0.01


def log_predictive(likelihood: Any, y: Any, loc: Any, cov: Any) -> Any:
    """Return the log of the integral of the likelihood's shape over one latent value, around its mode.

    That value is taken less the one whose mean is the count: the peak of a large count is narrower than the digits
    of a logarithm.
    """
    level = np.log(np.maximum(y, 1.0))
    loc = loc + (likelihood.intercept - level)[..., None]
    likelihood = tree.map(lambda a: np.broadcast_to(a, np.broadcast_shapes(np.shape(a), level.shape)), likelihood)
    likelihood = replace(likelihood, intercept=np.broadcast_to(level, likelihood.intercept.shape))
    cov = np.maximum(cov, MIN_VARIANCE)
    mode = loc + cov[..., 0] * laplace_step(likelihood, y, loc, cov).shift
    several, targets = tree.map(lambda a: a[..., None], likelihood), np.asarray(y)[..., None]

    def log_g(f: Any) -> Any:
        return several.log_shape(f[..., None], targets)

    return log_integral(log_g, mode[..., 0], np.broadcast_to(loc, mode.shape)[..., 0], cov[..., 0, 0])


def cdf(y: Any, mean: Any, var: Any, dispersion: Any) -> Any:
    """Return Pr(Y <= y) for a log mean eta ~ N(mean, var); without a dispersion (None), of a Poisson.

    Given eta, that is the probability that x exceeds it: of a Poisson, x is the log of a Gamma(y + 1) variable, of a
    negative binomial x = log(r) - logit(B) with B ~ Beta(r, y + 1). So it is the mean of Phi((x - mean) / sqrt(var))
    over x, whose density has its mode at log(y + 1) and tails that are exponential at least. Gauss and Legendre's
    rule on segments, which end at the mode and where Phi is zero; where it is one, the tail of x is known.
    """
    a = np.maximum(np.floor(y), 0.0) + 1.0
    root = np.sqrt(np.maximum(var, MIN_VARIANCE))
    const = 0.5 * (np.log(a) - LOG_2PI) - stirling(a)
    wide = np.sqrt(2.0 * FALL / a)
    if dispersion is None:
        right = np.log1p(FALL / a + wide)
    else:
        const = const + stirling(dispersion + a) - stirling(dispersion) - 0.5 * np.log1p(a / dispersion)
        wide = np.sqrt(2.0 * FALL * (1.0 / a + 1.0 / dispersion))
        right = FALL / dispersion + wide
    left = FALL / a + wide

    def log_density(u: Any) -> Any:
        shape = np.asarray(a)[..., None]
        if dispersion is None:
            return const[..., None] - shape * excess(u, np.expm1(u))
        rate = np.asarray(dispersion)[..., None]
        total = shape + rate
        # The same twice: the one loses its digits where the count is large, the other where the dispersion is.
        of_small = shape * u - total * np.log1p((shape / total) * np.expm1(u))
        of_large = -rate * u - total * np.log1p((rate / total) * np.expm1(-u))
        return np.where(shape > rate, of_large, of_small) + const[..., None]

    def integrate_segment(low: Any, high: Any) -> Any:
        width = high - low
        u = low[..., None] + width[..., None] * NODES
        below = ndtr((u - at[..., None]) / root[..., None])
        return width * ((np.exp(log_density(u)) * below) @ WEIGHTS)

    at = mean - np.log(a)
    reach = np.sqrt(2.0 * FALL) * root
    low = np.clip(at - reach, -left, right)
    certain = np.clip(at + reach, low, right)
    with np.errstate(over="ignore", under="ignore"):
        ends = [low, np.clip(0.0, low, certain), certain]
        total = sum(integrate_segment(*pair) for pair in pairwise(ends))
        total = total + _beyond(certain, a, dispersion)
    return np.where(y < 0.0, 0.0, np.clip(total, 0.0, 1.0))


def _beyond(u: Any, a: Any, dispersion: Any) -> Any:
    """Return the probability that x, of `cdf`, is more than u above its mode."""
    if dispersion is None:
        return gammaincc(a, a * np.exp(u))
    share = dispersion / (dispersion + a * np.exp(u))
    return betainc(dispersion, a, share)


def excess(u: Any, grown: Any) -> Any:
    """Return exp(u) - 1 - u, to 13 digits near zero, too, from exp(u) - 1."""
    near = np.clip(u, -_NEAR, _NEAR)
    series = near * (1.0 / 3.0 + near * (1.0 / 12.0 + near * (1.0 / 60.0 + near * (1.0 / 360.0 + near / 2520.0))))
    return np.where(near == u, 0.5 * near * near * (1.0 + series), grown - u)


def stirling(a: Any) -> Any:
    """Return log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2, to 1e-15."""
    small = np.minimum(a, 16.0)
    direct = gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * LOG_2PI
    inverse = 1.0 / np.maximum(a, 16.0)
    square = inverse * inverse
    series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)))
    return np.where(a < 16.0, direct, series)


def stirling_slope(a: Any) -> Any:
    """Return the derivative of `stirling`."""
    small = np.minimum(a, 16.0)
    direct = digamma(small) - np.log(small) + 0.5 / small
    inverse = 1.0 / np.maximum(a, 16.0)
    square = inverse * inverse
    series = -square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)))
    return np.where(a < 16.0, direct, series)
