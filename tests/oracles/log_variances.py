"""The log variance of normal scores, learnt by a loop over rows as a textbook has it: one output."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri


class Learnt(NamedTuple):
    """The factor on the variance before each row, and what is believed after all."""

    factor: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    steps: np.ndarray
    steps_var: np.ndarray
    share: float
    helps: float


def textbook(phi: np.ndarray, square: np.ndarray, cuts: np.ndarray) -> Learnt:
    """Learn squared scores with features phi (n, F), of which NaN teaches nothing; those of outliers are negative.

    The plane's covariance is kept by its inverse, to which a row adds what it says, and so are the variances of the
    effects of places, of which there are ten for each of the inputs, cut at `cuts` (d, 9), and for m and l.
    """
    n, F = phi.shape
    d = len(cuts)
    prior = np.diag([0.1] + [0.05] * (F - 1))
    mean, cov = np.zeros(F), prior.copy()
    steps, precisions = np.zeros((d + 2, 10)), np.full((d + 2, 10), 40.0)
    moments, share, helps = {-2: [20.0, 0.0, 1.0], -1: [20.0, 0.0, 0.1]}, 0.5, 0.5
    factor = np.empty(n)
    for i in range(n):
        others = {-2: phi[i, F - 6], -1: phi[i, F - 2]}
        at = [np.searchsorted(cuts[j], phi[i, 1 + j]) for j in range(d)]
        for j, (_, m, v) in moments.items():
            at.append(np.searchsorted(m + np.sqrt(v + 0.01) * ndtri(np.linspace(0.1, 0.9, 9)), others[j]))
        where = np.arange(d + 2), np.array(at)
        plane, more = mean @ phi[i], steps[where].sum()
        h = np.clip(plane + helps * more, -3.0, 3.0)
        factor[i] = np.exp(share * h)
        if np.isnan(square[i]) or (square[i] < 0.0 and _scaled(-square[i], h) > 9.0):
            continue
        seen = min(abs(square[i]), 18.0)
        plane, whole = np.clip([plane, plane + more], -3.0, 3.0)
        share = _better(share, _log_density(seen, h) - _log_density(seen, 0.0))
        helps = _better(helps, _log_density(seen, whole) - _log_density(seen, plane))
        cov = np.linalg.inv(np.linalg.inv(cov + 3e-5 * prior) + np.outer(phi[i], phi[i]) / 2.0)
        mean = mean + cov @ phi[i] / 2.0 * (min(_scaled(seen, plane), 9.0) - 1.0)
        variances = 1.0 / precisions + 3e-5 * 0.025
        s = 2.0 + variances[where].sum()
        steps[where] += variances[where] * (min(_scaled(seen, whole), 9.0) - 1.0) / s
        precisions = 1.0 / variances
        precisions[where] += 1.0 / (s - variances[where])
        for j, (rows, m, v) in moments.items():
            off = np.clip(others[j] - m, -3.0 * np.sqrt(v + 0.01), 3.0 * np.sqrt(v + 0.01))
            rows = 0.998 * rows + 1.0
            moments[j] = [rows, m + off / rows, (1.0 - 1.0 / rows) * (v + off**2 / rows)]
    return Learnt(factor, mean, cov, steps, 1.0 / precisions, share, helps)


_C = 6.0 * (49.0 / 51.0) ** 2


def _scaled(square: float, h: float) -> float:
    """Return a squared score after the target went e^h closer in squares: through t with 6 degrees of freedom."""
    t2 = 6.0 * (np.exp(square / _C) - 1.0)
    return _C * np.log(1.0 + t2 * np.exp(-h) / 6.0)


def _log_density(square: float, h: float) -> float:
    """Return the log density of t with 6 degrees of freedom at the target, up to a constant."""
    return -0.5 * h - 3.5 * _scaled(square, h) / _C


def _better(probability: float, gain: float) -> float:
    """Return the probability of the better of two, after a row whose log density was by so much larger with it."""
    log_odds = np.log(probability) - np.log1p(-probability) + gain
    return 0.999 / (1.0 + np.exp(-log_odds)) + 0.0005
