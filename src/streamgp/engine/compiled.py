"""The filters of a group of experts as a program for XLA: any device, any dtype, inside any transformation."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from streamgp.core import AnyArray
from streamgp.engine.blocks import Blocks, Group, features
from streamgp.filtering import FilterState, predict_rows, update_blocks


def predict_group(
    group: Group, beliefs: FilterState, X: Float[AnyArray, "n d"], tau: Float[AnyArray, " n"]
) -> tuple[Float[Array, "g r n e"], Float[Array, "g r n"]]:
    """Mean and variance of every row by every expert, each row as if it came `tau` after the last one learnt."""

    def one_basis(args: tuple) -> tuple:
        basis, *experts = args
        Phi = basis(X)
        return jax.lax.map(lambda a: predict_rows(a[0], Phi, tau, a[1], a[2]), tuple(experts))

    return jax.lax.map(one_basis, (group.basis, beliefs, group.dynamics, group.noise))


def update_group(
    group: Group, beliefs: FilterState, blocks: Blocks, live: Bool[Array, "g r"] | None
) -> tuple[FilterState, tuple[Float[Array, "g r m b e"], Float[Array, "g r m b"]], Bool[Array, " rows"]]:
    """Run the experts over the blocks, one after the other: each keeps its covariance in cache.

    Returns the new beliefs, mean and variance of every row, and the rows outside of some basis' region. Experts
    that are not `live` do no work.
    """
    always = live is None
    live = jnp.ones(group.noise.prior_var.shape, bool) if live is None else live

    def one_basis(args: tuple) -> tuple:
        basis, noise, dynamics, beliefs, live = args

        def prepare() -> tuple:
            Phi, outside = features(basis, blocks)
            return Phi, jnp.einsum("mif,mjf->mij", Phi, Phi), outside

        def nothing() -> tuple:
            return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(prepare))

        Phi, gram, outside = prepare() if always else jax.lax.cond(live.any(), prepare, nothing)

        def run(belief: FilterState, *args: Any) -> tuple:
            return update_blocks(belief, Phi, gram, blocks.y, blocks.mask, blocks.tau, *args)

        def skip(belief: FilterState, *_: Any) -> tuple:
            return belief, (jnp.zeros_like(blocks.y), jnp.ones_like(blocks.tau))

        def one_expert(args: tuple) -> tuple:
            *work, live = args
            return run(*work) if always else jax.lax.cond(live, run, skip, *work)

        return jax.lax.map(one_expert, (beliefs, dynamics, noise, live)), outside

    args = (group.basis, group.noise, group.dynamics, beliefs, live)
    (beliefs, part), outside = jax.lax.map(one_basis, args)
    return beliefs, part, outside.any(0)
