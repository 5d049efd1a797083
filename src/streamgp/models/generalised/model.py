"""An online ensemble for targets that are labels, counts or grades: Gaussian beliefs, one Laplace step per target.

Each expert keeps a Gaussian over its weights; the ensemble weighs the experts by the probability that they gave to
what was observed (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import group_by_shape, join_groups, member, split_by_group, stack
from streamgp.filters.engine.clock import advance, elapsed
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.kalman import FilterState
from streamgp.filters.laplace import Block, Experts, Latent, predict_rows, prior_state, update_block
from streamgp.likelihoods import Categorical, LatentPredictive, Likelihood, ceiling
from streamgp.likelihoods.ceiling import Ceiling
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.likelihoods.overdispersion import Overdispersion
from streamgp.models.agreement import check_ensemble
from streamgp.models.contract import Described, Info, StreamModel
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.weights import WeightRule, scan_rule
from streamgp.weights.experts import expert_weights, prior_weights, rule_weights

# Rows of a block: its steps cost its square each, and what is done once for a block the size of the covariances.
LENGTH = 32


class GeneralisedExpert(Module):
    """One basis with its prior variance v, its likelihood and its dynamics."""

    basis: Basis
    prior_var: Float[AnyArray, ""]
    likelihood: Likelihood
    dynamics: Dynamics
    name: str = static_field(default="")


@register
class GeneralisedGroup(Module):
    """Experts of equal shape: G bases (leading axis), each with R likelihoods and dynamics on its features."""

    basis: Basis
    prior_var: Float[AnyArray, "g r"]
    likelihood: Likelihood
    dynamics: Dynamics

    @property
    def num_features(self) -> int:
        """Return F, the number of features of every basis of the group."""
        return self.basis.num_features

    def features(self, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "g 1 n f"], Bool[np.ndarray, " n"]]:
        """Return the features of rows by every basis, and which rows one of the bases was not built for."""
        bases = [member(self.basis, g) for g in range(len(self.prior_var))]
        outside = np.any([np.asarray(basis.outside(X)) for basis in bases], axis=0)
        return np.stack([np.asarray(basis(X)) for basis in bases])[:, None], outside


@register
class GeneralisedState(Module):
    """Belief of every expert, a stack for each group; the weights; the clock.

    Of counts, how large they may be, and how their variance follows the inputs.
    """

    filters: tuple[FilterState, ...]
    weights: Any
    last_time: Float[AnyArray, ""]
    ceiling: Ceiling | None = None
    layer: Overdispersion | None = None


@register
class GeneralisedEnsemble(StreamModel):
    """A mixture of streaming experts with a likelihood that need not be Gaussian.

    Build it with `generalised_ensemble`. Experts keep the order in which they were given. Predictions are
    `LatentPredictive`s. With `offset`, the last column of X is no input but is added to all latent values: for
    counts, the log of the exposure. With `highest`, a rate of counts that is believed at the start, counts far above
    all before are not learnt, and predictions are bounded, as `streamgp.likelihoods.ceiling` has it. With
    `noise_inputs`, the variance of counts follows these, as `streamgp.likelihoods.overdispersion` has it.
    """

    learns_far_inputs: ClassVar[bool] = False

    groups: tuple[GeneralisedGroup, ...]
    rule: WeightRule
    log_prior: Float[AnyArray, " k"]
    time_unit: Float[AnyArray, ""]
    order: tuple[int, ...] = static_field()
    names: tuple[str, ...] = static_field()
    num_inputs: int = static_field()
    offset: bool = static_field(default=False)
    num_outputs: int = static_field(default=1)
    highest: Float[AnyArray, ""] | None = None
    noise_inputs: NoiseInputs | None = None

    @property
    def num_experts(self) -> int:
        """Return K, the number of experts."""
        return len(self.order)

    def check_state(self, state: GeneralisedState) -> None:
        """Raise ValueError if the state has other filters or weights than this ensemble."""
        stacks = [group.prior_var.shape for group in self.groups]
        check_ensemble(self.rule, self.order, stacks, state.filters, state.weights)

    def describe(self, state: GeneralisedState) -> Described:
        """Return the weight of each expert and of each rule in the next row."""
        return Described(expert_weights(self.rule, state.weights), rule_weights(self.rule, state.weights))

    def with_prior_weights(
        self, state: GeneralisedState, prior_log_weights: Float[AnyArray, " k"] | None, rows: int
    ) -> GeneralisedState:
        """Return the state with the weights at their prior, to which these are added; `rows` is not used."""
        return replace(state, weights=prior_weights(self.rule, self.log_prior, prior_log_weights))

    def init(self, key: Key, horizon: int = 0) -> GeneralisedState:
        """Return the prior state; `key` is not used."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since labels and counts are not forecast ahead, got {horizon}")
        filters = tuple(
            prior_state(group.num_features, group.likelihood.num_latents, group.prior_var) for group in self.groups
        )
        start = None if self.highest is None else ceiling.starting_at(self.highest)
        layer = None if self.noise_inputs is None else Overdispersion.start(self.noise_inputs)
        return GeneralisedState(filters, prior_weights(self.rule, self.log_prior), np.asarray(np.nan), start, layer)

    def predict(
        self, state: GeneralisedState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> LatentPredictive:
        """Predict each row as if it were the next one."""
        X, offset = self._split(np.asarray(X))
        tau = elapsed(self.time_unit, state.last_time, X, as_numpy(times))
        parts = []
        for group, belief in zip(self.groups, state.filters, strict=True):
            experts = Experts(belief, group.dynamics, group.prior_var, group.features(X)[0])
            parts.append(predict_rows(experts, tau, offset, group.likelihood.num_latents))
        predictive = self._mix(self.rule.predict(state.weights), parts)
        if state.ceiling is not None:
            predictive = ceiling.bounded(predictive, ceiling.limit(state.ceiling.rate, offset))
        if state.layer is None or self.noise_inputs is None:
            return predictive
        return state.layer.widen(self.noise_inputs.which, X, predictive)

    def update(
        self,
        state: GeneralisedState,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n 1"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
        later: None = None,
    ) -> tuple[GeneralisedState, Info]:
        """Learn from the rows in order and return the one-step-ahead prediction of each.

        Rows with a false `mask` change nothing; their entry in the returned prediction has no meaning. Rows whose
        target is NaN are predicted, and time passes, but nothing is learnt.
        """
        X, y, times = np.asarray(X), np.asarray(y), as_numpy(times)
        n = len(X)
        mask = np.ones(n, bool) if mask is None else np.asarray(mask)
        if not mask.any():
            return state, Info(self.predict(state, np.zeros_like(X)), np.zeros(n, bool))
        clock, last_time = advance(self.time_unit, state.last_time, mask, times)
        if mask.all():
            return self._learn(replace(state, last_time=last_time), X, y[:, 0], clock)
        state, info = self._learn(replace(state, last_time=last_time), X[mask], y[mask, 0], clock[mask])
        where = np.maximum(np.cumsum(mask) - 1, 0)
        return state, tree.map(lambda a: a[where], info)._replace(outside=info.outside[where] & mask)

    def _learn(
        self,
        state: GeneralisedState,
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        clock: Float[np.ndarray, " n"],
    ) -> tuple[GeneralisedState, Info]:
        """Learn rows, each so long after the last one before them as the `clock` says."""
        X, offset = self._split(X)
        learnt, limits, top = np.isfinite(y), None, state.ceiling
        y = np.where(learnt, y, 0.0)
        if state.ceiling is not None:
            top, limits = ceiling.learn(state.ceiling, y, offset, learnt)
            learnt = learnt & (y <= limits)
        filters, parts, outside = self._filter(state, X, Block(y, learnt, clock, offset))
        predictive = self._mix(np.zeros(self.num_experts), parts)
        if limits is not None:
            predictive = ceiling.bounded(predictive, limits)
        log_density = predictive.component_log_density(y[:, None])
        weights, before = scan_rule(self.rule, state.weights, log_density, learnt)
        rules = None if before.of_rules is None else np.exp(before.of_rules)
        predictive, layer = replace(predictive, log_weights=before.log_weights), state.layer
        if layer is not None and self.noise_inputs is not None:
            layer, predictive = layer.learn(self.noise_inputs.which, X, predictive, y, learnt)
        return GeneralisedState(filters, weights, state.last_time, top, layer), Info(predictive, outside, rules)

    def _filter(
        self, state: GeneralisedState, X: Float[np.ndarray, "n d"], rows: Block
    ) -> tuple[tuple[FilterState, ...], list[Latent], Bool[np.ndarray, " n"]]:
        """Run all experts over the rows, block by block; those that are switched off keep their beliefs."""
        Phis, outside = zip(*(group.features(X) for group in self.groups), strict=True)
        likelihood = tree.map(lambda *parts: join_groups(parts), *(group.likelihood for group in self.groups))
        beliefs, parts = list(state.filters), []
        for at in range(0, len(X), LENGTH):
            part = slice(at, at + LENGTH)
            start = rows.tau[at - 1] if at else 0.0
            block = Block(rows.y[part], rows.mask[part], rows.tau[part] - start, rows.offset[part])
            stacks = [
                Experts(belief, group.dynamics, group.prior_var, Phi[:, :, part])
                for group, belief, Phi in zip(self.groups, beliefs, Phis, strict=True)
            ]
            beliefs, found = update_block(stacks, block, likelihood)
            parts.append(found)
        joined = [
            Latent(*(np.concatenate(a, axis=2) for a in zip(*each, strict=True))) for each in zip(*parts, strict=True)
        ]
        if self.rule.shuts_down:
            alive = np.isfinite(self.rule.predict(state.weights))
            live = split_by_group(alive, self.order, [group.prior_var.shape for group in self.groups])
            beliefs = [
                tree.map(lambda a, b, on=on: np.where(on[..., None, None], a, b), new, old)
                for on, new, old in zip(live, beliefs, state.filters, strict=True)
            ]
        return tuple(beliefs), joined, np.any(outside, axis=0)

    def add_class(
        self, state: GeneralisedState, num_classes: int, rows: int
    ) -> tuple["GeneralisedEnsemble", GeneralisedState]:
        """Return the model and its state with one class more than `num_classes`, after so many `rows`.

        The latent values of the class are at their prior, and its intercept is that of a class seen half a time in
        all rows. Where the likelihood has a spare class, only the intercept changes.
        """
        groups = []
        for group in self.groups:
            assert isinstance(group.likelihood, Categorical)
            groups.append(replace(group, likelihood=group.likelihood.with_class(num_classes, rows)))
        model = replace(self, groups=tuple(groups))
        if self.groups[0].likelihood.num_latents == groups[0].likelihood.num_latents:
            return model, state
        filters = []
        for group, belief in zip(self.groups, state.filters, strict=True):
            new = prior_state(group.num_features, 1, group.prior_var)
            p, q = belief.cov.shape[-1], new.cov.shape[-1]
            cov = np.zeros((*group.prior_var.shape, p + q, p + q))
            cov[..., :p, :p], cov[..., p:, p:] = belief.cov, new.cov
            filters.append(FilterState(np.concatenate([belief.mean, new.mean], axis=-2), cov))
        return model, replace(state, filters=tuple(filters))

    def _split(self, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n inputs"], Float[np.ndarray, " n"]]:
        """Split X into the inputs and the offset of the latent values."""
        return (X[:, :-1], X[:, -1]) if self.offset else (X, np.zeros(len(X)))

    def _mix(self, log_weights: Float[np.ndarray, " k"], parts: Sequence[Latent]) -> LatentPredictive:
        """Mix predictions of all groups, (G, R, n, ...) each, as (n, K, ...) in the order given by the user."""
        back = np.argsort(np.asarray(self.order))

        def in_order(*each: np.ndarray) -> np.ndarray:
            return join_groups(each)[back]

        loc, cov = (np.moveaxis(in_order(*each), 0, 1) for each in zip(*parts, strict=True))
        likelihood = tree.map(in_order, *(group.likelihood for group in self.groups))
        rows = tree.map(lambda a: np.broadcast_to(a, (len(loc), *a.shape)), likelihood)
        return LatentPredictive(np.broadcast_to(log_weights, loc.shape[:2]), loc, cov, rows)


def generalised_ensemble(
    experts: Sequence[GeneralisedExpert],
    rule: WeightRule,
    *,
    log_prior: Any = None,
    time_unit: float = 1.0,
    offset: bool = False,
    highest: float | None = None,
    noise_inputs: NoiseInputs | None = None,
) -> GeneralisedEnsemble:
    """Group experts by shape into one model.

    Parameters
    ----------
    experts
        Experts over the same inputs, with likelihoods of one kind. Those that hold the same basis object share its
        features.
    rule
        How the weights follow the experts' predictions.
    log_prior
        Log of the initial weights; uniform by default.
    time_unit
        The length of one time step, for streams with time stamps.
    offset
        Whether X has a last column that is added to the latent values.
    highest
        For counts, the largest rate believed at the start; None: any count is believed.
    noise_inputs
        For negative binomial counts, the inputs that their variance follows; None: it follows none.
    """
    if not experts:
        raise ValueError("generalised_ensemble: expected at least one expert, got none")
    groups, order = [], []
    for rows in group_by_shape([expert.basis for expert in experts]):
        basis = stack([experts[members[0]].basis for members in rows])
        each = [stack([_without_basis(experts[i]) for i in members]) for members in rows]
        groups.append(GeneralisedGroup(*tree.map(np.asarray, (basis, *stack(each)))))
        order.extend(i for members in rows for i in members)
    k = len(experts)
    return GeneralisedEnsemble(
        groups=tuple(groups),
        rule=rule,
        log_prior=np.full(k, -np.log(k)) if log_prior is None else np.asarray(log_prior),
        time_unit=np.asarray(float(time_unit)),
        order=tuple(order),
        names=tuple(expert.name for expert in experts),
        num_inputs=experts[0].basis.num_inputs + offset,
        offset=offset,
        highest=None if highest is None else np.asarray(float(highest)),
        noise_inputs=noise_inputs,
    )


def _without_basis(expert: GeneralisedExpert) -> tuple[AnyArray, Likelihood, Dynamics]:
    return expert.prior_var, expert.likelihood, expert.dynamics
