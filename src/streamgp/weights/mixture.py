"""A Bayesian mixture over weight rules: no rule is best on every stream, and the experts' likelihoods are shared."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.checkpoint.field_types import check_state
from streamgp.numerics.module import Module, static_field
from streamgp.weights.base import WeightRule, fresh_start, posterior, quiet, relative
from streamgp.weights.rules import BMA, SoftBayes, fixed_share, share


@register
class MixtureState(Module):
    """The state of each rule, and the log weights of the rules for the next row."""

    rules: tuple[Any, ...]
    log_weights: Float[AnyArray, " r"]


@register
class Mixture(Module):
    """Bayes' rule over weight rules, as it is used over experts; itself a rule. Build it with `mixture`.

    A rule is weighed by the density that its weights gave each target. Without a share the cumulative log loss is
    within ln R of the best rule's, on any data. With a share a, it is within
    ``ln R - S ln(a / R) - (T - 1 - S) ln(1 - a + a / R)`` of the best sequence of rules with S switches over T rows
    (the path's prior probability; Herbster and Warmuth 1998).

    Parameters
    ----------
    rules
        The R rules.
    names
        What the report calls them.
    share
        Probability, per row, of a fresh start among the rules.
    """

    rules: tuple[WeightRule, ...]
    names: tuple[str, ...] = static_field()
    share: float = static_field()

    @property
    def shuts_down(self) -> bool:
        """Return whether every rule shuts experts down, so that none could bring one back."""
        return all(rule.shuts_down for rule in self.rules)

    @quiet
    def init(self, log_prior: Float[AnyArray, " k"]) -> MixtureState:
        """Start every rule from the same log prior, with equal weights of the rules."""
        R = len(self.rules)
        states = tuple(rule.init(log_prior) for rule in self.rules)
        return MixtureState(states, namespace(log_prior).full(R, -np.log(R), log_prior.dtype))

    def check_state(self, state: MixtureState) -> None:
        """Raise ValueError if the state has not one for every rule, and a weight of it."""
        if not len(self.rules) == len(self.names) == len(state.rules) == len(state.log_weights):
            raise ValueError(f"expected the states of {len(self.rules)} weight rules, got {len(state.rules)}")
        for rule, its in zip(self.rules, state.rules, strict=True):
            check_state(rule, its)

    @quiet
    def predict(self, state: MixtureState) -> Float[AnyArray, " k"]:
        """Return the log of the rules' weights of the experts, averaged over the rules."""
        logs, each = state.log_weights, [rule.predict(s) for rule, s in zip(self.rules, state.rules, strict=True)]
        return logsumexp(namespace(*each).stack(each) + logs[:, None], axis=0)

    @quiet
    def update(self, state: MixtureState, log_density: Float[AnyArray, " k"]) -> MixtureState:
        """Learn in every rule, and weigh the rules by the density that each gave the target."""
        log_density = relative(self.predict(state), log_density)
        each = [rule.predict(s) for rule, s in zip(self.rules, state.rules, strict=True)]
        evidence = logsumexp(namespace(*each).stack(each) + log_density[None, :])
        weights = fresh_start(posterior(state.log_weights, evidence), self.share)
        pairs = zip(self.rules, state.rules, strict=True)
        return MixtureState(tuple(rule.update(s, log_density) for rule, s in pairs), weights)

    def rule_weights(self, state: MixtureState) -> dict[str, float]:
        """Return the weight of each rule for the next row; the sum is one."""
        return dict(zip(self.names, np.exp(np.asarray(state.log_weights)).tolist(), strict=True))


def mixture(rules: Mapping[str, WeightRule], share: float = 0.01) -> Mixture:
    """Build a mixture over the rules, equal at first; `share` is the probability per row of a fresh start among them.

    Raises
    ------
    ValueError
        If there is no rule, or `share` is not in [0, 1).
    """
    if not rules:
        raise ValueError("mixture: expected at least one rule, got none")
    if not 0.0 <= share < 1.0:
        raise ValueError(f"mixture: expected a share in [0, 1), got {share}")
    return Mixture(tuple(rules.values()), tuple(rules), float(share))


def auto(groups: Sequence[int]) -> WeightRule:
    """Build the rule for streams of which nothing is known: a mixture of five, from the slowest to the quickest.

    Parameters
    ----------
    groups
        Number of the basis of each expert; one of the five switches between the dynamics of one basis.
    """
    K = len(groups)
    if K == 1:
        return BMA()
    largest = max(map(list(groups).count, groups))
    return mixture(
        {
            "BMA": BMA(),
            "fixed share 0.001": fixed_share(K, 1e-3),
            "fixed share 0.01": fixed_share(K, 1e-2),
            "switching within a basis 0.05": share(groups, 0.05 / max(1, largest - 1), 0.01),
            "Soft-Bayes 0.1": SoftBayes(0.1),
        }
    )
