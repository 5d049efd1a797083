"""One row through a rule: what the rule says before it, and the rule's state after it."""

from dataclasses import replace
from typing import Any

from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.weights.base import Weighed, WeightRule, doubt, normalised, present, relative
from streamgp.weights.mixture import Mixture


def weighed(rule: WeightRule, state: Any, absent: Bool[AnyArray, " k"] | None = None) -> Weighed:
    """Return what a rule says of the next row."""
    of_rules = state.log_weights if isinstance(rule, Mixture) else None
    return Weighed(present(rule.predict(state), absent), of_rules)


def learn_row(
    rule: WeightRule,
    state: Any,
    density: Float[AnyArray, " k"],
    outlier: Bool[AnyArray, " k"] | None,
    least: float,
    absent: Bool[AnyArray, " k"] | None,
) -> Any:
    """Return the state of a rule after a row; see `scan_rule`."""
    xp = namespace(density)
    if outlier is None and absent is None:
        return rule.update(state, density)
    weights = present(rule.predict(state), absent)
    if outlier is not None:
        density = xp.logaddexp(density, least + doubt(weights, outlier))
    if absent is None:
        return rule.update(state, density)
    density = relative(weights, density)
    together = logsumexp(xp.where(absent, -xp.inf, weights + density))
    return _kept(absent, state, rule.update(state, xp.where(absent, together, density)))


def _kept(absent: Bool[AnyArray, " k"], before: Any, after: Any) -> Any:
    """Return the state after a row with the log weights of absent experts as before; and so the others' sum."""
    if hasattr(after, "rules"):
        pairs = zip(before.rules, after.rules, strict=True)
        return replace(after, rules=tuple(_kept(absent, a, b) for a, b in pairs))
    xp = namespace(absent, before, after)
    there = [xp.where(absent, -xp.inf, weights) for weights in (before, after)]
    return xp.where(absent, before, normalised(there[1]) + logsumexp(there[0]))
