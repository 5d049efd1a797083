"""From what every filter predicts to the mixture of all experts, and what the weights and the noise learn from it."""

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.engine.blocks import join_groups
from streamgp.filters.kalman import Predicted
from streamgp.filters.noise import NoiseKinds
from streamgp.likelihoods import Predictive, noise_features
from streamgp.likelihoods.recalibration_by_spread import log_spread
from streamgp.models.contract import Info
from streamgp.models.gaussian.delayed_feedback import ScoringState, add_noise, drop_non_finite, learn_from_targets
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.weights import WeightRule


def mix(
    rule: WeightRule,
    noise: NoiseKinds,
    order: tuple[int, ...],
    scoring: ScoringState,
    parts: list[Predicted],
    tau: AnyArray,
    extra: AnyArray | None,
    live: AnyArray,
    inputs: tuple[AnyArray, Int[AnyArray, " d"]] | None,
) -> Predictive:
    """Return the prediction of rows that come `tau` after the last one learnt, by the filters that are `live`.

    `inputs` are those of the rows, and which of them the noise follows; None where it follows none.
    """
    for_all = tree.map(lambda a: a[None], scoring.noise)
    loc, var, _ = collect(order, parts)
    xp = namespace(loc, live)
    loc = xp.where(live[None, :, None], loc, xp.nan)
    if extra is not None:
        var = var + extra[:, None, None]
    loc, var, dof = add_noise(noise, for_all, loc, var, tau)
    log_weights = xp.broadcast_to(rule.predict(scoring.weights)[None], loc.shape[:2])
    log_weights, loc, var = drop_non_finite(log_weights, loc, var)
    factor = shares = None
    if scoring.layer is not None and inputs is not None:
        factor = scoring.layer.factor(noise_features.features(inputs[1], inputs[0], log_weights, loc, var))
        var = var * factor[:, None]
    if scoring.levels is not None:
        shares = scoring.levels.shares(log_spread(log_weights, loc, var))
    return Predictive(log_weights, loc, var, dof, recalibration=shares, noise=factor)


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
    inputs: tuple[AnyArray, Int[AnyArray, " d"]] | None = None,
) -> tuple[ScoringState, Info]:
    """Weigh every row's predictions by the rows before it, and learn from its target; `inputs` as `mix` has them."""
    n = y.shape[0]
    loc, var, is_outlier = collect(order, [_join(part, n) for part in parts])
    scoring, predictive, rules, flagged, scores = learn_from_targets(
        rule, noise, scoring, loc, var, y, mask, namespace(clock).diff(clock, prepend=0.0), is_outlier, asleep, inputs
    )
    non_finite = ~namespace(var).isfinite(var).all(2) & mask[:, None]
    if asleep is not None:
        non_finite &= ~asleep[None]
    flagged = None if flagged is None else flagged & mask
    return scoring, Info(predictive, outside[:n] & mask, rules, None, flagged, non_finite, scores)


def collect(
    order: tuple[int, ...], parts: list[Predicted]
) -> tuple[Float[AnyArray, "n k e"], Float[AnyArray, "n k e"], Bool[AnyArray, "n k"] | None]:
    """Join predictions of all groups, [G, R, n, E] and [G, R, n], to [n, K, E] in the order given by the user."""
    back = np.argsort(np.asarray(order))

    def in_order(*each: AnyArray) -> AnyArray:
        return namespace(*each).moveaxis(join_groups(each)[back], 0, 1)

    loc, var, is_outlier = tree.map(in_order, *parts)
    return loc, namespace(loc).broadcast_to(var[:, :, None], loc.shape), is_outlier


def _join(part: Predicted, n: int) -> Predicted:
    """Join blocks to rows, without the padding."""
    return tree.map(lambda a: a.reshape(*a.shape[:2], -1, *a.shape[4:])[:, :, :n], part)
