"""The interface of weight rules, and the functions that several rules share."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.numerics.module import Module

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

    def init(self, log_prior: Float[AnyArray, " k"]) -> Any:
        """Return the state before any row, from the experts' log prior weights."""
        ...

    def predict(self, state: Any) -> Float[AnyArray, " k"]:
        """Return log weights of the experts for the next row, whose target they have not seen."""
        ...

    def update(self, state: Any, log_density: Float[AnyArray, " k"]) -> Any:
        """Return the state after a row, from each expert's log density of the row's target."""
        ...


quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""In NumPy, as in JAX, weights and densities of zero have logarithms, and warn nobody."""


class LogWeights(Module):
    """A rule whose state is the log weights for the next row: Bayes' rule, and then what the rule does to them."""

    @property
    def shuts_down(self) -> bool:
        """Return whether a weight may become exactly zero and stay so: none does."""
        return False

    @quiet
    def init(self, log_prior: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Start from the prior, as it is after `moved`."""
        return self.moved(log_prior)

    def predict(self, state: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return the state: the log weights for the next row."""
        return state

    @quiet
    def update(self, state: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Apply Bayes' rule, then `moved`."""
        return self.moved(posterior(state, log_density))

    def moved(self, log_weights: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
        """Return what becomes of log weights from one row to the next; in Bayes' rule, nothing."""
        return log_weights


class Weighed(NamedTuple):
    """The log weights of the experts for a row, ``-inf`` of those that are absent, and of several rules, or None."""

    log_weights: Float[AnyArray, "*n k"]
    of_rules: Float[AnyArray, "*n r"] | None


def present(log_weights: Float[AnyArray, "*n k"], absent: Bool[AnyArray, "*#n k"] | None) -> Float[AnyArray, "*n k"]:
    """Return the log weights of the experts that are there, ``-inf`` for those that are `absent`."""
    if absent is None:
        return log_weights
    xp = namespace(log_weights, absent)
    left = xp.where(xp.broadcast_to(absent, log_weights.shape), -xp.inf, log_weights)
    return normalised(left)


def trust(log_weights: Float[AnyArray, "*n k"], is_outlier: Bool[AnyArray, "*n k"]) -> Float[AnyArray, "*n"]:
    """Return the weight of the experts that do not take a row for an outlier."""
    return namespace(log_weights, is_outlier).maximum(1.0 - _mistrust(log_weights, is_outlier), 0.0)


def doubt(log_weights: Float[AnyArray, "*n k"], is_outlier: Bool[AnyArray, "*n k"]) -> Float[AnyArray, "*n"]:
    """Return the log of the weight of the experts that take a row for an outlier: that of 1 - `trust`."""
    xp = namespace(log_weights, is_outlier)
    with np.errstate(divide="ignore"):
        return xp.log(xp.minimum(_mistrust(log_weights, is_outlier), 1.0))


def _mistrust(log_weights: Float[AnyArray, "*n k"], is_outlier: Bool[AnyArray, "*n k"]) -> Float[AnyArray, "*n"]:
    xp = namespace(log_weights, is_outlier)
    return xp.where(is_outlier, xp.exp(log_weights), 0.0).sum(-1)


def relative(log_weights: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
    """Return log densities relative to the largest of an expert with weight: no rule needs more.

    An outlier has one of -1e20 or so, next to which the log of a weight would be lost in rounding.
    """
    xp = namespace(log_weights, log_density)
    top = xp.max(xp.where(log_weights > -xp.inf, log_density, -xp.inf))
    return log_density - xp.where(xp.isfinite(top), top, 0.0)


def posterior(log_weights: Float[AnyArray, " k"], log_density: Float[AnyArray, " k"]) -> Float[AnyArray, " k"]:
    """Apply Bayes' rule in logs; an expert at ``-inf`` stays there."""
    xp = namespace(log_weights, log_density)
    joint = log_weights + relative(log_weights, log_density)
    return xp.where(xp.isfinite(xp.max(joint)), normalised(joint), log_weights)


def normalised(log_weights: Float[AnyArray, "*n k"]) -> Float[AnyArray, "*n k"]:
    """Return log weights of which those of a row sum to one."""
    top = log_weights.max(-1, keepdims=True)
    left = log_weights - namespace(log_weights).where(top > -np.inf, top, 0.0)
    return left - logsumexp(left, keepdims=True)


def fresh_start(log_weights: Float[AnyArray, " k"], share: float) -> Float[AnyArray, " k"]:
    """Mix in equal weights with probability `share`."""
    if share == 0.0:
        return log_weights
    # Exact however small the weights, since the share bounds each sum from below.
    xp = namespace(log_weights)
    return xp.log((1.0 - share) * xp.exp(log_weights) + share / log_weights.shape[-1])
