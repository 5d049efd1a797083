"""The prior of keys yet to be born, from what the keys so far have come to believe."""

import numpy as np

from streamgp.fleet.experts import SHARE, log_normalised
from streamgp.fleet.prior import PooledPrior, pooled, root
from streamgp.fleet.states import KeyStates, take

BLOCK = 4_096  # keys at a time


def pooled_prior(states: KeyStates, keys: int, priors: list[PooledPrior]) -> PooledPrior:
    """Return the mean and covariance of the beliefs of the first `keys`, those that have learnt and are finite.

    The prior that was fitted to the warm-up enters as `streamgp.fleet.prior.pooled` says.
    """
    first = priors[0]
    experts, features = first.mean.shape
    i, j = np.tril_indices(features)
    total, scatter = np.zeros((experts, features)), np.zeros((experts, features, features))
    within = [np.zeros((experts, len(i))) for _ in priors]
    weights, count = np.zeros(len(first.log_weights)), 0
    for start in range(0, keys, BLOCK):
        block = take(states, slice(start, min(start + BLOCK, keys)))
        b = block.beliefs
        sound = (block.learnt > 0) & np.isfinite(b.mean).all((1, 2)) & np.isfinite(b.cov).all((1, 2))
        for which in np.unique(b.prior[sound]).tolist():
            rows = np.flatnonzero(sound & (b.prior == which))
            theta = priors[which].mean + (priors[which].root @ b.mean[rows][..., None])[..., 0]
            total += theta.sum(0)
            scatter += np.einsum("nef,neg->efg", theta, theta)
            within[which] += b.cov[rows].sum(0)
            weights += np.exp(log_normalised(b.log_weights[rows])).sum(0)
            count += len(rows)
    if not count:
        return first
    means, roots = [], []
    for e in range(experts):
        cov = np.zeros((features, features))
        for prior, triangle in zip(priors, within, strict=True):
            P = np.zeros((features, features))
            P[i, j] = P[j, i] = triangle[e]
            cov += prior.root[e] @ P @ prior.root[e].T
        guess = first.root[e] @ first.root[e].T
        mean, cov = pooled(total[e], scatter[e], cov, count, first.mean[e], guess)
        means.append(mean)
        roots.append(root(cov))
    share = (1.0 - SHARE) * weights / count + SHARE / len(weights)
    return PooledPrior(np.stack(means), np.stack(roots), np.log(share))
