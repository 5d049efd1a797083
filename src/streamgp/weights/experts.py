"""The weights of experts, as models report and reset them."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_traced
from streamgp.weights.base import WeightRule, normalised, present
from streamgp.weights.mixture import Mixture, MixtureState


def expert_weights(
    rule: WeightRule, weights: Any, absent: Bool[AnyArray, " k"] | None = None
) -> Float[np.ndarray, " k"]:
    """Return the weight of each expert in the next row, from the state of the rule; zero of those `absent`."""
    rule, weights, absent = tree.map(np.asarray, (rule, weights, absent))
    return np.exp(present(rule.predict(weights), absent))


def rule_weights(rule: WeightRule, weights: Any) -> dict[str, float]:
    """Return the weight of each rule of a mixture for the next row, by name; empty for a single rule."""
    return rule.rule_weights(weights) if isinstance(rule, Mixture) else {}


def prior_weights(
    rule: WeightRule, log_prior: Float[AnyArray, " k"], more: Float[AnyArray, " k"] | None = None
) -> Any:
    """Return the state of the rule at the prior, to whose logarithm `more` is added."""
    if not is_traced(log_prior, more, rule):
        rule, log_prior, more = tree.map(np.asarray, (rule, log_prior, more))
    return rule.init(log_prior if more is None else normalised(log_prior + more))


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
    kept = np.where(new, -np.inf, np.asarray(weights))
    with np.errstate(divide="ignore"):  # where all are new
        rest = normalised(kept) + np.log1p(-new.sum() / len(new))
    return np.where(new, -np.log(len(new)), rest)
