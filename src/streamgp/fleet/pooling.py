"""The priors of all keys, new ones and others, from the posteriors of the keys so far: of all keys, and of groups.

A group's prior is drawn to that of all keys, by as much as the keys' beliefs say that groups are alike: the means of
groups and the keys around them are a one-way analysis of variance with random effects (Searle, Casella and McCulloch
1992, section 3.5).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.experts import SHARE, FleetExperts, log_normalised
from streamgp.fleet.prior import PRIOR_KEYS, PooledPrior, pooled, root
from streamgp.fleet.states import KeyStates, take
from streamgp.numerics.linalg import cholesky_solve, solve_lower

BLOCK = 4_096  # keys at a time
# Where groups do not differ, the fleet counts as so many keys of a group.
MOST = 1e6


class BeliefSums(NamedTuple):
    """Sums by group over the keys that have learnt and whose beliefs are finite; those of parts of a fleet add up.

    Attributes
    ----------
    precision, total, scatter
        Of one over the keys' levels of noise, and, weighted by it, of the means of the weights and of their products.
    within
        Of the covariances, in units of the keys' levels of noise.
    weights, count
        Of the experts' weights, and how many keys these are.
    """

    precision: Float[np.ndarray, "*g e"]
    total: Float[np.ndarray, "*g e f"]
    scatter: Float[np.ndarray, "*g e f f"]
    within: Float[np.ndarray, "*g e f f"]
    weights: Float[np.ndarray, "*g k"]
    count: Float[np.ndarray, "*g"]

    def plus(self, other: "BeliefSums") -> "BeliefSums":
        """Return the sums over the keys of both."""
        return BeliefSums(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))

    @property
    def whole(self) -> "BeliefSums":
        """The sums over all groups."""
        return BeliefSums(*(each.sum(0) for each in self))


def belief_sums(
    states: KeyStates | None,
    experts_of_keys: FleetExperts,
    priors: list[PooledPrior],
    group: Int[np.ndarray, " n"],
    groups: int,
) -> BeliefSums:
    """Return the sums over the first keys, which belong to these of so many groups."""
    experts, features = priors[0].mean.shape
    total, scatter = np.zeros((groups, experts, features)), np.zeros((groups, experts, features, features))
    within, precision = np.zeros_like(scatter), np.zeros((groups, experts))
    weights, count = np.zeros((groups, len(priors[0].log_weights))), np.zeros(groups)
    i, j = np.tril_indices(features)
    keys = len(group)
    for start in range(0, keys, BLOCK):
        assert states is not None
        block = take(states, slice(start, min(start + BLOCK, keys)))
        b = block.beliefs
        sound = (block.learnt > 0) & np.isfinite(b.mean).all((1, 2)) & np.isfinite(b.cov).all((1, 2))
        of = group[start : start + BLOCK]
        for g, which in np.unique(np.stack([of, b.prior], axis=1)[sound], axis=0).tolist():
            rows, prior = np.flatnonzero(sound & (of == g) & (b.prior == which)), priors[which]
            theta = prior.mean + (prior.root @ b.mean[rows][..., None])[..., 0]
            counts = experts_of_keys.precision(take(b, rows), block.learnt[rows])
            precision[g] += counts.sum(0)
            total[g] += np.einsum("ne,nef->ef", counts, theta)
            scatter[g] += np.einsum("ne,nef,neg->efg", counts, theta, theta)
            P = np.zeros((experts, features, features))
            P[:, i, j] = P[:, j, i] = b.cov[rows].sum(0)
            within[g] += prior.root @ P @ np.swapaxes(prior.root, 1, 2)
            weights[g] += np.exp(log_normalised(b.log_weights[rows])).sum(0)
            count[g] += len(rows)
    return BeliefSums(precision, total, scatter, within, weights, count)


def pooled_prior(sums: BeliefSums, first: PooledPrior) -> PooledPrior:
    """Return the mean and covariance of all keys' beliefs.

    The prior that was fitted to the warm-up enters as `streamgp.fleet.prior.pooled` says.
    """
    whole = sums.whole
    return _drawn(whole, first, np.ones(len(first.mean)), 0.0) if whole.count else first


def group_priors(sums: BeliefSums, fleet: PooledPrior) -> list[PooledPrior]:
    """Return the mean and covariance of the beliefs of every group's keys, drawn to those of the fleet."""
    keys = fleet_keys(sums, fleet)
    by_group = [BeliefSums(*each) for each in zip(*sums, strict=True)]
    return [_drawn(each, fleet, keys, PRIOR_KEYS) if each.count else fleet for each in by_group]


def fleet_keys(sums: BeliefSums, fleet: PooledPrior) -> Float[np.ndarray, " e"]:
    """Return for how many keys of a group, of the level of noise 1, the fleet's mean counts, for every expert.

    The variance of keys within their groups over that of the groups' means, on average over the directions that the
    fleet's prior has, in units of it.
    """
    count, found = sums.count, np.full(len(fleet.mean), MOST)
    groups, keys = int((count > 0).sum()), count.sum()
    if groups < 2 or keys <= groups:
        return found
    for e, L in enumerate(fleet.root):
        precision = sums.precision[:, e]
        whole = precision.sum()
        size = (whole - np.square(precision).sum() / whole) / (groups - 1)
        on = np.flatnonzero(np.diag(L) > 0.0)
        L = L[np.ix_(on, on)]
        total = sums.total[:, e, on]
        center = total.sum(0) / whole
        apart = total / np.where(count > 0, precision, 1.0)[:, None] - center
        between = np.square(solve_lower(L, apart.T)).sum(0) @ precision
        around = sums.scatter[:, e].sum(0)[np.ix_(on, on)] - whole * np.outer(center, center)
        within = (np.trace(cholesky_solve(L, around)) - between) / (keys - groups)
        of_groups = (between / (groups - 1) - within) / size
        if of_groups > 0.0:
            found[e] = np.clip(within / of_groups, 1.0, MOST)
    return found


def _drawn(sums: BeliefSums, to: PooledPrior, keys: Float[np.ndarray, " e"], weights_keys: float) -> PooledPrior:
    """Return mean and covariance of the beliefs of some keys, drawn to a prior that counts for so many."""
    count = float(sums.count)
    means, roots = [], []
    for e in range(len(to.mean)):
        guess = to.root[e] @ to.root[e].T
        weight = float(sums.precision[e])
        mean, cov = pooled(
            sums.total[e], sums.scatter[e], sums.within[e], count, weight, to.mean[e], guess, float(keys[e])
        )
        means.append(mean)
        roots.append(root(cov))
    share = (sums.weights + weights_keys * np.exp(to.log_weights)) / (count + weights_keys)
    return PooledPrior(np.stack(means), np.stack(roots), np.log((1.0 - SHARE) * share + SHARE / len(share)))
