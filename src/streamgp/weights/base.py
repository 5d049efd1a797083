"""The interface of weight rules, and the functions that several rules share."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace

# What an outlier is worth to every expert at least, in each output: as if it came from anywhere within fifty
# deviations of the target. So an expert that foresees a rare event gains on those that take it for a glitch, but not
# without limit; a glitch, which none foresees, changes no weight. With a lower floor wide experts gain by glitches
# within the range of the target: at -6.6 sign flips in 5% of the rows cost a quarter of the accuracy, at -4 1%.
OUTLIER_LOG_DENSITY = -4.0


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
    outlier_log_density: float = OUTLIER_LOG_DENSITY,
    absent: Bool[AnyArray, " k"] | None = None,
) -> tuple[Any, Any]:
    """Update a rule row by row; return its state after all rows, and those before each of them.

    Rows with a false `mask` are passed over. What a row tells against an expert is bounded by `outlier_log_density`,
    in so far as the experts take it for an outlier (1 - `trust`). Experts that are `absent` from all these rows count
    as if they predicted what the others predict together, and keep their weights.
    """
    mask = jnp.ones(len(log_density), bool) if mask is None else mask

    def learn(state: Any, row: tuple) -> tuple[Any, Any]:
        density, keep, outlier = row
        weights = present(rule.predict(state), absent)
        if outlier is not None:
            doubt = jnp.log1p(-trust(weights, outlier))
            density = jnp.logaddexp(density, outlier_log_density + doubt)
        if absent is None:
            after = rule.update(state, density)
        else:
            together = logsumexp(jnp.where(absent, -jnp.inf, weights + density))
            after = _kept(absent, state, rule.update(state, jnp.where(absent, together, density)))
        new = tree.map(lambda a, b: jnp.where(keep, a, b), after, state)
        return new, state

    return jax.lax.scan(learn, state, (jnp.asarray(log_density), jnp.asarray(mask), is_outlier))


def present(log_weights: Float[AnyArray, "*n k"], absent: Bool[AnyArray, "*#n k"] | None) -> Float[AnyArray, "*n k"]:
    """Return the log weights of the experts that are there, ``-inf`` for those that are `absent`."""
    if absent is None:
        return log_weights
    xp = namespace(log_weights, absent)
    left = xp.where(xp.broadcast_to(absent, log_weights.shape), -xp.inf, log_weights)
    top = left.max(-1, keepdims=True)
    return left - (top + xp.log(xp.exp(left - top).sum(-1, keepdims=True)))


def _kept(absent: Bool[AnyArray, " k"], before: Any, after: Any) -> Any:
    """Return the state after a row with the log weights of absent experts as before; and so the others' sum."""
    if hasattr(after, "rules"):
        pairs = zip(before.rules, after.rules, strict=True)
        return replace(after, rules=tuple(_kept(absent, a, b) for a, b in pairs))
    sums = [logsumexp(jnp.where(absent, -jnp.inf, weights)) for weights in (before, after)]
    return jnp.where(absent, before, after - sums[1] + sums[0])


def trust(log_weights: Float[AnyArray, " k"], is_outlier: Bool[AnyArray, " k"]) -> Float[Array, ""]:
    """Return the weight of the experts that do not take a row for an outlier."""
    return jnp.maximum(1.0 - jnp.exp(jnp.asarray(log_weights)) @ jnp.where(is_outlier, 1.0, 0.0), 0.0)


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
