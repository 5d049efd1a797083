"""An online ensemble for targets that are labels, counts or grades: Gaussian beliefs, one Laplace step per target.

Each expert keeps a Gaussian over its weights; the ensemble weighs the experts by the probability that they gave to
what was observed (Lu et al. 2022, 3.2; Waxman and Djuric 2024, 3.4).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray, Info, StreamModel
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import features, group_by_shape, in_blocks, member, split_by_group, stack
from streamgp.filters.engine.clock import advance, elapsed
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.kalman import FilterState
from streamgp.filters.laplace import predict_rows, prior_state, update_blocks
from streamgp.likelihoods import Categorical, LatentPredictive, Likelihood, ceiling
from streamgp.likelihoods.ceiling import Ceiling
from streamgp.models.agreement import check_ensemble
from streamgp.numerics import tree
from streamgp.numerics.batching import SMALL
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.compilation import LIGHT, compiled, is_traced
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.weights import Mixture, WeightRule, scan_rule
from streamgp.weights.experts import expert_weights, prior_weights, rule_weights

# Rows of a block: its steps cost its square each, which is expensive for small experts (docs/research/labels.md).
SHORT, LONG = 8, 32
# From so many coefficients of an expert on, long blocks are faster.
LARGE = 200


class GeneralisedExpert(Module):
    """One basis with its prior variance v, its likelihood and its dynamics."""

    basis: Basis
    prior_var: Float[Array, ""]
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
        rows = jnp.zeros((1, self.basis.num_inputs))
        return jax.eval_shape(lambda bases: member(bases, 0)(rows), self.basis).shape[1]


@register
class GeneralisedState(Module):
    """Belief of every expert, a stack for each group; the weights; the clock; for counts, how large they may be."""

    filters: tuple[FilterState, ...]
    weights: Any
    last_time: Float[AnyArray, ""]
    ceiling: Ceiling | None = None


@register
class GeneralisedEnsemble(StreamModel):
    """A mixture of streaming experts with a likelihood that need not be Gaussian.

    Build it with `generalised_ensemble`. Experts keep the order in which they were given. Predictions are
    `LatentPredictive`s. With `offset`, the last column of X is no input but is added to all latent values: for
    counts, the log of the exposure. With `highest`, a rate of counts that is believed at the start, counts far above
    all before are not learnt, and predictions are bounded, as `streamgp.likelihoods.ceiling` has it.
    """

    learns_far_inputs: ClassVar[bool] = False
    # The warm-up needs one compiled program.
    padded_to: ClassVar[tuple[int, ...]] = (SMALL, 1)

    groups: tuple[GeneralisedGroup, ...]
    rule: WeightRule
    log_prior: Float[Array, " k"]
    time_unit: Float[Array, ""]
    order: tuple[int, ...] = static_field()
    names: tuple[str, ...] = static_field()
    num_inputs: int = static_field()
    offset: bool = static_field(default=False)
    num_outputs: int = static_field(default=1)
    highest: Float[Array, ""] | None = None

    @property
    def num_experts(self) -> int:
        """Return K, the number of experts."""
        return len(self.order)

    def check_state(self, state: GeneralisedState) -> None:
        """Raise ValueError if the state has other filters or weights than this ensemble."""
        stacks = [group.prior_var.shape for group in self.groups]
        check_ensemble(self.rule, self.order, stacks, state.filters, state.weights)

    def expert_weights(self, state: GeneralisedState) -> Float[np.ndarray, " k"]:
        """Return the weight of each expert in the next row."""
        return expert_weights(self.rule, state.weights)

    def with_prior_weights(
        self, state: GeneralisedState, prior_log_weights: Float[AnyArray, " k"] | None
    ) -> GeneralisedState:
        """Return the state with the weights at their prior, to whose logarithm `prior_log_weights` are added."""
        return replace(state, weights=prior_weights(self.rule, self.log_prior, prior_log_weights))

    def rule_weights(self, state: GeneralisedState) -> dict[str, float]:
        """Return the weight of each of several weight rules for the next row, by name; empty where there is one."""
        return rule_weights(self.rule, state.weights)

    def init(self, key: Key, horizon: int = 0) -> GeneralisedState:
        """Return the prior state; `key` is not used."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since labels and counts are not forecast ahead, got {horizon}")
        prior_vars = [group.prior_var for group in self.groups]
        if not is_traced(self):
            # NumPy arrays need no compilation.
            prior_vars = as_numpy(prior_vars)
        filters = tuple(
            prior_state(group.num_features, group.likelihood.num_latents, prior_var)
            for group, prior_var in zip(self.groups, prior_vars, strict=True)
        )
        last_time = jnp.asarray(jnp.nan, self.time_unit.dtype)
        start = None if self.highest is None else ceiling.starting_at(self.highest)
        return GeneralisedState(filters, prior_weights(self.rule, self.log_prior), last_time, start)

    @partial(compiled, options=LIGHT)
    def predict(
        self, state: GeneralisedState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> LatentPredictive:
        """Predict each row as if it were the next one."""
        X, offset = self._split(X)
        tau = elapsed(self.time_unit, state.last_time, X, times)

        def one_basis(args: tuple) -> tuple:
            basis, *experts = args
            Phi = basis(X)

            def one(expert: tuple) -> tuple:
                belief, dynamics, prior_var, likelihood = expert
                return predict_rows(belief, Phi, tau, offset, dynamics, prior_var, likelihood.num_latents)

            return jax.lax.map(one, tuple(experts))

        parts = [
            jax.lax.map(one_basis, (group.basis, beliefs, group.dynamics, group.prior_var, group.likelihood))
            for group, beliefs in zip(self.groups, state.filters, strict=True)
        ]
        predictive = self._mix(self.rule.predict(state.weights), parts, X.shape[0])
        if state.ceiling is None:
            return predictive
        return ceiling.bounded(predictive, ceiling.limit(state.ceiling.rate, offset))

    @partial(compiled, options=LIGHT)
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
        n = X.shape[0]
        mask = jnp.ones(n, bool) if mask is None else mask
        X, offset = self._split(X)
        clock, last_time = advance(self.time_unit, state.last_time, mask, times)
        learnt, limits, top = mask & jnp.isfinite(y[:, 0]), None, state.ceiling
        y = jnp.where(learnt[:, None], y, 0.0)
        if state.ceiling is not None:
            top, limits = ceiling.learn(state.ceiling, y[:, 0], offset, learnt)
            learnt = learnt & (y[:, 0] <= limits)
        each = jnp.concatenate([y, offset[:, None], learnt[:, None]], axis=1)
        large = max(belief.mean.shape[-2] for belief in state.filters) >= LARGE
        blocks = in_blocks(X, each, mask, clock, length=LONG if large else SHORT)
        live: list = [None] * len(self.groups)
        if self.rule.shuts_down:
            shapes = [group.prior_var.shape for group in self.groups]
            live = split_by_group(jnp.isfinite(self.rule.predict(state.weights)), self.order, shapes)
        runs = [
            _update_group(group, beliefs, blocks, alive)
            for group, beliefs, alive in zip(self.groups, state.filters, live, strict=True)
        ]
        filters, parts, outside = zip(*runs, strict=True)
        unpadded = [tuple(a[:, :, :n] for a in part) for part in parts]
        predictive = self._mix(jnp.zeros(self.num_experts), unpadded, n)
        if limits is not None:
            predictive = ceiling.bounded(predictive, limits)
        log_density = predictive.component_log_density(y)
        weights, before = scan_rule(self.rule, state.weights, log_density, learnt)
        predictive = replace(predictive, log_weights=jax.vmap(self.rule.predict)(before))
        rules = jnp.exp(before.log_weights) if isinstance(self.rule, Mixture) else None
        anywhere = jnp.stack(outside).any(0)[:n] & mask
        return GeneralisedState(tuple(filters), weights, last_time, top), Info(predictive, anywhere, rules)

    def add_class(
        self, state: GeneralisedState, num_classes: int, rows: int
    ) -> tuple["GeneralisedEnsemble", GeneralisedState]:
        """Return the model and its state with one class more than `num_classes`, after so many `rows`.

        The latent values of the class are at their prior, and its intercept is that of a class seen half a time in
        all rows. Where the likelihood has a spare class, only the intercept changes.
        """
        likelihoods = jax.vmap(jax.vmap(lambda likelihood: likelihood.with_class(num_classes, rows)))
        likelihood = self.groups[0].likelihood
        assert isinstance(likelihood, Categorical)
        if num_classes < likelihood.num_classes:
            groups = tuple(replace(group, likelihood=likelihoods(group.likelihood)) for group in self.groups)
            return replace(self, groups=groups), state
        groups, filters = [], []
        for group, belief in zip(self.groups, state.filters, strict=True):
            new = prior_state(group.num_features, 1, group.prior_var)
            p, q = belief.cov.shape[-1], new.cov.shape[-1]
            cov = jnp.zeros((*group.prior_var.shape, p + q, p + q), belief.cov.dtype)
            cov = cov.at[..., :p, :p].set(belief.cov).at[..., p:, p:].set(new.cov)
            filters.append(FilterState(jnp.concatenate([belief.mean, new.mean], axis=-2), cov))
            groups.append(replace(group, likelihood=likelihoods(group.likelihood)))
        return replace(self, groups=tuple(groups)), replace(state, filters=tuple(filters))

    def _split(self, X: AnyArray) -> tuple[Array, Float[Array, " n"]]:
        """Split X into the inputs and the offset of the latent values."""
        X = jnp.asarray(X)
        return (X[:, :-1], X[:, -1]) if self.offset else (X, jnp.zeros(X.shape[0], X.dtype))

    def _mix(self, log_weights: Float[Array, " k"], parts: Sequence[tuple], n: int) -> LatentPredictive:
        """Mix predictions of all groups, (G, R, n, ...) each, as (n, K, ...) in the order given by the user."""
        back = np.argsort(np.asarray(self.order))

        def in_order(*each: Array) -> Array:
            return jnp.concatenate([a.reshape(a.shape[0] * a.shape[1], *a.shape[2:]) for a in each])[back]

        loc, cov = (jnp.moveaxis(in_order(*each), 0, 1) for each in zip(*parts, strict=True))
        likelihood = tree.map(in_order, *(group.likelihood for group in self.groups))
        rows = tree.map(lambda a: jnp.broadcast_to(a, (n, *a.shape)), likelihood)
        return LatentPredictive(jnp.broadcast_to(log_weights, loc.shape[:2]), loc, cov, rows)


def _update_group(
    group: GeneralisedGroup, beliefs: FilterState, blocks: Any, live: Bool[Array, "g r"] | None
) -> tuple[FilterState, tuple[Array, Array], Bool[Array, " rows"]]:
    """Run all experts over the blocks at once; those that are not `live` keep their beliefs.

    The steps of a row are many small operations: for all experts at once they cost little more than for one.
    """
    C, (y, offset, learnt) = group.likelihood.num_latents, jnp.moveaxis(blocks.y, -1, 0)

    def one_basis(basis: Basis, *experts: Any) -> tuple:
        Phi, outside = features(basis, blocks)
        gram = jnp.einsum("mif,mjf->mij", Phi, Phi)

        def one(
            belief: FilterState, dynamics: Dynamics, prior_var: Array, likelihood: Likelihood, alive: Array | None
        ) -> tuple:
            rows = (y, learnt > 0.0, blocks.tau, offset)
            new, (loc, cov) = update_blocks(belief, Phi, gram, *rows, likelihood, dynamics, prior_var)
            if alive is not None:
                new = tree.map(lambda a, b: jnp.where(alive, a, b), new, belief)
            return new, (loc.reshape(-1, C), cov.reshape(-1, C, C))

        return jax.vmap(one)(*experts), outside

    experts = (beliefs, group.dynamics, group.prior_var, group.likelihood, live)
    (beliefs, parts), outside = jax.vmap(one_basis)(group.basis, *experts)
    return beliefs, parts, outside.any(0)


def generalised_ensemble(
    experts: Sequence[GeneralisedExpert],
    rule: WeightRule,
    *,
    log_prior: Any = None,
    time_unit: float = 1.0,
    offset: bool = False,
    highest: float | None = None,
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
    """
    if not experts:
        raise ValueError("generalised_ensemble: expected at least one expert, got none")
    groups, order = [], []
    for rows in group_by_shape([expert.basis for expert in experts]):
        basis = stack([experts[members[0]].basis for members in rows])
        each = [stack([_without_basis(experts[i]) for i in members]) for members in rows]
        groups.append(GeneralisedGroup(basis, *stack(each)))
        order.extend(i for members in rows for i in members)
    k = len(experts)
    return GeneralisedEnsemble(
        groups=tuple(groups),
        rule=rule,
        log_prior=jnp.full(k, -np.log(k)) if log_prior is None else jnp.asarray(log_prior),
        time_unit=jnp.asarray(float(time_unit)),
        order=tuple(order),
        names=tuple(expert.name for expert in experts),
        num_inputs=experts[0].basis.num_inputs + offset,
        offset=offset,
        highest=None if highest is None else jnp.asarray(float(highest)),
    )


def _without_basis(expert: GeneralisedExpert) -> tuple[Array, Likelihood, Dynamics]:
    return expert.prior_var, expert.likelihood, expert.dynamics
