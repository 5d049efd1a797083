"""The log variance of normal scores, learnt by a loop over rows as a textbook has it: one output."""

from typing import NamedTuple

import numpy as np


class Learnt(NamedTuple):
    """What was believed before each row, and after all."""

    means: np.ndarray
    shares: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


def textbook(phi: np.ndarray, square: np.ndarray) -> Learnt:
    """Learn squared scores with features phi (n, F), of which NaN teaches nothing; those of outliers are negative.

    The weights' covariance is kept by its inverse: what a row tells is added to it.
    """
    n, F = phi.shape
    prior = np.diag([0.1] + [0.05] * (F - 1))
    mean, cov, log_odds = np.zeros(F), prior.copy(), 0.0
    means, shares = np.empty((n, F)), np.empty(n)
    for i in range(n):
        means[i], shares[i] = mean, 1.0 / (1.0 + np.exp(-log_odds))
        if np.isnan(square[i]):
            continue
        h = np.clip(mean @ phi[i], -3.0, 3.0)
        if square[i] < 0.0 and _scaled(-square[i], h) > 9.0:
            continue
        seen = min(abs(square[i]), 18.0)
        score = _scaled(seen, h)
        log_odds += (-0.5 * h - 3.5 * score / _C) - (-3.5 * seen / _C)
        share = 0.999 / (1.0 + np.exp(-log_odds)) + 0.0005
        log_odds = np.log(share) - np.log1p(-share)
        cov = np.linalg.inv(np.linalg.inv(cov + 3e-5 * prior) + np.outer(phi[i], phi[i]) / 2.0)
        mean = mean + cov @ phi[i] / 2.0 * (min(score, 9.0) - 1.0)
    return Learnt(means, shares, mean, cov)


_C = 6.0 * (49.0 / 51.0) ** 2


def _scaled(square: float, h: float) -> float:
    """Return a squared score after the target went e^h closer in squares: through t with 6 degrees of freedom."""
    t2 = 6.0 * (np.exp(square / _C) - 1.0)
    return _C * np.log(1.0 + t2 * np.exp(-h) / 6.0)
