"""The filters of a group of experts as a program for XLA: any device, any dtype, inside any transformation."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float

from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine.blocks import Blocks, Group, features, forecast_features
from streamgp.filters.kalman import (
    ExpertVariances,
    FilterState,
    ForecastFeatures,
    Predicted,
    predict_rows,
    update_blocks,
)
from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray


def _each(platform: str) -> Callable[[Callable[[tuple], Any], tuple], Any]:
    """Choose how a device of this kind goes through its experts.

    A CPU takes one after the other, so that an expert's covariance stays in cache, and one that is not live costs
    nothing. The matrices of one expert leave most of a GPU idle: it takes all of them at once, as batched products.
    """
    return jax.lax.map if platform == "cpu" else lambda run, experts: jax.vmap(run)(experts)


def predict_group(
    group: Group, beliefs: FilterState, X: Float[AnyArray, "n d"], tau: Float[AnyArray, " n"], platform: str
) -> Predicted:
    """Predict mean and variance of every row by every expert, each as if it came `tau` after the last one learnt.

    `platform` is that of the device that will run it, as JAX calls it.
    """
    each = _each(platform)

    def one_basis(args: tuple) -> tuple:
        basis, *experts = args
        Phi = basis(X)
        return each(lambda a: predict_rows(a[0], Phi, tau, a[1], a[2]), tuple(experts))

    loc, var = each(one_basis, (group.basis, beliefs, group.dynamics, group.noise))
    return Predicted(loc, var, None)


def update_group(
    group: Group, beliefs: FilterState, blocks: Blocks, live: Bool[Array, "g r"] | None, platform: str
) -> tuple[FilterState, Predicted, Bool[Array, " rows"]]:
    """Run the experts over the blocks, on a device of this `platform`.

    Returns the new beliefs, mean and variance of every row (where there are later ones, of each of those), and the
    rows outside of some basis' region. Experts that are not `live` keep their beliefs and, on a CPU, do no work.
    """
    each = _each(platform)
    always = live is None
    live = jnp.ones(group.noise.prior_var.shape, bool) if live is None else live

    def one_basis(args: tuple) -> tuple:
        basis, noise, dynamics, beliefs, live = args

        def prepare() -> tuple:
            Phi, outside = features(basis, blocks)
            later = None
            if blocks.later is not None:
                theirs = forecast_features(basis, blocks.later)
                later = ForecastFeatures(theirs, jnp.einsum("mif,mjf->mij", Phi, theirs), blocks.later.tau)
            return Phi, jnp.einsum("mif,mjf->mij", Phi, Phi), later, outside

        def nothing() -> tuple:
            return tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(prepare))

        Phi, gram, later, outside = prepare() if always else jax.lax.cond(live.any(), prepare, nothing)

        def run(belief: FilterState, dynamics: Dynamics, noise: ExpertVariances) -> tuple:
            rows = (blocks.y, blocks.mask, blocks.tau)
            return update_blocks(belief, Phi, gram, *rows, dynamics, noise, later, blocks.extra)

        def skip(belief: FilterState, *_: Any) -> tuple:
            none = None if belief.guard is None else jnp.zeros_like(blocks.mask)
            return belief, Predicted(jnp.zeros_like(blocks.y), jnp.ones_like(blocks.tau), none)

        def one_expert(args: tuple) -> tuple:
            *work, live = args
            return run(*work) if always else jax.lax.cond(live, run, skip, *work)

        return each(one_expert, (beliefs, dynamics, noise, live)), outside

    args = (group.basis, group.noise, group.dynamics, beliefs, live)
    (beliefs, part), outside = each(one_basis, args)
    return beliefs, part, outside.any(0)
