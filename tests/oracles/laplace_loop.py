"""One expert with Laplace steps by the textbook, row by row, on its whole vector of weights.

Every row: predict, then take the Gaussian at the mode of the posterior of all C F weights, found by Newton's method
in the information form (Rasmussen and Williams 2006, 3.4).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from oracles.loop_filter import spread


class Site(NamedTuple):
    """log p(y | f) up to a constant, its gradient, and minus its second derivatives."""

    log_prob: Callable[[np.ndarray, float], float]
    gradient: Callable[[np.ndarray, float], np.ndarray]
    curvature: Callable[[np.ndarray, float], np.ndarray]


def softmax(intercept: float) -> Site:
    """C + 1 classes; class 0 has the logit 0, class c > 0 the logit f_c + intercept."""

    def log_probabilities(f: np.ndarray) -> np.ndarray:
        logits = np.concatenate([[0.0], f + intercept])
        return logits - logsumexp(logits)

    def gradient(f: np.ndarray, y: float) -> np.ndarray:
        return (np.arange(1, len(f) + 1) == y) - np.exp(log_probabilities(f))[1:]

    def curvature(f: np.ndarray, _: float) -> np.ndarray:
        p = np.exp(log_probabilities(f))[1:]
        return np.diag(p) - np.outer(p, p)

    return Site(lambda f, y: log_probabilities(f)[int(y)], gradient, curvature)


POISSON = Site(lambda f, y: y * f[0] - np.exp(f[0]), lambda f, y: y - np.exp(f), lambda f, _: np.exp(f)[:, None])


class Run(NamedTuple):
    """One-step-ahead means (n, C) and covariances (n, C, C) of f, and the belief over the weights after the last."""

    loc: np.ndarray
    cov_of_f: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


def mode(site: Site, H: np.ndarray, y: float, offset: float, mean: np.ndarray, P: np.ndarray) -> np.ndarray:
    """The weights of the largest posterior density under the prior N(mean, P^-1), with f = H theta + offset."""

    def objective(theta: np.ndarray) -> float:
        return site.log_prob(H @ theta + offset, y) - 0.5 * (theta - mean) @ P @ (theta - mean)

    theta = mean
    for _ in range(100):
        f = H @ theta + offset
        slope = H.T @ site.gradient(f, y) - P @ (theta - mean)
        step = np.linalg.solve(P + H.T @ site.curvature(f, y) @ H, slope)
        while objective(theta + step) < objective(theta) - 1e-12 * abs(objective(theta)):
            step = step / 2.0
        theta = theta + step
        if np.abs(step).max() < 1e-14:
            break
    return theta


def laplace_loop(
    Phi: np.ndarray,
    y: np.ndarray,
    site: Site,
    *,
    num_latents: int,
    prior_var: float,
    decay: float,
    diffusion: float,
    gaps: np.ndarray,
    offset: np.ndarray,
) -> Run:
    """Predict, then correct; `gaps` are the times from the row before to each row."""
    C, (n, F) = num_latents, Phi.shape
    mean, cov = np.zeros(C * F), prior_var * np.eye(C * F)
    loc, cov_of_f = np.zeros((n, C)), np.zeros((n, C, C))
    for i, phi in enumerate(Phi):
        a = decay ** gaps[i]
        mean = a * mean
        cov = a * a * cov + spread(decay, diffusion, gaps[i]) * prior_var * np.eye(C * F)
        H = np.kron(np.eye(C), phi)
        loc[i], cov_of_f[i] = H @ mean + offset[i], H @ cov @ H.T
        P = np.linalg.inv(cov)
        mean = mode(site, H, y[i], offset[i], mean, P)
        cov = np.linalg.inv(P + H.T @ site.curvature(H @ mean + offset[i], y[i]) @ H)
        cov = (cov + cov.T) / 2.0
    return Run(loc, cov_of_f, mean, cov)
