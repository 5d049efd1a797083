"""The prior of keys yet to be born, from what the keys so far have come to believe."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.fleet.experts import SHARE, log_normalised
from streamgp.fleet.prior import PooledPrior, pooled, root
from streamgp.fleet.states import KeyStates, take

BLOCK = 4_096  # keys at a time


class BeliefSums(NamedTuple):
    """Sums over the keys that have learnt and whose beliefs are finite; those of parts of a fleet add up.

    Attributes
    ----------
    total, scatter
        Of the means of the weights, and of their products.
    within
        Of the whitened covariances, by the prior that the keys were born with.
    weights, count
        Of the experts' weights, and how many keys these are.
    """

    total: Float[np.ndarray, "e f"]
    scatter: Float[np.ndarray, "e f f"]
    within: Float[np.ndarray, "p e t"]
    weights: Float[np.ndarray, " k"]
    count: int

    def plus(self, other: "BeliefSums") -> "BeliefSums":
        """Return the sums over the keys of both."""
        return BeliefSums(
            self.total + other.total,
            self.scatter + other.scatter,
            self.within + other.within,
            self.weights + other.weights,
            self.count + other.count,
        )


def belief_sums(states: KeyStates | None, keys: int, priors: list[PooledPrior]) -> BeliefSums:
    """Return the sums over the first `keys`."""
    experts, features = priors[0].mean.shape
    total, scatter = np.zeros((experts, features)), np.zeros((experts, features, features))
    within = np.zeros((len(priors), experts, features * (features + 1) // 2))
    weights, count = np.zeros(len(priors[0].log_weights)), 0
    for start in range(0, keys, BLOCK):
        assert states is not None
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
    return BeliefSums(total, scatter, within, weights, count)


def pooled_prior(sums: BeliefSums, priors: list[PooledPrior]) -> PooledPrior:
    """Return the mean and covariance of the keys' beliefs.

    The prior that was fitted to the warm-up enters as `streamgp.fleet.prior.pooled` says.
    """
    first, count = priors[0], sums.count
    experts, features = first.mean.shape
    i, j = np.tril_indices(features)
    if not count:
        return first
    means, roots = [], []
    for e in range(experts):
        cov = np.zeros((features, features))
        for prior, triangle in zip(priors, sums.within, strict=True):
            P = np.zeros((features, features))
            P[i, j] = P[j, i] = triangle[e]
            cov += prior.root[e] @ P @ prior.root[e].T
        guess = first.root[e] @ first.root[e].T
        mean, cov = pooled(sums.total[e], sums.scatter[e], cov, count, first.mean[e], guess)
        means.append(mean)
        roots.append(root(cov))
    share = (1.0 - SHARE) * sums.weights / count + SHARE / len(sums.weights)
    return PooledPrior(np.stack(means), np.stack(roots), np.log(share))
