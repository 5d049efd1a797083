"""The block filter of a group of experts on an accelerator: products of matrices over all experts at once.

The algebra is that of `streamgp.filters.kalman.update_block`, turned so that every product is batched over stacked
experts, none is transposed in memory, and a covariance is read and written as often as its two products need.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import Group
from streamgp.filters.engine.device_guard import Factored, guarded
from streamgp.filters.kalman import FilterState, Predicted
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.linalg import factor_with_inverse

TOLERATED = 1e-3  # share of the noise by which rounding may make a variance too small


class BlockRows(NamedTuple):
    """The rows of a block: `tau` is the time from the last row before it; those that `mask` leaves out repeat it."""

    X: Float[AnyArray, "b d"]
    y: Float[AnyArray, "b e"]
    mask: Bool[AnyArray, " b"]
    tau: Float[AnyArray, " b"]
    extra: Float[AnyArray, " b"]

    def packed(self) -> Float[np.ndarray, "b w"]:
        """Return the rows as one array, which is carried in one go."""
        return np.column_stack([np.asarray(a, np.float64) for a in self])

    @classmethod
    def unpacked(cls, packed: Float[AnyArray, "b w"], inputs: int, outputs: int) -> "BlockRows":
        """Return the rows that were `packed`."""
        at = inputs + outputs
        return cls(
            packed[:, :inputs], packed[:, inputs:at], packed[:, at] > 0.0, packed[:, at + 1], packed[:, at + 2]
        )


class Told(NamedTuple):
    """What comes back of a block, in few arrays: predictions and outliers; rows outside, and whether all is sound."""

    predicted: Float[AnyArray, "g r b w"]
    flags: Float[AnyArray, " n"]

    @classmethod
    def of(cls, predicted: Predicted, outside: Bool[Array, " b"], is_sound: Bool[Array, ""]) -> "Told":
        """Pack it."""
        more = [predicted.var] if predicted.is_outlier is None else [predicted.var, predicted.is_outlier]
        columns = [predicted.loc, *(a[..., None].astype(predicted.loc.dtype) for a in more)]
        return cls(jnp.concatenate(columns, -1), jnp.append(outside, is_sound).astype(predicted.loc.dtype))

    def unpacked(self, outputs: int) -> Predicted:
        """Return the predictions."""
        loc, var, *more = np.split(self.predicted, range(outputs, self.predicted.shape[-1]), axis=-1)
        return Predicted(loc, var[..., 0], more[0][..., 0] > 0.0 if more else None)


class Motion(NamedTuple):
    """Whether the weights of any expert of a group move, and whether those of any shrink."""

    moves: bool
    reverts: bool

    @classmethod
    def of(cls, dynamics: Dynamics) -> "Motion":
        """Find it out."""
        reverts = bool((np.asarray(dynamics.decay) < 1.0).any())
        return cls(reverts or bool((np.asarray(dynamics.diffusion) > 0.0).any()), reverts)


def learn_packed(
    group: Group,
    beliefs: FilterState,
    packed: Float[Array, "b w"],
    live: Bool[Array, "g r"],
    motion: Motion,
    inputs: int,
) -> tuple[FilterState, Told]:
    """Let experts learn a block as `learn_block` does."""
    rows = BlockRows.unpacked(packed, inputs, beliefs.mean.shape[-1])
    beliefs, predicted, outside, is_sound = learn_block(group, beliefs, rows, live, motion)
    return beliefs, Told.of(predicted, outside, is_sound)


def learn_block(
    group: Group, beliefs: FilterState, rows: BlockRows, live: Bool[Array, "g r"], motion: Motion
) -> tuple[FilterState, Predicted, Bool[Array, " b"], Bool[Array, ""]]:
    """Let the experts that are `live` learn a block.

    Returns
    -------
    beliefs, predicted, outside, is_sound
        The new beliefs; the predictions of the rows; the rows outside of some basis' region; and whether every
        covariance had a factor, and all numbers are finite. If not, what is returned is of no use.
    """
    G, R, F, E = beliefs.mean.shape
    prior_var, noise_var = group.noise
    Phi, outside = _features(group, rows)
    B = Phi.shape[1]
    every = jnp.broadcast_to(Phi[:, None], (G, R, B, F))
    cross = jnp.einsum("grhf,gbf->grhb", beliefs.cov, Phi)
    K = jnp.einsum("grbf,grfc->grbc", every, cross)
    prior = jnp.einsum("grbf,grfe->grbe", every, beliefs.mean)
    end, grown = jnp.ones((G, R)), jnp.zeros((G, R))
    if motion.moves:
        a, b = jax.vmap(jax.vmap(lambda dynamics: dynamics.block(rows.tau)))(group.dynamics)
        b = b * prior_var[..., None, None]
        end, grown = jnp.where(live, a[..., -1], 1.0), jnp.where(live, b[..., -1, -1], 0.0)
        if motion.reverts:
            K, prior = K * (a[..., :, None] * a[..., None, :]), prior * a[..., None]
            cross = cross * (a[..., -1:] * a)[..., None, :]
        K = K + b * jnp.einsum("gbf,gcf->gbc", Phi, Phi)[:, None]
        cross = cross + b[..., -1, None, :] * jnp.swapaxes(Phi, 1, 2)[:, None]
    diagonal = (jnp.diagonal(K, axis1=-2, axis2=-1) + noise_var[..., None] + rows.extra) * (
        1.0 + B * jnp.finfo(K.dtype).eps
    )
    K = jnp.where(jnp.eye(B, dtype=bool), diagonal[..., None], K)
    block, guard, is_outlier, variance = _conditioned(K, rows, prior, beliefs)
    inverse = jnp.where(live[..., None, None], block.inverse.reshape(G, R, B, B), 0.0)
    solved = jnp.einsum("grfb,grcb->grfc", cross, inverse)
    z, L = block.z.reshape(G, R, B, E), block.L.reshape(G, R, B, B)
    mean = end[..., None, None] * beliefs.mean + solved @ z
    kept = (end * end)[..., None, None] * beliefs.cov + jnp.eye(F) * grown[..., None, None]
    cov = kept + jnp.einsum("grfb,grhb->grfh", solved, -solved)
    # Row i takes no part of y_i, not even in its rounding.
    loc = prior + jnp.tril(L, -1) @ z
    is_sound = _is_sound(jnp.diagonal(L, axis1=-2, axis2=-1), noise_var, mean, cov) | ~live
    if guard is not None and beliefs.guard is not None:
        guard = jax.tree.map(
            lambda new, old: jnp.where(live.reshape(G, R, *(1,) * (new.ndim - 2)), new, old), guard, beliefs.guard
        )
    return FilterState(mean, cov, guard), Predicted(loc, variance, is_outlier), outside, is_sound.all()


def _features(group: Group, rows: BlockRows) -> tuple[Float[Array, "g b f"], Bool[Array, " b"]]:
    """Compute the features of every basis, zero for rows left out, and which rows some basis was not built for."""
    X, G = jnp.asarray(rows.X), len(group.noise.prior_var)
    Phi = jax.vmap(lambda basis: basis(X), axis_size=G)(group.basis)
    outside = jax.vmap(lambda basis: jnp.asarray(basis.outside(X)), axis_size=G)(group.basis)
    return jnp.where(rows.mask[:, None], Phi, 0.0), outside.any(0)


def _conditioned(
    K: Float[Array, "g r b b"], rows: BlockRows, prior: Float[Array, "g r b e"], beliefs: FilterState
) -> tuple:
    """Factorise a block, with the noise of outliers raised where there are guards; the experts in one row."""
    G, R, B, E = prior.shape
    L, inverse = factor_with_inverse(K.reshape(G * R, B, B))
    residual = (jnp.where(rows.mask[:, None], rows.y, 0.0) - prior).reshape(G * R, B, E)
    block = Factored(L, inverse, residual, inverse @ residual)
    if beliefs.guard is None:
        diagonal = jnp.diagonal(L, axis1=-2, axis2=-1)
        return block, None, None, (diagonal * diagonal).reshape(G, R, B)
    guard = jax.tree.map(lambda a: a.reshape(G * R, *a.shape[2:]), beliefs.guard)
    guard, block, is_outlier, variance = guarded(guard, block, rows.mask)
    guard = jax.tree.map(lambda a: a.reshape(G, R, *a.shape[1:]), guard)
    return block, guard, is_outlier.reshape(G, R, B), variance.reshape(G, R, B)


def _is_sound(
    scale: Float[Array, "g r b"],
    noise_var: Float[Array, "g r"],
    mean: Float[Array, "g r f e"],
    cov: Float[Array, "g r f f"],
) -> Bool[Array, "g r"]:
    """Return which experts have factors and finite numbers: what is not finite in a covariance is on its diagonal."""
    variances = jnp.diagonal(cov, axis1=-2, axis2=-1)
    enough = scale.min(-1) >= jnp.sqrt((1.0 - TOLERATED) * noise_var)
    return enough & jnp.isfinite(mean).all((-2, -1)) & (variances >= 0.0).all(-1) & jnp.isfinite(variances).all(-1)


def predict_block(
    group: Group, beliefs: FilterState, X: Float[Array, "b d"], tau: Float[Array, " b"]
) -> tuple[Float[Array, "g r b e"], Float[Array, "g r b"]]:
    """Predict mean and variance of each row by every expert, as if it came `tau` after the last one learnt."""
    rows = BlockRows(X, jnp.zeros((len(X), 1)), jnp.ones(len(X), bool), tau, tau)
    Phi, _ = _features(group, rows)
    prior_var, noise_var = group.noise
    a = jax.vmap(jax.vmap(lambda dynamics: dynamics.transition(tau)))(group.dynamics)
    b = jax.vmap(jax.vmap(lambda dynamics: dynamics.process_variance(tau)))(group.dynamics) * prior_var[..., None]
    cross = jnp.einsum("grhf,gbf->grhb", beliefs.cov, Phi)
    explained = jnp.maximum(jnp.einsum("grhb,gbh->grb", cross, Phi), 0.0)
    loc = a[..., None] * jnp.einsum("gbf,grfe->grbe", Phi, beliefs.mean)
    return loc, a * a * explained + b * (Phi * Phi).sum(-1)[:, None] + noise_var[..., None]
