"""One expert by the textbook Kalman recursion, row by row."""

from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """One-step-ahead means (n, E) and variances (n,), and the belief after the last row."""

    loc: np.ndarray
    var: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


def spread(decay: float, diffusion: float, tau: float) -> float:
    """Variance gathered in a time tau, relative to v: the integral of the Ornstein-Uhlenbeck or Wiener process."""
    if decay == 1.0:
        return diffusion * tau
    return diffusion * (1.0 - decay ** (2.0 * tau)) / (1.0 - decay**2)


def loop_filter(
    Phi: np.ndarray,
    y: np.ndarray,
    *,
    prior_var: float,
    noise_var: float,
    decay: float = 1.0,
    diffusion: float = 0.0,
    gaps: np.ndarray | None = None,
) -> Run:
    """Predict, then correct.

    Parameters
    ----------
    Phi, y
        Features (n, F) and targets (n, E).
    gaps
        Time from the row before to each row; one by default.
    """
    n, F = Phi.shape
    gaps = np.ones(n) if gaps is None else gaps
    mean, cov = np.zeros((F, y.shape[1])), prior_var * np.eye(F)
    loc, var = np.zeros_like(y), np.zeros(n)
    for i, phi in enumerate(Phi):
        a = decay ** gaps[i]
        mean = a * mean
        cov = a * a * cov + spread(decay, diffusion, gaps[i]) * prior_var * np.eye(F)
        direction = cov @ phi
        loc[i], var[i] = phi @ mean, phi @ direction + noise_var
        mean = mean + np.outer(direction, y[i] - loc[i]) / var[i]
        cov = cov - np.outer(direction, direction) / var[i]
        cov = (cov + cov.T) / 2.0
    return Run(loc, var, mean, cov)
