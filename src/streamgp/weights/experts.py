"""The weights of experts, as models report and reset them."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from streamgp.numerics.arrays import AnyArray
from streamgp.weights.base import WeightRule
from streamgp.weights.mixture import Mixture


def expert_weights(rule: WeightRule, weights: Any) -> Float[np.ndarray, " k"]:
    """Return the weight of each expert in the next row, given the state of the rule."""
    return np.exp(np.asarray(rule.predict(weights)))


def rule_weights(rule: WeightRule, weights: Any) -> dict[str, float]:
    """Return the weight of each rule of a mixture for the next row, by name; empty for a single rule."""
    return rule.rule_weights(weights) if isinstance(rule, Mixture) else {}


def prior_weights(rule: WeightRule, log_prior: Float[Array, " k"], more: Float[AnyArray, " k"] | None = None) -> Any:
    """Return the state of the rule at the prior, to whose logarithm `more` is added."""
    return rule.init(log_prior if more is None else jax.nn.log_softmax(log_prior + more))
