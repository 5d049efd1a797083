"""The weights of experts, as models report and reset them."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from streamgp.numerics.arrays import AnyArray
from streamgp.weights.base import WeightRule, present
from streamgp.weights.mixture import Mixture, MixtureState


@eqx.filter_jit
def _log_weights(rule: WeightRule, weights: Any, absent: Bool[AnyArray, " k"] | None) -> Float[AnyArray, " k"]:
    return present(rule.predict(weights), absent)


def expert_weights(
    rule: WeightRule, weights: Any, absent: Bool[AnyArray, " k"] | None = None
) -> Float[np.ndarray, " k"]:
    """Return the weight of each expert in the next row, from the state of the rule; zero of those `absent`."""
    return np.exp(np.asarray(_log_weights(rule, weights, absent)))


def rule_weights(rule: WeightRule, weights: Any) -> dict[str, float]:
    """Return the weight of each rule of a mixture for the next row, by name; empty for a single rule."""
    return rule.rule_weights(weights) if isinstance(rule, Mixture) else {}


@eqx.filter_jit
def prior_weights(rule: WeightRule, log_prior: Float[Array, " k"], more: Float[AnyArray, " k"] | None = None) -> Any:
    """Return the state of the rule at the prior, to whose logarithm `more` is added."""
    return rule.init(log_prior if more is None else jax.nn.log_softmax(log_prior + more))


def joined_weights(weights: Any, new: Bool[np.ndarray, " k"]) -> Any:
    """Return the state of a rule in which `new` experts have joined, each in place of another.

    They get what they would have at the start of K equal experts, 1 / K each; the others share the rest as before.
    What the rule promises against the best of the others stands but for ``-ln(1 - m / K)`` nats, m being the number
    of the new ones; against a new one it holds from here on, from a prior weight of 1 / K.

    Raises
    ------
    TypeError
        If the rule keeps more than log weights of the experts.
    """
    if isinstance(weights, MixtureState):
        return replace(weights, rules=tuple(joined_weights(each, new) for each in weights.rules))
    if np.shape(weights) != new.shape:
        raise TypeError(f"joined_weights: expected log weights of {len(new)} experts, got {type(weights).__name__}")
    kept = jnp.where(new, -jnp.inf, jnp.asarray(weights))
    share = new.sum() / len(new)
    rest = kept - jax.scipy.special.logsumexp(kept) + np.log1p(-share)
    return jnp.where(new, -np.log(len(new)), rest)
