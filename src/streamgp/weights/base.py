"""The interface of weight rules, and the functions that several rules share."""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from streamgp.numerics.arrays import AnyArray

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
) -> tuple[Any, Any]:
    """Update a rule row by row; return its state after all rows, and those before each of them.

    Rows with a false `mask` are passed over. What a row tells against an expert is bounded by `outlier_log_density`,
    in so far as the experts take it for an outlier (1 - `trust`).
    """
    mask = jnp.ones(len(log_density), bool) if mask is None else mask

    def learn(state: Any, row: tuple) -> tuple[Any, Any]:
        density, keep, outlier = row
        if outlier is not None:
            doubt = jnp.log1p(-trust(rule.predict(state), outlier))
            density = jnp.logaddexp(density, outlier_log_density + doubt)
        new = jax.tree.map(lambda a, b: jnp.where(keep, a, b), rule.update(state, density), state)
        return new, state

    return jax.lax.scan(learn, state, (jnp.asarray(log_density), jnp.asarray(mask), is_outlier))


def trust(log_weights: Float[Array, " k"], is_outlier: Bool[AnyArray, " k"]) -> Float[Array, ""]:
    """Return the weight of the experts that do not take a row for an outlier."""
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
