"""Delayed feedback: the weights of the experts and the level of the noise learn from targets.

A prediction of the next row is scored by that row. A forecast of the row h rows ahead is kept until then, in a queue
that is part of the state. From such forecasts the weights learn at 1 / h of the pace, since h neighbours share most
of their errors (Weinberger and Ordentlich 2002, whose feedback is delayed as well, keep h copies of the learner, each
of which sees every h-th row).
"""

import sys
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.likelihoods import Predictive, noise_features
from streamgp.likelihoods.noise_by_input import NoiseByInput, squared_scores
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread, log_spread
from streamgp.models.gaussian.target_values import mixed_levels, target_levels, target_values
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, logsumexp, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.weights import OUTLIER_LOG_DENSITY, WeightRule, scan_rule, trust, weighed

_Mixture: TypeAlias = tuple[Float[AnyArray, "n k"], Float[AnyArray, "n k e"], Float[AnyArray, "n k e"]]


@register
class PendingForecasts(Module):
    """The forecasts of the next h rows, each made h rows before its own; oldest first.

    Attributes
    ----------
    loc, var
        Mean and variance by every filter; NaN where there is no forecast, as before the first row.
    noise
        The state of the noise when the forecast was made; None where it is constant.
    features
        Those of the noise by input (see `streamgp.likelihoods.noise_by_input`); None where there is none.
    """

    loc: Float[AnyArray, "h f e"]
    var: Float[AnyArray, "h f e"]
    noise: NoiseState | None
    features: Float[AnyArray, "h e l"] | None = None

    @classmethod
    def empty(
        cls,
        horizon: int,
        num_filters: int,
        num_outputs: int,
        noise: NoiseState | None,
        layer: NoiseByInput | None = None,
    ) -> "PendingForecasts":
        """Return the queue before the first row."""
        missing = np.full((horizon, num_filters, num_outputs), np.nan)
        features = None if layer is None else np.zeros((horizon, *np.asarray(layer.mean).shape))
        noises = tree.map(lambda a: np.repeat(np.asarray(a)[None], horizon, axis=0), noise)
        return cls(missing, missing, noises, features)

    @property
    def horizon(self) -> int:
        """Return h, the number of rows from the last one learnt to the one that is forecast."""
        return self.loc.shape[0]


class ScoringState(NamedTuple):
    """All that learns from targets besides the filters.

    Attributes
    ----------
    weights
        State of the weight rule.
    noise
        State of the noise; None where it is constant.
    pending
        Forecasts whose targets have not come yet; None without a horizon.
    levels
        The maps of the recalibration; None where there is none.
    layer
        What is believed of the noise by input; None where there is none.
    """

    weights: Any
    noise: NoiseState | None
    pending: PendingForecasts | None
    levels: RecalibrationBySpread | None = None
    layer: NoiseByInput | None = None


def learn_from_targets(
    rule: WeightRule,
    kinds: NoiseKinds,
    state: ScoringState,
    loc: Float[AnyArray, "n f e"],
    var: Float[AnyArray, "n f e"],
    y: Float[AnyArray, "n e"],
    mask: Bool[AnyArray, " n"],
    gap: Float[AnyArray, " n"],
    is_outlier: Bool[AnyArray, "n f"] | None = None,
    asleep: Bool[AnyArray, " f"] | None = None,
    inputs: tuple[Float[AnyArray, "n w"], Int[AnyArray, " d"]] | None = None,
) -> tuple[
    ScoringState, Predictive, Float[AnyArray, "n r"] | None, Bool[AnyArray, " n"] | None, Float[AnyArray, " n"]
]:
    """Learn from consecutive rows.

    Parameters
    ----------
    loc, var
        Mean and variance by every filter, of each row itself or, with a horizon, of the row h rows later.
    y, mask
        Targets; rows with a false `mask` are ignored.
    gap
        Time from the row before to each row.
    is_outlier
        Which filters take each row for an outlier; None where none has a guard.
    asleep
        Which filters rest (see `streamgp.models.gaussian.resting`), so that they predict nothing.
    inputs
        Of the rows that are predicted, and which of them the noise follows; None where it follows none.

    Returns
    -------
    state
        After the rows.
    predictive
        The mixture of all experts' predictions, with the weights and the noise before each row; for a forecast, after
        the row at which it was made.
    rules
        The weight of each of several weight rules; None where there is one.
    flagged
        Which rows are outliers to most of the weight; None where no filter has a guard.
    scores
        The log density of each target under the mixture, before it is recalibrated; NaN of rows that do not count.
    """
    weights, noise, pending, levels, layer = state
    xp, absent = namespace(loc, y, mask), None
    if asleep is not None:
        loc, var = (xp.where(asleep[None, :, None], xp.nan, a) for a in (loc, var))
        absent = xp.repeat(asleep, len(kinds))
    due, scored, schedule, noises, last = (loc, var), mask, _Schedule.of(mask), None, None
    if pending is not None:
        due = schedule.pop_due((pending.loc, pending.var), due)
        scored = mask & ~xp.isnan(due[0]).all((1, 2))
        gap = xp.full(len(y), float(pending.horizon), y.dtype)
    if noise is not None:
        error = y[:, None, :] - due[0]
        if pending is not None and pending.noise is not None:
            counted = scored[:, None] if is_outlier is None else scored[:, None] & ~is_outlier
            last = schedule.pop_due(pending.noise.error, xp.where(counted[:, :, None], error, 0.0))
        noise, noises = kinds.update_rows(noise, error, due[1], gap, scored, last, is_outlier)
    noises_due = noises
    if pending is not None:
        noises = _after_each(noises, noise)
        noises_due = schedule.pop_due(pending.noise, noises)
        pending = schedule.remaining(replace(pending, features=None), PendingForecasts(loc, var, noises))
    experts_due: Any = add_noise(kinds, noises_due, due[0], due[1], gap)
    loc, var, dof = experts_due if pending is None else add_noise(kinds, noises, loc, var, gap)
    # The errors of h forecasts that overlap are much the same error: together they count as one row.
    overlap = 1 if pending is None else pending.horizon
    said, below = target_values(experts_due[0], experts_due[1], experts_due[2], y, len(kinds))
    log_density, flagged, factor = fill_missing_density(said.sum(-1) / overlap), None, None
    if is_outlier is not None:
        is_outlier = xp.repeat(is_outlier, len(kinds), axis=1)
    least = OUTLIER_LOG_DENSITY * y.shape[1] / overlap
    weights, before = scan_rule(rule, weights, log_density, scored, is_outlier, least, absent)
    log_weights = before.log_weights
    scores = xp.where(scored, logsumexp(log_weights + log_density), xp.nan)
    if is_outlier is not None:
        flagged = trust(log_weights, is_outlier) < 0.5
        scores = xp.where(flagged, xp.nan, scores)
    shares, made = None, drop_non_finite(log_weights, *experts_due[:2])
    ready = made  # for the targets that are due
    if pending is not None:
        before = _after_each(before, weighed(rule, weights))
        made = drop_non_finite(before.log_weights, loc, var)
    u = None if levels is None and layer is None else mixed_levels(ready[0], below)
    if layer is not None and inputs is not None and u is not None:
        phi, later = noise_features.features(inputs[1], inputs[0], *made), None
        if pending is not None and state.pending is not None:
            phi, later = schedule.pop_due(state.pending.features, phi), phi
            pending = replace(pending, features=schedule.remaining(state.pending.features, later))
        layer, factor_due, factor = layer.learn_rows(phi, squared_scores(u, scored, flagged), later)
        made = _widened(made, factor)
        ready = made if pending is None else _widened(ready, factor_due)
        if levels is not None:
            u = mixed_levels(ready[0], target_levels(*ready[1:], experts_due[2], y, len(kinds)))
    if levels is not None and u is not None:
        levels, shares = _learn_maps(levels, made, ready, u, scored)
    rules = None if before.of_rules is None else xp.exp(before.of_rules)
    log_weights, loc, var = made
    loc = xp.where(mask[:, None, None], loc, xp.nan)
    predictive = Predictive(log_weights, loc, var, dof, recalibration=shares, noise=factor)
    return ScoringState(weights, noise, pending, levels, layer), predictive, rules, flagged, scores


def _widened(mixture: _Mixture, factor: Float[AnyArray, "n e"]) -> _Mixture:
    """Return a mixture with its variances multiplied by a factor."""
    log_weights, loc, var = mixture
    return log_weights, loc, var * factor[:, None]


def _learn_maps(
    levels: RecalibrationBySpread,
    made: _Mixture,
    due: _Mixture,
    u: Float[AnyArray, "n e"],
    scored: Bool[AnyArray, " n"],
) -> tuple[RecalibrationBySpread, Float[AnyArray, "n e j"]]:
    """Learn at which levels u targets came, by the mixtures that were due; return the shares of those made."""
    spread = spread_due = log_spread(*made)
    if due is not made:
        spread_due = log_spread(*due)
    after, known = levels.learn_rows(u, spread_due, scored)
    return after, (known if due is made else _after_each(known, after)).shares(spread)


def fill_missing_density(log_density: Float[AnyArray, "*n k"]) -> Float[AnyArray, "*n k"]:
    """Replace log densities of experts that are NaN by the worst of the others."""
    xp = namespace(log_density)
    missing = xp.isnan(log_density)
    if xp is np and not missing.any():
        return log_density
    worst = xp.where(missing, xp.inf, log_density).min(-1, keepdims=True)
    return xp.where(missing, xp.where(worst < xp.inf, worst, 0.0), log_density)


def drop_non_finite(
    log_weights: Float[AnyArray, "*n k"], loc: Float[AnyArray, "*n k e"], var: Float[AnyArray, "*n k e"]
) -> tuple[Float[AnyArray, "*n k"], Float[AnyArray, "*n k e"], Float[AnyArray, "*n k e"]]:
    """Take the weight from experts whose predictions are not finite."""
    xp = namespace(loc, var, log_weights)
    finite = (xp.isfinite(loc) & xp.isfinite(var)).all(-1)
    if xp is np and finite.all():
        return log_weights, loc, var
    loc, var = xp.where(finite[..., None], loc, 0.0), xp.where(finite[..., None], var, 1.0)
    left = xp.where(finite, log_weights, -xp.inf)
    with np.errstate(divide="ignore"):  # there may be none with weight
        total = xp.log(xp.exp(left).sum(-1, keepdims=True))
    known = xp.isfinite(total)
    renormalised = xp.where(known, left - xp.where(known, total, 0.0), log_weights)
    return xp.where(finite.all(-1, keepdims=True), log_weights, renormalised), loc, var


def add_noise(
    kinds: NoiseKinds,
    noises: NoiseState | None,
    loc: Float[AnyArray, "n f e"],
    var: Float[AnyArray, "n f e"],
    gap: Float[AnyArray, " n"],
) -> tuple[Float[AnyArray, "n k e"], Float[AnyArray, "n k e"], Float[AnyArray, "n k"] | None]:
    """Return mean, variance and degrees of freedom (None: Gaussian) of all experts from the filters' predictions.

    `noises` are the states of the noise before each row, or a single one for all; `gap` is the time since then.
    """
    if noises is None:
        return loc, var, None
    return kinds.predict(noises, loc, var, gap)


class _Schedule(NamedTuple):
    """When forecasts are due within some rows, of which a mask may leave some out.

    A queue has something of each of the h rows before. The same of the rows themselves joins the end of the queue, in
    the `order` of those that are not masked. The entry with number ``due[i]`` belongs to row i.
    """

    order: Int[AnyArray, " n"]
    due: Int[AnyArray, " n"]
    count: Int[AnyArray, ""]

    @classmethod
    def of(cls, mask: Bool[AnyArray, " n"]) -> "_Schedule":
        xp = namespace(mask)
        return cls(xp.argsort(~mask, stable=True), xp.cumsum(mask) - mask, mask.sum())

    def pop_due(self, queue: Any, made: Any) -> Any:
        """Return the entry of each row, which was made when the row was forecast."""
        return tree.map(lambda a, b: self._join(a, b)[self.due], queue, made)

    def remaining(self, queue: Any, made: Any) -> Any:
        """Return the queue after the rows."""
        return tree.map(lambda a, b: self._rest(self._join(a, b), len(a)), queue, made)

    def _join(self, queue: AnyArray, made: AnyArray) -> AnyArray:
        return namespace(queue, made).concatenate([queue, made[self.order]])

    def _rest(self, joined: AnyArray, length: int) -> AnyArray:
        if namespace(joined, self.count) is np:
            return joined[self.count : self.count + length]
        return sys.modules["jax"].lax.dynamic_slice_in_dim(joined, self.count, length)


def _after_each(before: Any, last: Any) -> Any:
    """Return the state after each row, from those before each row and the one after all."""
    return tree.map(lambda a, b: namespace(a, b).concatenate([a[1:], b[None]]), before, last)
