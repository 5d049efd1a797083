"""Renewal: as the stream goes on, experts are fitted anew to more rows, and later ones, than the warm-up had.

Bases that gain from more rows have two fits in the ensemble. A renewal replaces the one that counts for less, filter
by filter and in the same arrays, so that nothing grows and nothing is compiled. The other goes on as it is.
"""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from streamgp.bases import ActiveDims, Basis, Boosted, Learner, TrainedFourier
from streamgp.bases.learners import LearnerError
from streamgp.filters.engine.blocks import member, stack
from streamgp.filters.kalman import ExpertVariances
from streamgp.models.base import FittedModel, WarmupRows
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import Fit, fit_basis
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.models.gaussian.state import EnsembleState
from streamgp.models.gaussian.warmup import dynamics_of
from streamgp.models.spec import Spec
from streamgp.numerics import keys, tree
from streamgp.numerics.batching import LARGEST, split_batches
from streamgp.weights import BMA
from streamgp.weights.experts import expert_weights, joined_weights

MAX_SEARCHED_ROWS = 2048
_RENEWAL_KEY = 2_000  # among the keys that number bases and starts


class Slot(NamedTuple):
    """The place of one basis in an ensemble: the number of its group, and its number in there."""

    group: int
    number: int


def slots_of(model: Ensemble, kind: type[Basis]) -> list[list[Slot]]:
    """Return the slots with a basis of a kind; those of one list hold fits of one basis over the same inputs."""
    return [
        [Slot(g, number) for number in range(len(group.noise.prior_var))]
        for g, group in enumerate(model.groups)
        if isinstance(_inner(group.basis), kind)
    ]


def conditioned_apart(model: Ensemble, state: EnsembleState, rows: WarmupRows, times: Any) -> EnsembleState:
    """Return the state in which experts of trees and of regressors have learnt the rows alone that these have not."""
    for slots in (*slots_of(model, Boosted), *slots_of(model, Learner)):
        honest = _honest(model.groups[slots[0].group].basis, rows)
        for slot in slots:
            state = _conditioned(model, state, slot, rows, honest, times)
    return state


def renew(
    spec: Spec,
    fitted: FittedModel,
    state: EnsembleState,
    rows: WarmupRows,
    times: np.ndarray | None,
    *,
    learnt: int,
    searches: bool,
    seed: int,
) -> tuple[FittedModel, EnsembleState]:
    """Fit the weakest experts of every basis that can be renewed to the rows, and let them learn these.

    Parameters
    ----------
    rows, times
        Of the stream so far, in its order.
    learnt
        How many rows there were in all.
    searches
        Whether frequencies are trained as well, which takes seconds, while trees take less.
    """
    model, table = fitted[0], list(fitted[1])
    assert isinstance(model, Ensemble)
    new = np.zeros(len(table), bool)
    weight = expert_weights(model.rule, state.weights)
    for kind in (Boosted, Learner, TrainedFourier) if searches else (Boosted, Learner):
        for slots in slots_of(model, kind):
            weights = [weight[_experts(model, slot)].sum() for slot in slots]
            weakest, best = slots[int(np.argmin(weights))], slots[int(np.argmax(weights))]
            key = keys.fold_in(keys.key(seed), _RENEWAL_KEY + weakest.group)
            basis = member(model.groups[best.group].basis, best.number)
            try:
                fit = _refitted(basis, rows, keys.fold_in(key, learnt))
            except LearnerError as error:  # the user's code: what it was fitted to before goes on
                warnings.warn(f"renewal after {learnt:,} rows: {error}", stacklevel=2)
                continue
            model = _replaced(spec, model, weakest, fit, rows)
            state = _conditioned(model, state, weakest, rows, _honest(fit.basis, rows), times)
            for i in _experts(model, weakest):
                table[i], new[i] = replace(table[i], gain=fit.gain, since=learnt), True
    resting = state.resting
    if resting is not None:
        resting = resting.joined(np.asarray(new.reshape(len(model.order), -1).any(1)))
    return FittedModel(model, table), replace(state, weights=joined_weights(state.weights, new), resting=resting)


def _inner(basis: Basis) -> Basis:
    return basis.basis if isinstance(basis, ActiveDims) else basis


def _filters(model: Ensemble, slot: Slot) -> np.ndarray:
    """Return the positions of a slot's filters in the user's order."""
    sizes = [group.noise.prior_var.size for group in model.groups]
    dynamics = model.groups[slot.group].noise.prior_var.shape[1]
    first = sum(sizes[: slot.group]) + slot.number * dynamics
    return np.asarray(model.order[first : first + dynamics])


def _experts(model: Ensemble, slot: Slot) -> np.ndarray:
    """Return the positions of a slot's experts: of each filter, one for each kind of noise."""
    kinds = len(model.noise)
    return (_filters(model, slot)[:, None] * kinds + np.arange(kinds)).ravel()


def _refitted(basis: Any, rows: WarmupRows, key: Any) -> Fit:
    """Fit a basis like this one to the rows; frequencies set out from its own."""
    inner = _inner(basis)
    X, y = rows.X[:, : inner.num_inputs], rows.y
    new = inner.anew(X, y, key) if isinstance(inner, Boosted | Learner) else inner
    some = _thinned(_honest(new, rows), MAX_SEARCHED_ROWS)
    fit = fit_basis(new, X[some], y[some])
    return replace(fit, basis=ActiveDims(fit.basis, basis.num_inputs)) if basis is not inner else fit


def _honest(basis: Basis, rows: WarmupRows) -> np.ndarray:
    """Return which of the rows that a basis was built from its experts may learn."""
    return np.arange(len(rows.X))[basis.honest_rows(len(rows.X))]


def _thinned(rows: np.ndarray, most: int) -> np.ndarray:
    """Return the rows, or so many of them, evenly."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)]


def _replaced(spec: Spec, model: Ensemble, slot: Slot, fit: Fit, rows: WarmupRows) -> Ensemble:
    """Return the model with a fit in a slot."""
    group = model.groups[slot.group]
    some = rows.X[_thinned(np.arange(len(rows.X)), LARGEST)]
    each = [dynamics for _, _, dynamics in dynamics_of(spec, "", fit.basis, fit.prior_var, some)]
    R = len(each)
    variances = ExpertVariances(np.full(R, fit.prior_var), np.full(R, fit.noise_var))

    def put(whole: Any, new: Any) -> np.ndarray:
        changed = np.array(whole)
        changed[slot.number] = new
        return changed

    new = replace(
        group,
        basis=tree.map(put, group.basis, fit.basis),
        noise=tree.map(put, group.noise, variances),
        dynamics=tree.map(put, group.dynamics, stack(each)),
    )
    return replace(model, groups=(*model.groups[: slot.group], new, *model.groups[slot.group + 1 :]))


def _conditioned(
    model: Ensemble, state: EnsembleState, slot: Slot, rows: WarmupRows, learnt: np.ndarray, times: Any
) -> EnsembleState:
    """Return the state in which the filters of a slot have learnt some of the rows, and nothing else."""
    group = model.groups[slot.group]
    parts = tree.map(np.asarray, (group.basis, group.noise, group.dynamics))
    basis, noise, dynamics = (member(part, slot.number) for part in parts)
    experts = [
        Expert(basis, np.asarray(noise.prior_var[r]), np.asarray(noise.noise_var[r]), member(dynamics, r))
        for r in range(len(noise.prior_var))
    ]
    alone = ensemble(
        experts,
        BMA(),
        num_outputs=model.num_outputs,
        time_unit=float(model.time_unit),
        kinds=model.noise,
        guarded=model.guarded,
    )
    own = alone.init(keys.key(0))
    for part, _ in split_batches(len(learnt)):
        which = learnt[part]
        own, _ = alone.update(own, rows.X[which], rows.y[which], None, None if times is None else times[which])

    def put(whole: Any, new: Float[Any, "..."]) -> np.ndarray:
        changed = np.array(whole)
        changed[slot.number] = np.asarray(new)[0]
        return changed

    filters = list(state.filters)
    filters[slot.group] = tree.map(put, filters[slot.group], own.filters[0])
    if state.noise is None or own.noise is None:
        return replace(state, filters=tuple(filters))
    return replace(state, filters=tuple(filters), noise=state.noise.with_filters(_filters(model, slot), own.noise))
