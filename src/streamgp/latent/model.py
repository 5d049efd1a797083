"""An ensemble of latent variable models on a stream: rows get coordinates, then every expert learns them there."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.kalman import ExpertVariances, FilterState, predict_rows, prior_state, update_block
from streamgp.latent.embedding import embed, summarise_complete, summarise_gappy
from streamgp.latent.posterior import LatentPosterior
from streamgp.models.expert import Expert
from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, eqx, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.checkpoint.field_types import check_state
from streamgp.numerics.linalg import add_diagonal, solve_small, symmetrise
from streamgp.numerics.module import Module, static_field
from streamgp.weights import WeightRule, scan_rule

# The largest mean squared error of a row, in units of the variance, that is counted.
MAX_MISFIT = 100.0


@register
class LatentState(Module):
    """The belief about the weights of every expert, the state of the rule, and how many rows were learnt.

    `seen` counts for each column in how many of them its cell was observed.
    """

    belief: FilterState
    rule: Any
    rows: Array
    seen: Float[Array, " e"]


class LatentInfo(NamedTuple):
    """Scores of rows that were learnt.

    Attributes
    ----------
    log_density, log_weights
        Of every row, from what was known before it: log densities at each expert's coordinates, and log weights.
    misfit, scored
        Of every column, from all rows: the squared errors in units of their variances, and as how many errors they
        count.
    """

    log_density: Float[Array, "n k"]
    log_weights: Float[Array, "n k"]
    misfit: Float[Array, "k e"]
    scored: Float[Array, " e"]


@register
class LatentEnsemble(Module):
    """Experts of one shape, as one stacked `Expert`, and the rule that weighs them.

    Each has latent coordinates of its own for the same rows.
    """

    experts: Expert
    rule: WeightRule
    num_outputs: int = static_field()

    @property
    def num_experts(self) -> int:
        """Return K."""
        return len(self.experts.noise_var)

    def init(self) -> LatentState:
        """Return the state in which nothing is learnt."""
        belief = prior_state(self.experts.basis.num_features, self.num_outputs, self.experts.prior_var)
        equal = jnp.full(self.num_experts, -np.log(self.num_experts), float)
        return LatentState(belief, self.rule.init(equal), jnp.zeros((), int), jnp.zeros(self.num_outputs))

    def check_state(self, state: LatentState) -> None:
        """Raise ValueError if the state has weights that another rule than this ensemble's knows."""
        check_state(self.rule, state.rule)

    @eqx.filter_jit
    def embed(
        self,
        state: LatentState,
        Y: Float[Array, "n e"],
        starts: Float[Array, "k n s d"],
        observed: Bool[Array, "n e"] | None = None,
    ) -> LatentPosterior:
        """Find the most probable coordinates of each row under every expert (k, n, d)."""

        def one(parts: tuple[Expert, FilterState, Array]) -> LatentPosterior:
            expert, belief, starts = parts
            belief = _predict_belief(expert, belief)
            rows = summarise_complete(belief, Y) if observed is None else summarise_gappy(belief, Y, observed)
            return embed(expert.basis, belief, expert.noise_var, rows, starts)

        return jax.lax.map(one, (self.experts, state.belief, starts))

    @eqx.filter_jit
    def learn(
        self,
        state: LatentState,
        Y: Float[Array, "n e"],
        coordinates: Float[Array, "k n d"],
        observed: Bool[Array, "n e"] | None = None,
        mask: Bool[Array, " n"] | None = None,
        level: Float[Array, " k"] | None = None,
    ) -> tuple[LatentState, LatentInfo]:
        """Learn rows at given coordinates, exactly as one after the other.

        `level` is the mean squared error so far, in units of the variance: above it a row counts as `MAX_MISFIT`
        times as much at most.

        Where cells are missing, or `observed` is given because some were before, the columns were not observed in the
        same rows, and one covariance for all is an approximation: that of a column which was observed in a share of
        the rows is taken to be greater by the inverse of that share, but never above the prior.
        """
        mask = jnp.ones(len(Y), bool) if mask is None else mask
        tau = jnp.cumsum(mask).astype(Y.dtype)
        seen = mask[:, None] & (jnp.ones_like(Y, bool) if observed is None else observed)
        count = jnp.sum(seen, axis=1).astype(Y.dtype)
        # Coordinates take up some of their row's errors.
        free = jnp.maximum(count - coordinates.shape[2], 0.0)
        errors = jnp.where(seen, (free / jnp.maximum(count, 1.0))[:, None], 0.0)

        level = jnp.ones(self.num_experts) if level is None else level

        def one(parts: tuple[Expert, FilterState, Array, Array]) -> tuple[FilterState, tuple[Array, Array]]:
            expert, belief, x, level = parts
            noise = ExpertVariances(expert.prior_var, expert.noise_var)
            Phi = jnp.where(mask[:, None], expert.basis(x), 0.0)
            if observed is None:
                belief, (predicted, var, _) = update_block(
                    belief, Phi, Phi @ Phi.T, Y, mask, tau, expert.dynamics, noise
                )
                var = var[:, None]
            else:
                belief, (predicted, var) = _update_by_rows(expert, belief, Phi, Y, seen, mask, state)
            squares = jnp.square(Y - predicted) / var
            density = jnp.where(seen, -0.5 * (squares + jnp.log(2.0 * jnp.pi * var)), 0.0)
            squares = jnp.where(seen & (free > 0.0)[:, None], squares, 0.0)
            # A glitch must not decide how large errors are.
            share = MAX_MISFIT * level * free / jnp.maximum(jnp.sum(squares, axis=1), 1.0)
            return belief, (jnp.sum(density, axis=1), jnp.minimum(share, 1.0) @ squares)

        belief, (log_density, misfit) = jax.lax.map(one, (self.experts, state.belief, coordinates, level))
        log_density = log_density.T
        rule, (before, _) = scan_rule(self.rule, state.rule, log_density, mask)
        counts = state.rows + jnp.sum(mask), state.seen + jnp.sum(seen, axis=0)
        return LatentState(belief, rule, *counts), LatentInfo(log_density, before, misfit, jnp.sum(errors, axis=0))

    @eqx.filter_jit
    def reconstruct(
        self,
        state: LatentState,
        expert: Int[Array, ""],
        coordinates: Float[Array, "n d"],
        precision: Float[Array, "n d d"] | None = None,
    ) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, "n e"]]:
        """Predict mean and variance of rows at coordinates of an expert, uncertain ones where a precision is given.

        That is to first order in the coordinates: a row is taken to be linear in them around the most probable ones.
        """
        one, belief = tree.map(lambda a: a[expert], (self.experts, state.belief))
        noise = ExpertVariances(one.prior_var, one.noise_var)
        Phi = one.basis(coordinates)
        mean, var = predict_rows(belief, Phi, jnp.ones(len(coordinates), coordinates.dtype), one.dynamics, noise)
        explained = (var - one.noise_var)[:, None]
        total = explained * _variance_ratio(state.rows, state.seen, explained, one, Phi) + one.noise_var
        if precision is not None:
            slopes = jax.vmap(jax.jacfwd(lambda x: one.basis(x[None])[0] @ belief.mean))(coordinates)  # (n, e, d)
            solved = jax.vmap(lambda slope: solve_small(precision, slope), in_axes=1, out_axes=1)(slopes)
            total += jnp.sum(slopes * solved, axis=2)
        return mean, total

    def log_weights(self, state: LatentState) -> Float[Array, " k"]:
        """Return the log weights of the experts for the next row."""
        return self.rule.predict(state.rule)


def _predict_belief(expert: Expert, belief: FilterState) -> FilterState:
    """Return the belief at the next row."""
    one = jnp.ones((), belief.mean.dtype)
    a, b = expert.dynamics.transition(one), expert.dynamics.process_variance(one) * expert.prior_var
    return FilterState(a * belief.mean, add_diagonal(a * a * belief.cov, b))


def _variance_ratio(
    rows: Array, seen: Float[Array, " e"], explained: Float[AnyArray, "*n one"], expert: Expert, Phi: AnyArray
) -> Float[AnyArray, "*n e"]:
    """Return by what factor the variance of each column is greater than that of one that was always observed."""
    prior = expert.prior_var * jnp.sum(Phi * Phi, axis=-1)[..., None]
    largest = jnp.maximum(prior / jnp.maximum(explained, jnp.finfo(Phi.dtype).tiny), 1.0)
    share = (rows + 1.0) / (seen + 1.0)
    return jnp.minimum(share.reshape((1,) * (largest.ndim - 1) + share.shape), largest)


def _update_by_rows(
    expert: Expert,
    belief: FilterState,
    Phi: Float[Array, "n f"],
    Y: Float[Array, "n e"],
    seen: Bool[Array, "n e"],
    mask: Bool[Array, " n"],
    state: LatentState,
) -> tuple[FilterState, tuple[Float[AnyArray, "n e"], Float[AnyArray, "n e"]]]:
    """Learn one row after the other, each column with a gain of its own; return predictions and variances as well."""

    def step(carry: tuple, row: tuple) -> tuple:
        belief, rows, counts = carry
        phi, y, present, counted = row
        ahead = _predict_belief(expert, belief)
        gain = ahead.cov @ phi
        explained = phi @ gain
        ratio = _variance_ratio(rows, counts, explained[None], expert, phi)
        predicted, var = phi @ ahead.mean, ratio * explained + expert.noise_var
        scaled_error = jnp.where(present, ratio * (y - predicted) / var, 0.0)
        mean = ahead.mean + gain[:, None] * scaled_error[None]
        cov = ahead.cov - gain[:, None] * gain[None] / (explained + expert.noise_var)
        belief = tree.map(lambda new, old: jnp.where(counted, new, old), FilterState(mean, cov), belief)
        return (belief, rows + counted, counts + present), (predicted, var)

    start = (belief, state.rows.astype(Y.dtype), state.seen)
    (belief, *_), predictions = jax.lax.scan(step, start, (Phi, jnp.where(seen, Y, 0.0), seen, mask))
    return FilterState(belief.mean, symmetrise(belief.cov)), predictions
