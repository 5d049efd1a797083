"""An ensemble of latent variable models on a stream: rows find their places, then every expert learns them there."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from streamgp.core import AnyArray
from streamgp.ensemble import Expert
from streamgp.filtering import FilterState, Noise, predict_rows, prior_state, update_block
from streamgp.latent.embedding import Found, complete_rows, embed, observed_rows
from streamgp.linalg import solve_small
from streamgp.serialise import register
from streamgp.weights.rules import WeightRule, along


@register
class LatentState(eqx.Module):
    """What is believed about the weights of every expert, the state of the rule, and how many rows were learnt."""

    belief: FilterState
    rule: Any
    rows: Array


class Learnt(NamedTuple):
    """Of every row, from what was known before it: log densities at each expert's place, and log weights."""

    log_density: Float[Array, "n k"]
    log_weights: Float[Array, "n k"]


@register
class LatentEnsemble(eqx.Module):
    """Experts of one shape, as one stacked `Expert`, and the rule that weighs them.

    Each has latent places of its own for the same rows.
    """

    experts: Expert
    rule: WeightRule
    num_outputs: int = eqx.field(static=True)

    @property
    def num_experts(self) -> int:
        """K."""
        return len(self.experts.noise_var)

    def init(self) -> LatentState:
        """Nothing learnt."""
        belief = prior_state(self.experts.basis.num_features, self.num_outputs, self.experts.prior_var)
        equal = jnp.full(self.num_experts, -jnp.log(self.num_experts))
        return LatentState(belief, self.rule.init(equal), jnp.zeros((), int))

    @eqx.filter_jit
    def embed(
        self,
        state: LatentState,
        Y: Float[Array, "n e"],
        starts: Float[Array, "k n s d"],
        observed: Bool[Array, "n e"] | None = None,
    ) -> Found:
        """Every expert's most probable place of each row (k, n, d)."""

        def one(job: tuple[Expert, FilterState, Array]) -> Found:
            expert, belief, starts = job
            # The next row: a walk adds its step to the covariance, which hardly matters to the place.
            rows = complete_rows(belief, Y) if observed is None else observed_rows(belief, Y, observed)
            return embed(expert.basis, belief, expert.noise_var, rows, starts)

        return jax.lax.map(one, (self.experts, state.belief, starts))

    @eqx.filter_jit
    def learn(
        self,
        state: LatentState,
        Y: Float[Array, "n e"],
        places: Float[Array, "k n d"],
        observed: Bool[Array, "n e"] | None = None,
        mask: Bool[Array, " n"] | None = None,
    ) -> tuple[LatentState, Learnt]:
        """Learn rows at given places, exactly as one after the other.

        Where entries are missing, a row is learnt with what the block's start predicts in their place: that leaves
        the mean of their weights as it is, though all outputs share a covariance, which then is too small for them.
        """
        mask = jnp.ones(len(Y), bool) if mask is None else mask
        tau = jnp.cumsum(mask).astype(Y.dtype)

        def one(job: tuple[Expert, FilterState, Array]) -> tuple[FilterState, Array]:
            expert, belief, x = job
            noise = Noise(expert.prior_var, expert.noise_var)
            Phi = jnp.where(mask[:, None], expert.basis(x), 0.0)
            seen = jnp.ones_like(Y, dtype=bool) if observed is None else observed
            filled = Y if observed is None else jnp.where(observed, Y, Phi @ belief.mean)
            belief, (ahead, var) = update_block(belief, Phi, Phi @ Phi.T, filled, mask, tau, expert.dynamics, noise)
            var = var[:, None]
            each = -0.5 * (jnp.square(filled - ahead) / var + jnp.log(2.0 * jnp.pi * var))
            return belief, jnp.sum(jnp.where(seen, each, 0.0), axis=1)

        belief, log_density = jax.lax.map(one, (self.experts, state.belief, places))
        log_density = log_density.T
        rule, known = along(self.rule, state.rule, log_density, mask)
        before = jax.vmap(self.rule.predict)(known)
        return LatentState(belief, rule, state.rows + jnp.sum(mask)), Learnt(log_density, before)

    @eqx.filter_jit
    def reconstruct(
        self,
        state: LatentState,
        expert: Int[Array, ""],
        places: Float[Array, "n d"],
        precision: Float[Array, "n d d"] | None = None,
    ) -> tuple[Float[AnyArray, "n e"], Float[AnyArray, "n e"]]:
        """Mean and variance of rows at places of an expert; with their precision, of rows whose places are guessed.

        To first order in the places: what a row does around the most probable one is taken to be linear.
        """
        one, belief = jax.tree.map(lambda a: a[expert], (self.experts, state.belief))
        noise = Noise(one.prior_var, one.noise_var)
        mean, var = predict_rows(belief, one.basis(places), jnp.ones(len(places), places.dtype), one.dynamics, noise)
        spread = jnp.broadcast_to(var[:, None], mean.shape)
        if precision is not None:
            slopes = jax.vmap(jax.jacfwd(lambda x: one.basis(x[None])[0] @ belief.mean))(places)  # (n, e, d)
            solved = jax.vmap(lambda slope: solve_small(precision, slope), in_axes=1, out_axes=1)(slopes)
            spread += jnp.sum(slopes * solved, axis=2)
        return mean, spread

    def log_weights(self, state: LatentState) -> Float[Array, " k"]:
        """For the next row."""
        return self.rule.predict(state.rule)
