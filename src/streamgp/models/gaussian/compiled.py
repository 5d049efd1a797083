"""An ensemble for numbers as programs of XLA: on an accelerator, and inside transformations of JAX."""

from streamgp.filters.engine import xla
from streamgp.filters.engine.blocks import in_blocks, split_by_group
from streamgp.filters.engine.clock import advance, elapsed
from streamgp.likelihoods import Predictive
from streamgp.models.contract import Info
from streamgp.models.gaussian.mixing import learn_weights, mix
from streamgp.models.gaussian.parts import EnsembleParts
from streamgp.models.gaussian.state import EnsembleState
from streamgp.numerics import tree
from streamgp.numerics.accelerator import eqx, jax, jnp
from streamgp.numerics.arrays import AnyArray


@eqx.filter_jit
def predict(
    model: EnsembleParts, state: EnsembleState, X: AnyArray, times: AnyArray | None, extra: AnyArray | None
) -> Predictive:
    """Predict as `Ensemble.predict` does."""
    model, state, X = tree.map(jnp.asarray, (model, state, X))
    tau = elapsed(model.time_unit, state.last_time, X, times, state.horizon)
    platform = jax.default_backend()
    groups = zip(model.groups, state.filters, strict=True)
    parts = [xla.predict_group(group, beliefs, X, tau, platform) for group, beliefs in groups]
    live, inputs = model.live(state), model.inputs_of(X)
    return mix(model.rule, model.noise, model.order, state.scoring, parts, tau, extra, live, inputs)


@eqx.filter_jit
def update(
    model: EnsembleParts,
    state: EnsembleState,
    X: AnyArray,
    y: AnyArray,
    mask: AnyArray,
    times: AnyArray | None,
    later: AnyArray | None = None,
    extra: AnyArray | None = None,
) -> tuple[EnsembleState, Info]:
    """Learn rows as `Ensemble.update` does."""
    model, state, X, y, mask = tree.map(jnp.asarray, (model, state, X, y, mask))
    clock, last_time = advance(model.time_unit, state.last_time, mask, times)
    blocks = in_blocks(X, y, mask, clock, later, state.horizon, extra)
    live: list = [None] * len(model.groups)
    if model.rule.shuts_down or state.resting is not None:
        live = split_by_group(model.live(state), model.order, model.shapes)
    runs = [
        xla.update_group(group, beliefs, blocks, alive, jax.default_backend())
        for group, beliefs, alive in zip(model.groups, state.filters, live, strict=True)
    ]
    filters, parts, outside = zip(*runs, strict=True)
    scoring, info = learn_weights(
        model.rule,
        model.noise,
        model.order,
        state.scoring,
        list(parts),
        jnp.stack(outside).any(0),
        y,
        mask,
        clock,
        state.asleep,
        model.inputs_of(X if later is None else later),
    )
    return EnsembleState.of(filters, scoring, last_time, model.resting_after(state, info, mask, clock)), info
