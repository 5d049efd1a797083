"""From what every filter predicts to the mixture of all experts, and what the weights and the noise learn from it."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from streamgp.core import AnyArray, Info, Predictive, recalibration
from streamgp.filters.kalman import Predicted
from streamgp.filters.noise import NoiseKinds
from streamgp.models.gaussian.delayed_feedback import ScoringState, add_noise, drop_non_finite, learn_from_targets
from streamgp.numerics import tree
from streamgp.numerics.compilation import UNOPTIMISED, compiled
from streamgp.weights import WeightRule, present


@eqx.filter_jit
def mix(
    rule: WeightRule,
    noise: NoiseKinds,
    order: tuple[int, ...],
    scoring: ScoringState,
    parts: list[Predicted],
    tau: AnyArray,
    extra: AnyArray | None,
    live: AnyArray,
) -> Predictive:
    """Return the prediction of rows that come `tau` after the last one learnt, by the filters that are `live`.

    Compiled on its own it takes no bases, as `learn_weights` does.
    """
    for_all = tree.map(lambda a: jnp.asarray(a)[None], scoring.noise)
    loc, var, _ = collect(order, parts)
    loc = jnp.where(jnp.asarray(live)[None, :, None], loc, jnp.nan)
    if extra is not None:
        var = var + jnp.asarray(extra)[:, None, None]
    loc, var, dof = add_noise(noise, for_all, loc, var, tau)
    log_weights = jnp.broadcast_to(rule.predict(scoring.weights)[None], loc.shape[:2])
    shares = None
    if scoring.levels is not None:
        shares = recalibration.shares(jnp.asarray(scoring.levels))
        shares = jnp.broadcast_to(shares, (len(loc), *shares.shape))
    return Predictive(*drop_non_finite(log_weights, loc, var), dof, recalibration=shares)


def learn_weights(
    rule: WeightRule,
    noise: NoiseKinds,
    order: tuple[int, ...],
    scoring: ScoringState,
    parts: list[Predicted],
    outside: AnyArray,
    y: AnyArray,
    mask: AnyArray,
    clock: AnyArray,
    asleep: AnyArray | None = None,
) -> tuple[ScoringState, Info]:
    """Weigh every row's predictions by the rows before it, and learn from its target.

    Compiled on its own it takes no bases, so that ensembles that differ in these alone share what is compiled.
    """
    n = y.shape[0]
    loc, var, is_outlier = collect(order, [_join(part, n) for part in parts])
    scoring, predictive, rules, flagged, scores = learn_from_targets(
        rule, noise, scoring, loc, var, y, mask, jnp.diff(clock, prepend=0.0), is_outlier, asleep
    )
    non_finite = ~jnp.isfinite(var).all(2) & mask[:, None]
    if asleep is not None:
        non_finite &= ~jnp.asarray(asleep)[None]
    flagged = None if flagged is None else flagged & mask
    return scoring, Info(predictive, jnp.asarray(outside[:n] & mask), rules, None, flagged, non_finite, scores)


learn_weights_fast = eqx.filter_jit(learn_weights)
"""For what goes on as long as the stream."""

learn_weights_briefly = compiled(learn_weights, UNOPTIMISED)
"""For a few hundred rows: compiling it well would take longer than they do."""


def learns_from_target(rule: WeightRule, noise: NoiseKinds) -> Callable[..., tuple]:
    """Return a compiled function that learns a single row: the same one for ensembles that differ in arrays alone.

    It takes the state, which filters rest (None: none ever does), and of the row each filter's mean (f, E) and
    variance (f,), the target (E,), the time since the row before, and which filters take it for an outlier (None:
    none has a guard). It returns the new state, the experts' log weights for the next row, whether the row was an
    outlier to most of the weight (None without guards), and its score (None where no filter ever rests).
    """
    arrays, rest = eqx.partition((rule, noise), eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    return partial(_learns_from_target(tuple(leaves), structure), arrays)


@cache
def _learns_from_target(leaves: tuple[Any, ...], structure: Any) -> Callable[..., tuple]:
    """Return the function of all rules and kinds of noise with the same parts that are no arrays."""

    def learn(arrays: Any, scoring: ScoringState, asleep: AnyArray | None, row: tuple[Any, ...]) -> tuple:
        rule, noise = eqx.combine(arrays, jax.tree.unflatten(structure, leaves))
        loc, var, y, gap, is_outlier = tree.map(lambda a: a[None], row)
        var = jnp.broadcast_to(var[:, :, None], loc.shape)
        rows = loc, var, y, jnp.ones(1, bool), gap, is_outlier, asleep
        scoring, _, _, flagged, scores = learn_from_targets(rule, noise, scoring, *rows)
        absent = None if asleep is None else jnp.repeat(asleep, len(noise.discounts))
        log_weights = present(rule.predict(scoring.weights), absent)
        score = None if asleep is None else scores[0]  # what nobody reads is not computed
        return scoring, log_weights, None if flagged is None else flagged[0], score

    return jax.jit(learn)


def collect(
    order: tuple[int, ...], parts: list[Predicted]
) -> tuple[Float[Array, "n k e"], Float[Array, "n k e"], Bool[Array, "n k"] | None]:
    """Join predictions of all groups, [G, R, n, E] and [G, R, n], to [n, K, E] in the order given by the user."""
    back = np.argsort(np.asarray(order))

    def in_order(*each: AnyArray) -> Array:
        return jnp.moveaxis(jnp.concatenate([a.reshape(-1, *a.shape[2:]) for a in each])[back], 0, 1)

    loc, var, is_outlier = tree.map(in_order, *parts)
    return loc, jnp.broadcast_to(var[:, :, None], loc.shape), is_outlier


def _join(part: Predicted, n: int) -> Predicted:
    """Join blocks to rows, without the padding."""
    return tree.map(lambda a: a.reshape(*a.shape[:2], -1, *a.shape[4:])[:, :, :n], part)
