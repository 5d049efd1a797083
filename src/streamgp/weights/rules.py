"""Single rules of weighing experts."""

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import static_field
from streamgp.weights.base import LogWeights, WeightRule, fresh_start, normalised, posterior, quiet, relative


@register
class BMA(LogWeights):
    """Bayesian model averaging: the weight of an expert is its posterior probability.

    Parameters
    ----------
    threshold
        A weight below it becomes exactly zero for good, and the expert costs no more work: 1e-16 in the papers
        (Lu et al. 2022; Waxman and Djuric 2024). Zero, the default, never shuts an expert down: kept in logs,
        a weight of exp(-10,000) can still come back.
    """

    threshold: float = static_field(default=0.0)

    @property
    def shuts_down(self) -> bool:
        """Return whether there is a threshold."""
        return self.threshold > 0.0

    @quiet
    def update(self, state: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Apply Bayes' rule, then drop weights below the threshold."""
        state = posterior(state, log_density)
        if self.shuts_down:
            state = normalised(namespace(state).where(state < np.log(self.threshold), -np.inf, state))
        return state


@register
class Share(LogWeights):
    """Switching inside groups of experts: each passes `rate` of its weight to every other of its group.

    One group of all K experts is fixed share (Herbster and Warmuth 1998; Lu et al. 2022, Eq. as4, with
    q1 = (K - 1) rate). Groups of the R dynamics of one basis give E-DOEBE's Q (Waxman and Djuric 2024, 4.2):
    ``1 - (R - 1) rate`` on the diagonal, `rate` between copies of the same basis, zero elsewhere.

    Parameters
    ----------
    groups
        Group number of each expert, from 0.
    rate
        Probability, per row, of a switch from one expert to one particular other expert of its group.
    background
        Probability, per row, of a fresh start among all experts. The paper's Q has none, which makes it reducible:
        between bases it is still BMA, and weights that sank too far do not come back in time.
    num_groups
        How many groups there are.
    """

    groups: Int[AnyArray, " k"]
    rate: float = static_field()
    background: float = static_field()
    num_groups: int = static_field()

    @property
    def matrix(self) -> Float[np.ndarray, "k k"]:
        """Return the transition matrix Q, Q[i, j] = Pr(now i | before j); its columns sum to one."""
        groups = np.asarray(self.groups)
        same = groups[:, None] == groups[None, :]
        eye = np.eye(len(self.groups), dtype=bool)
        stay = 1.0 - self.rate * (np.sum(same, axis=0) - 1)
        switch = np.where(eye, stay, np.where(same, self.rate, 0.0))
        return (1.0 - self.background) * switch + self.background / len(self.groups)

    def moved(self, log_weights: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return the weights after a switch."""
        K, xp = len(self.groups), namespace(log_weights, self.groups)
        if self.num_groups == 1 and self.rate > 0.0:
            # Rounding may take 1 - rate K, zero at the least, below it.
            switched = xp.log(max(1.0 - self.rate * K, 0.0) * xp.exp(log_weights) + self.rate)
            return fresh_start(switched, self.background)
        members = (self.groups[None] == xp.arange(self.num_groups)[:, None]).astype(log_weights.dtype)
        if self.background > 0.0:
            # As in `fresh_start`, nothing is lost by leaving the logs. A product with the groups is faster than sums
            # by group, and much faster than one with Q.
            weights = xp.exp(log_weights)
            keep = xp.maximum(1.0 - self.rate * members.sum(1), 0.0)[self.groups]
            switched = keep * weights + self.rate * (members @ weights)[self.groups]
            return xp.log((1.0 - self.background) * switched + self.background / K * weights.sum())
        # A group may have no weight at the start.
        group = logsumexp(xp.where(members > 0.0, log_weights[None], -xp.inf))[self.groups]
        keep = xp.log1p(-self.rate * members.sum(1))[self.groups]
        return xp.logaddexp(keep + log_weights, log(self.rate) + group)


@register
class Markov(LogWeights):
    """Switching by any transition matrix: ``w <- Q w``, predict, then Bayes' rule.

    Parameters
    ----------
    matrix
        Q[i, j] = Pr(expert i now | expert j before); its columns sum to one.
    """

    matrix: Float[AnyArray, "k k"]

    def moved(self, log_weights: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return the weights after a transition."""
        return logsumexp(namespace(self.matrix).log(self.matrix) + log_weights[None, :])


@register
class DMA(LogWeights):
    """Dynamic model averaging (Raftery, Karny and Ettler 2010): ``w <- w^forgetting``, predict, then Bayes.

    It is Bayes with likelihoods that fade: before row t the log weight of an expert is, up to a constant, the sum
    over s < t of forgetting^(t - s) times its log density of row s, plus forgetting^t times its log prior. It
    remembers 1 / (1 - forgetting) rows or so.

    From equal prior weights, the log loss over T rows exceeds that of the best of K experts by at most
    ``ln K + (T - 1) (1 - forgetting) ln K`` on any data, since the step to w^forgetting, normalised, lowers no log
    weight by more than (1 - forgetting) ln K. That is 2 ln K for a forgetting of 1 - 1 / T. For any fixed one it
    grows with T, and so does the regret itself: among experts of nearly equal merit the weights never settle. Against
    experts that take turns there is no bound of the kind that `Share` has, as no weight is bounded from below. Only
    if the experts' log densities of a row never differ by more than B nats, each switch adds
    ``ln K + forgetting B / (1 - forgetting)`` at most.

    The paper also adds a constant of 0.001 / K, lest weights underflow: in logs there is no need of it.

    Parameters
    ----------
    forgetting
        The exponent, alpha in the paper, in (0, 1); 0.99 is the paper's. One would be BMA.
    """

    forgetting: float = static_field(default=0.99)

    def __post_init__(self) -> None:
        if not 0.0 < self.forgetting < 1.0:
            raise ValueError(f"DMA: expected a forgetting exponent in (0, 1), got {self.forgetting}; 1 would be BMA")

    def moved(self, log_weights: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return the faded weights."""
        return normalised(self.forgetting * log_weights)


@register
class SoftBayes(LogWeights):
    """Soft-Bayes (Orseau, Lattimore and Legg 2017): ``w <- w (1 - rate + rate p / sum_j w_j p_j)``.

    It aims at the best lasting blend of the experts rather than at the best expert: the regret to the best fixed
    mixture is of the order ``sqrt(K T ln K)`` over T rows if the rate suits T, whatever the data, although the log
    loss is unbounded. To the best one of K experts it is at most ``ln(K) / rate`` for any T: by concavity each
    factor of an expert's weight is at least (p / sum_j w_j p_j)^rate, and no weight exceeds one.

    A rate of one is Bayesian model averaging.

    Parameters
    ----------
    rate
        The learning rate, eta in the paper, in (0, 1).
    """

    rate: float = static_field(default=0.1)

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"SoftBayes: expected a learning rate in (0, 1), got {self.rate}; 1 would be BMA")

    @quiet
    def update(self, state: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Move each weight a part of the way to its Bayes' update."""
        xp = namespace(state, log_density)
        log_density = relative(state, log_density)
        total = logsumexp(state + log_density)
        # The weights need no normalising: a sum of 1 + e, by rounding, becomes one of 1 + (1 - rate) e.
        factor = xp.logaddexp(np.log1p(-self.rate), np.log(self.rate) + log_density - total)
        return xp.where(xp.isfinite(total), state + factor, state)


def fixed_share(num_experts: int, switch: float) -> WeightRule:
    """Switch away from an expert with probability `switch` per row, to all the others equally."""
    if not 0.0 <= switch < 1.0:
        raise ValueError(f"fixed_share: expected a switching probability in [0, 1), got {switch}")
    if num_experts == 1:
        return BMA()
    rate = switch / (num_experts - 1)
    return share([0] * num_experts, rate)


def share(groups: Sequence[int], rate: float, background: float = 0.0) -> WeightRule:
    """Build switching inside groups with a fresh start among all, the rate checked against the largest group."""
    labels = np.unique(np.asarray(groups), return_inverse=True)[1]
    largest = int(np.bincount(labels).max())
    if rate < 0.0 or rate * largest > 1.0:
        raise ValueError(
            f"share: expected a rate between 0 and 1/{largest} (the largest group has {largest} experts), got {rate}"
        )
    if not 0.0 <= background < 1.0:
        raise ValueError(f"share: expected a background probability in [0, 1), got {background}")
    if (rate == 0.0 or largest == 1) and background == 0.0:
        return BMA()
    return Share(labels.astype(np.int32), float(rate), float(background), int(labels.max()) + 1)


def markov(matrix: Any) -> Markov:
    """Build switching by the user's own transition matrix, checked to be stochastic by columns."""
    Q = np.asarray(matrix, dtype=float)
    if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
        raise ValueError(f"markov: expected a square matrix with one row per expert, got shape {Q.shape}")
    if (Q < 0.0).any() or not np.allclose(Q.sum(0), 1.0, atol=1e-8):
        raise ValueError(
            f"markov: expected non-negative entries whose columns sum to one (Q[i, j] = Pr(now i | before j)), "
            f"got column sums {Q.sum(0)}"
        )
    return Markov(Q)
