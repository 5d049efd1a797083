"""What targets teach about the experts: how much to trust each, and how noisy they are.

A prediction of the next row is judged by that row. A forecast of the row h rows ahead waits for it, in a queue that
is part of the state: the rows in between come too early to judge it. From such forecasts the weights learn at 1 / h
of the pace, since h neighbours share most of their errors (Weinberger and Ordentlich 2002, whose feedback is late as
well, keep h copies of the learner, each of which sees every h-th row).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from streamgp.checkpoint.encoding import register
from streamgp.core import Predictive, namespace, recalibration
from streamgp.filters.noise import NoiseKinds, NoiseState
from streamgp.numerics.arrays import AnyArray
from streamgp.weights import Mixture, WeightRule, scan_rule, trust


@register
class Waiting(eqx.Module):
    """The forecasts of the next h rows, each made h rows before its own; oldest first.

    Attributes
    ----------
    loc, var
        Mean and variance by every filter; NaN where nothing was forecast, which is so before the first row.
    noise
        The noise as it was known when the forecast was made; None where it is constant.
    """

    loc: Float[AnyArray, "h f e"]
    var: Float[AnyArray, "h f e"]
    noise: NoiseState | None

    @classmethod
    def nothing(cls, horizon: int, num_filters: int, num_outputs: int, noise: NoiseState | None) -> "Waiting":
        """Before the first row."""
        none = np.full((horizon, num_filters, num_outputs), np.nan)
        return cls(none, none, jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], horizon, axis=0), noise))

    @property
    def horizon(self) -> int:
        """h, the number of rows from the last one learnt to the one that is forecast."""
        return self.loc.shape[0]


class Judged(NamedTuple):
    """What judging leads on: states of the weights and of the noise (None: constant), forecasts that wait (None: no
    horizon), and counts of the recalibration (None: there is none).
    """

    weights: Any
    noise: NoiseState | None
    waiting: Waiting | None
    levels: Float[AnyArray, "e j"] | None = None


def judge(
    rule: WeightRule,
    kinds: NoiseKinds,
    state: Judged,
    loc: Float[AnyArray, "n f e"],
    var: Float[AnyArray, "n f e"],
    y: Float[AnyArray, "n e"],
    mask: Bool[AnyArray, " n"],
    gap: Float[AnyArray, " n"],
    is_outlier: Bool[AnyArray, "n f"] | None = None,
) -> tuple[Judged, Predictive, Float[Array, "n r"] | None, Bool[Array, " n"] | None]:
    """Learn from consecutive rows.

    Parameters
    ----------
    loc, var
        Mean and variance by every filter, of each row itself or, where forecasts wait, of the row h rows later.
    y, mask
        Targets; rows with a false `mask` are not there.
    gap
        Time from the row before to each row.
    is_outlier
        Which filters take each row for an outlier; None where none has a guard.

    Returns
    -------
    state, predictive, rules, flagged
        What the rows have taught; what all experts made of `loc` and `var`, weighed by what was known then; how
        much each of several weight rules counted; and which rows are outliers to most of the weight (None where none
        has a guard). Known are the rows before, and to a forecast its own row too.
    """
    weights, noise, waiting, levels = state
    due, judged, table, noises, last = (loc, var), mask, _Timetable.of(mask), None, None
    if waiting is not None:
        due = table.fallen_due((waiting.loc, waiting.var), due)
        judged = mask & ~jnp.isnan(due[0]).all((1, 2))
        gap = jnp.full(len(y), float(waiting.horizon), y.dtype)
    if noise is not None:
        error = y[:, None, :] - due[0]
        if waiting is not None and waiting.noise is not None:
            counted = judged[:, None] if is_outlier is None else judged[:, None] & ~jnp.asarray(is_outlier)
            fallen = jnp.where(counted[:, :, None], error, 0.0)
            last = table.fallen_due(waiting.noise.error, fallen)
        noise, noises = kinds.update_rows(noise, error, due[1], gap, judged, last, is_outlier)
    noises_due = noises
    if waiting is not None:
        noises = _after_each(noises, noise)
        noises_due = table.fallen_due(waiting.noise, noises)
        waiting = table.left(waiting, Waiting(loc, var, noises))
    loc, var, dof = with_noise(kinds, noises, loc, var, gap)
    experts_due = with_noise(kinds, noises_due, due[0], due[1], gap)
    # The errors of h forecasts that overlap are much the same error: together they count as one row.
    overlap = 1 if waiting is None else waiting.horizon
    log_density = Predictive(jnp.zeros(loc.shape[:2]), *experts_due).component_log_density(y) / overlap
    log_density, flagged = judged_density(log_density), None
    if is_outlier is not None:
        is_outlier = jnp.repeat(jnp.asarray(is_outlier), len(kinds.discounts), axis=1)
    weights, known = scan_rule(rule, weights, log_density, judged, is_outlier)
    if is_outlier is not None:
        flagged = jax.vmap(lambda w, outlier: trust(rule.predict(w), outlier))(known, is_outlier) < 0.5
    before = None
    if levels is not None:
        their_weights, their_loc, their_var = only_finite(jax.vmap(rule.predict)(known), *experts_due[:2])
        u = Predictive(their_weights, their_loc, their_var, experts_due[2]).levels(y)
        levels, before = recalibration.learn_rows(levels, u, judged)
    if waiting is not None:
        known = _after_each(known, weights)
        before = None if levels is None else _after_each(before, levels)
    shares = None if before is None else recalibration.shares(before)
    rules = jnp.exp(known.log_weights) if isinstance(rule, Mixture) else None
    log_weights, loc, var = only_finite(jax.vmap(rule.predict)(known), loc, var)
    loc = jnp.where(mask[:, None, None], loc, jnp.nan)
    predictive = Predictive(log_weights, loc, var, dof, recalibration=shares)
    return Judged(weights, noise, waiting, levels), predictive, rules, flagged


def judged_density(log_density: Float[AnyArray, "*n k"]) -> Float[AnyArray, "*n k"]:
    """Log densities in which an expert that says nothing finite counts like the worst of the others."""
    xp = namespace(log_density)
    missing = xp.isnan(log_density)
    worst = xp.where(missing, xp.inf, log_density).min(-1, keepdims=True)
    return xp.where(missing, xp.where(worst < xp.inf, worst, 0.0), log_density)


def only_finite(
    log_weights: Float[AnyArray, "*n k"], loc: Float[AnyArray, "*n k e"], var: Float[AnyArray, "*n k e"]
) -> tuple[Float[AnyArray, "*n k"], Float[AnyArray, "*n k e"], Float[AnyArray, "*n k e"]]:
    """Predictions in which experts whose numbers are not finite have no weight."""
    xp = namespace(loc, var, log_weights)
    sound = (xp.isfinite(loc) & xp.isfinite(var)).all(-1)
    loc, var = xp.where(sound[..., None], loc, 0.0), xp.where(sound[..., None], var, 1.0)
    left = xp.where(sound, log_weights, -xp.inf)
    total = xp.log(xp.exp(left).sum(-1, keepdims=True))
    renormalised = xp.where(xp.isfinite(total), left - total, log_weights)
    return xp.where(sound.all(-1, keepdims=True), log_weights, renormalised), loc, var


def with_noise(
    kinds: NoiseKinds,
    noises: NoiseState | None,
    loc: Float[AnyArray, "n f e"],
    var: Float[AnyArray, "n f e"],
    gap: Float[AnyArray, " n"],
) -> tuple[Float[AnyArray, "n k e"], Float[AnyArray, "n k e"], Float[Array, "n k"] | None]:
    """Mean, variance and degrees of freedom (None: Gaussian) of all experts, from the predictions of the filters.

    `noises` are the states of the noise that are known to each row, or a single one for all; `gap` is the time since.
    """
    if noises is None:
        return jnp.asarray(loc), var, None
    mean, scaled, dof = kinds.predict(noises, loc, var, gap)
    return mean, scaled, jnp.asarray(dof)


class _Timetable(NamedTuple):
    """When the forecasts fall due along some rows, of which a mask may leave some out.

    Whatever is kept of the rows, there is a queue of it from the h rows before; that of the rows themselves joins
    the queue behind, in the `order` of those that are there. The one with number ``due[i]`` is about row i.
    """

    order: Int[Array, " n"]
    due: Int[Array, " n"]
    count: Int[Array, ""]

    @classmethod
    def of(cls, mask: Bool[AnyArray, " n"]) -> "_Timetable":
        mask = jnp.asarray(mask)
        return cls(jnp.argsort(~mask), jnp.cumsum(mask) - mask, mask.sum())

    def fallen_due(self, queue: Any, made: Any) -> Any:
        """Of each row, what was kept when it was forecast."""
        return jax.tree.map(lambda a, b: self._joined(a, b)[self.due], queue, made)

    def left(self, queue: Any, made: Any) -> Any:
        """The queue after the rows."""
        return jax.tree.map(
            lambda a, b: jax.lax.dynamic_slice_in_dim(self._joined(a, b), self.count, len(a)), queue, made
        )

    def _joined(self, queue: AnyArray, made: AnyArray) -> Array:
        return jnp.concatenate([jnp.asarray(queue), jnp.asarray(made)[self.order]])


def _after_each(before: Any, last: Any) -> Any:
    """The state after each row, from those before each row and the one after all."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a[1:], jnp.asarray(b)[None]]), before, last)
