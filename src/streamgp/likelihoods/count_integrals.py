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

# The largest logarithm whose exponential is sure not to overflow.
_MOST_LOG = 700.0
LOG_2PI = float(np.log(2.0 * np.pi))
# How far the trapezoidal rule goes over a standard normal, the fewer and the more points of it, and for each the most
# of `sharpness`: it is within 1e-10 then.
_REACH, _POINTS, _SHARPEST = 7.0, (57, 113), (13.0, 55.0)
MOST_TABULATED = 256  # counts
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


def sharpness(counts: Any, var: Any, dispersion: Any) -> Any:
    """Return how sharp the probability of the last of the first counts is over log means with these variances.

    Over a log mean it is a peak of variance 1 / y, and 1 / dispersion more; what is returned is `var` over that.
    """
    return var / (1.0 / np.maximum(counts, 1.0) + (0.0 if dispersion is None else 1.0 / dispersion))


def is_tabulated(counts: Any, sharp: Any) -> Any:
    """Return whether `tabulate` has ten digits for the first counts of rows, as sharp as `sharpness` says.

    With points h standard deviations apart the trapezoidal rule is off by some 2 exp(-2 pi^2 / (h^2 (1 + sharp))).
    """
    return (counts <= MOST_TABULATED) & (sharp <= _SHARPEST[-1])


def tabulate(counts: int, weights: Any, mean: Any, var: Any, dispersion: Any) -> Any:
    """Return the probabilities (n, counts) of 0, 1, ... under mixtures (n, k) of log means eta ~ N(mean, var).

    Those of a count given eta follow from the count before. Without a dispersion (None) it is a Poisson.
    """
    sharp = np.max(sharpness(float(counts), var, dispersion), initial=0.0)
    points = np.linspace(-_REACH, _REACH, _POINTS[int(sharp > _SHARPEST[0])])
    shares = np.exp(-0.5 * points * points)
    with np.errstate(over="ignore", under="ignore"):
        m = np.exp(np.minimum(mean[..., None] + np.sqrt(var)[..., None] * points, _MOST_LOG))
        if dispersion is None:
            step, terms, rate = m, np.exp(-m), None
        else:
            rate = dispersion[..., None]
            step, terms = m / (rate + m), np.exp(-rate * np.log1p(m / rate))
        terms *= weights[..., None] * (shares / shares.sum())
        found = np.empty((len(m), counts))
        for y in range(counts):
            found[:, y] = terms.sum(axis=(1, 2))
            terms *= step
            terms *= 1.0 / (y + 1.0) if rate is None else (y + rate) / (y + 1.0)
    return found


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
