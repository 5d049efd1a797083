"""The weights of an ensemble row by row, for any transition matrix, and the scores of the mixture."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm


class Weights(NamedTuple):
    """Log weights (n, K) before and after each row, and the log density (n,) of each row's targets."""

    before: np.ndarray
    after: np.ndarray
    log_density: np.ndarray


def weigh(
    log_density: np.ndarray,
    *,
    transition: np.ndarray | None = None,
    prior: np.ndarray | None = None,
    threshold: float = 0.0,
) -> Weights:
    """Switch by Q, predict, then Bayes' rule, all in logs.

    Parameters
    ----------
    log_density
        Of each row's targets under each expert, (n, K).
    transition
        Q[i, j] = Pr(expert i now | expert j before); the identity by default.
    prior
        Initial weights; uniform by default.
    threshold
        A weight that falls below it is zero from then on.
    """
    n, K = log_density.shape
    Q = np.eye(K) if transition is None else transition
    log_w = np.log(np.full(K, 1.0 / K) if prior is None else prior)
    before, after, score = np.zeros((n, K)), np.zeros((n, K)), np.zeros(n)
    for i in range(n):
        before[i] = logsumexp(log_w[None, :], b=Q, axis=1)
        joint = before[i] + log_density[i]
        score[i] = logsumexp(joint)
        log_w = joint - score[i]
        if threshold > 0.0:
            log_w = np.where(np.exp(log_w) < threshold, -np.inf, log_w)
            log_w = log_w - logsumexp(log_w)
        after[i] = log_w
    return Weights(before, after, score)


def e_doebe_matrix(num_bases: int, num_levels: int, delta: float) -> np.ndarray:
    """Q of Waxman and Djuric (2024), 4.2, for experts ordered basis by basis: delta between copies of a basis."""
    copies = np.full((num_levels, num_levels), delta) + (1.0 - num_levels * delta) * np.eye(num_levels)
    return np.kron(np.eye(num_bases), copies)


def joint_log_density(y: np.ndarray, loc: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Log density of y (n, E) under each of K experts with means (n, K, E) and variances (n, K): (n, K)."""
    return norm.logpdf(y[:, None, :], loc, np.sqrt(var)[:, :, None]).sum(-1)
