"""The interface of weight rules, and the single rules without switching.

The state of each rule here is the log weights for the next row, so that `predict` only reads it.
"""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from streamgp.checkpoint.encoding import register
from streamgp.numerics.arrays import AnyArray

MIN_LOG_DENSITY = -1e100  # of log densities that are multiplied: zero times infinity would be no number


@runtime_checkable
class WeightRule(Protocol):
    """The interface that an ensemble needs of a rule.

    A row that has density zero (``-inf`` in logs) under every expert with weight teaches nothing about the experts.
    """

    @property
    def shuts_down(self) -> bool:
        """Return whether a weight may become exactly zero and stay so."""
        ...

    def init(self, log_prior: Float[Array, " k"]) -> Any:
        """Return the state before any row, from the experts' log prior weights."""
        ...

    def predict(self, state: Any) -> Float[Array, " k"]:
        """Return log weights of the experts for the next row, whose target they have not seen."""
        ...

    def update(self, state: Any, log_density: Float[Array, " k"]) -> Any:
        """Return the state after a row, from each expert's log density of the row's target."""
        ...


def scan_rule(
    rule: WeightRule,
    state: Any,
    log_density: Float[AnyArray, "n k"],
    mask: Bool[AnyArray, " n"] | None = None,
    is_outlier: Bool[AnyArray, "n k"] | None = None,
) -> tuple[Any, Any]:
    """Update a rule row by row; return its state after all rows, and those before each of them.

    Rows with a false `mask` are passed over, and a row counts by its `trust`.
    """
    mask = jnp.ones(len(log_density), bool) if mask is None else mask

    def learn(state: Any, row: tuple) -> tuple[Any, Any]:
        density, keep, outlier = row
        if outlier is not None:
            density = trust(rule.predict(state), outlier) * jnp.maximum(
                relative(rule.predict(state), density), MIN_LOG_DENSITY
            )
        new = jax.tree.map(lambda a, b: jnp.where(keep, a, b), rule.update(state, density), state)
        return new, state

    return jax.lax.scan(learn, state, (jnp.asarray(log_density), jnp.asarray(mask), is_outlier))


def trust(log_weights: Float[Array, " k"], is_outlier: Bool[AnyArray, " k"]) -> Float[Array, ""]:
    """Return the weight of the experts that do not take a row for an outlier, by which the row counts."""
    return jnp.maximum(1.0 - jnp.exp(log_weights) @ jnp.where(is_outlier, 1.0, 0.0), 0.0)


def relative(log_weights: Float[Array, " k"], log_density: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return log densities relative to the largest of an expert with weight: no rule needs more.

    An outlier has one of -1e20 or so, next to which the log of a weight would be lost in rounding.
    """
    top = jnp.max(jnp.where(log_weights > -jnp.inf, log_density, -jnp.inf))
    return jnp.where(jnp.isfinite(top), log_density - top, log_density)


def posterior(log_weights: Float[Array, " k"], log_density: Float[Array, " k"]) -> Float[Array, " k"]:
    """Apply Bayes' rule in logs; an expert at ``-inf`` stays there."""
    joint = log_weights + relative(log_weights, log_density)
    total = logsumexp(joint)
    return jnp.where(jnp.isfinite(total), joint - total, log_weights)


def fresh_start(log_weights: Float[Array, " k"], share: float) -> Float[Array, " k"]:
    """Mix in equal weights with probability `share`."""
    if share == 0.0:
        return log_weights
    # Exact however small the weights, since the share bounds each sum from below.
    return jnp.log((1.0 - share) * jnp.exp(log_weights) + share / len(log_weights))


@register
class BMA(eqx.Module):
    """Bayesian model averaging: the weight of an expert is its posterior probability.

    Parameters
    ----------
    threshold
        A weight below it becomes exactly zero for good, and the expert costs no more work: 1e-16 in the papers
        (Lu et al. 2022; Waxman and Djuric 2024). Zero, the default, never shuts an expert down: kept in logs,
        a weight of exp(-10,000) can still come back.
    """

    threshold: float = eqx.field(static=True, default=0.0)

    @property
    def shuts_down(self) -> bool:
        """Return whether there is a threshold."""
        return self.threshold > 0.0

    def init(self, log_prior: Float[Array, " k"]) -> Float[Array, " k"]:
        """Start from the prior."""
        return log_prior

    def predict(self, state: Float[Array, " k"]) -> Float[Array, " k"]:
        """Return the posterior so far."""
        return state

    def update(self, state: Float[Array, " k"], log_density: Float[Array, " k"]) -> Float[Array, " k"]:
        """Apply Bayes' rule, then drop weights below the threshold."""
        state = posterior(state, log_density)
        if self.shuts_down:
            state = jnp.where(state < np.log(self.threshold), -jnp.inf, state)
            state = state - logsumexp(state)
        return state


@register
class DMA(eqx.Module):
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

    forgetting: float = eqx.field(static=True, default=0.99)

    shuts_down = False

    def __check_init__(self) -> None:
        if not 0.0 < self.forgetting < 1.0:
            raise ValueError(f"DMA: expected a forgetting exponent in (0, 1), got {self.forgetting}; 1 would be BMA")

    def init(self, log_prior: Float[Array, " k"]) -> Float[Array, " k"]:
        """Start from the faded prior."""
        return self._forget(log_prior)

    def predict(self, state: Float[Array, " k"]) -> Float[Array, " k"]:
        """Return the faded weights."""
        return state

    def update(self, state: Float[Array, " k"], log_density: Float[Array, " k"]) -> Float[Array, " k"]:
        """Apply Bayes' rule, then fade."""
        return self._forget(posterior(state, log_density))

    def _forget(self, log_weights: Float[Array, " k"]) -> Float[Array, " k"]:
        faded = self.forgetting * log_weights
        return faded - logsumexp(faded)


@register
class SoftBayes(eqx.Module):
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

    rate: float = eqx.field(static=True, default=0.1)

    shuts_down = False

    def __check_init__(self) -> None:
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"SoftBayes: expected a learning rate in (0, 1), got {self.rate}; 1 would be BMA")

    def init(self, log_prior: Float[Array, " k"]) -> Float[Array, " k"]:
        """Start from the prior."""
        return log_prior

    def predict(self, state: Float[Array, " k"]) -> Float[Array, " k"]:
        """Return the weights so far."""
        return state

    def update(self, state: Float[Array, " k"], log_density: Float[Array, " k"]) -> Float[Array, " k"]:
        """Move each weight a part of the way to its Bayes' update."""
        log_density = relative(state, log_density)
        total = logsumexp(state + log_density)
        # The weights need no normalising: a sum of 1 + e, by rounding, becomes one of 1 + (1 - rate) e.
        factor = jnp.logaddexp(np.log1p(-self.rate), np.log(self.rate) + log_density - total)
        return jnp.where(jnp.isfinite(total), state + factor, state)
