"""Online learners of many kernels as `OnlineModel`s: one compiled loop over the rows, and bands from past errors."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from streamgp.checkpoint.encoding import register
from streamgp.core import AnyArray, Info, Predictive, StreamModel
from streamgp.likelihoods import AnyPredictive, LatentPredictive
from streamgp.models.multikernel.experts import Told
from streamgp.models.multikernel.losses import LogisticLoss
from streamgp.numerics.batching import BATCH_SIZES, COMPILED_BATCH_SIZES

ERROR_MEMORY = 100  # rows over which the size of the errors is averaged
FAR = 6.0  # root mean square errors from its prediction beyond which a target is a glitch, and counts as no further
CHANGE = 5  # rows in a row that are no glitches


@register
class MultiKernelState(eqx.Module):
    """The learner's state, the mean square of its errors, the rows learnt, the last time stamp.

    `beyond` is how many rows before the next were too far off to be believed, without a break, of each target.
    """

    learner: Any
    error: Float[Array, " e"]
    rows: Array
    last_time: Float[Array, ""]
    beyond: Int[Array, " e"]

    @staticmethod
    def with_younger_fields(fields: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint holds, with what it lacks if it was written before there was a guard."""
        if "beyond" in fields:
            return fields
        return {**fields, "beyond": jnp.zeros(len(fields["error"]), int)}


@register
class MultiKernel(StreamModel):
    """A learner that predicts a value for each row, as an `OnlineModel` with predictive distributions.

    Such learners know no variance. For numbers the distribution is a Gaussian about the value, whose variance is the
    mean square of the errors so far, over about the last 100 rows: a stated guess, not a posterior. Where its bands
    matter, correct them by `streamgp.evaluation.Conformal`. For labels it is the softmax of the values.

    Predictions have a single component; how much each kernel counts in it is in `Info.weights`.

    Parameters
    ----------
    learner
        `Raker`, `AdaRaker`, `SFG`, `OMKLGF` or `OMKR`.
    names
        Of the kernels.
    num_inputs
        Columns of X.
    input_scale
        What inputs are divided by before kernels see them.
    robust
        Whether glitches among targets that are numbers are drawn in towards the predictions before they are learnt,
        the more the further out they lie. Five in a row are a change, and learnt as they are.
    """

    mixes_experts: ClassVar[bool] = False

    learner: Any
    names: tuple[str, ...] = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    input_scale: float = eqx.field(static=True, default=1.0)
    robust: bool = eqx.field(static=True, default=False)

    @property
    def num_outputs(self) -> int:
        """Columns of y."""
        return self.learner.loss.num_outputs

    @property
    def num_experts(self) -> int:
        """N, the number of kernels."""
        return len(self.names)

    def init(self, key: Key[Array, ""], horizon: int = 0) -> MultiKernelState:
        """Nothing learnt; `key` decides what learners draw."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since these models do not forecast ahead, got {horizon}")
        learner = self.learner.init(key)
        dtype = jax.tree.leaves(learner)[0].dtype
        nothing = jnp.full((), jnp.nan, dtype)
        error, beyond = jnp.ones(self.num_outputs, dtype), jnp.zeros(self.num_outputs, int)
        return MultiKernelState(learner, error, jnp.zeros((), int), nothing, beyond)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Of labels every size is a program that takes seconds to compile."""
        return COMPILED_BATCH_SIZES if isinstance(self.learner.loss, LogisticLoss) else BATCH_SIZES

    def expert_weights(self, state: MultiKernelState) -> Float[np.ndarray, " n"]:
        """How much each kernel counts in the next row: of those drawn, where kernels are drawn."""
        x = jnp.zeros((1, self.num_inputs), state.error.dtype)
        return np.asarray(self._told(state, x).weights[0])

    @eqx.filter_jit
    def predict(
        self, state: MultiKernelState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> AnyPredictive:
        """Predict each row as if it were the next one."""
        error = jnp.broadcast_to(state.error, (X.shape[0], self.num_outputs))
        return self._predictive(self._told(state, jnp.asarray(X)).f, error)

    def _told(self, state: MultiKernelState, X: Array) -> Told:
        steps = jnp.full(len(X), state.rows + 1)
        rows = self.learner.rows(state.learner, X / self.input_scale, steps)
        return jax.vmap(self.learner.ahead, (None, 0))(state.learner, rows)

    @eqx.filter_jit
    def update(
        self,
        state: MultiKernelState,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n e"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
        later: None = None,
    ) -> tuple[MultiKernelState, Info]:
        """Learn from the rows in order and return the one-step-ahead prediction of each; `times` are not used."""
        mask = jnp.ones(len(X), bool) if mask is None else jnp.asarray(mask)
        # Rows left out may hold anything, and nothing times zero is not always nothing.
        X, y = (jnp.where(mask[:, None], jnp.asarray(a), 0.0) for a in (X, y))
        rows = self.learner.rows(state.learner, X / self.input_scale, state.rows + jnp.cumsum(mask))

        def one(state: MultiKernelState, row: tuple) -> tuple[MultiKernelState, tuple]:
            learnt, target, keep = row
            error, beyond = state.error, state.beyond
            believed, most, numbers = target, jnp.inf, not isinstance(self.learner.loss, LogisticLoss)
            if self.robust and numbers:
                expected = self.learner.ahead(state.learner, learnt).f
                excess = jnp.square(target - expected) / (FAR**2 * error)
                beyond = jnp.where(excess > 1.0, beyond + 1, 0)
                glitch = (excess > 1.0) & (beyond < CHANGE)
                believed = jnp.where(glitch, expected + (target - expected) / excess, target)
                most = jnp.where(glitch, FAR**2 * error, jnp.inf)
            learner, told = self.learner.step(state.learner, learnt, believed)
            if numbers:
                share = jnp.maximum(1.0 / (state.rows + 2.0), 1.0 / ERROR_MEMORY)
                error = error + share * (jnp.minimum(jnp.square(told.f - target), most) - error)
            new = MultiKernelState(learner, error, state.rows + 1, state.last_time, beyond)
            kept = jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, state)
            return kept, (told, state.error)

        state, (told, error) = jax.lax.scan(one, state, (rows, y, mask))
        if times is not None:
            latest = jnp.max(jnp.where(mask, times, -jnp.inf))
            state = replace(
                state, last_time=jnp.where(mask.any(), jnp.fmax(state.last_time, latest), state.last_time)
            )
        return state, Info(self._predictive(told.f, error), jnp.zeros(len(X), bool), None, told.weights)

    def _predictive(self, f: Float[Array, "n c"], error: Float[Array, "n e"]) -> AnyPredictive:
        n, c = f.shape
        sure = jnp.zeros((n, 1), f.dtype)
        loss = self.learner.loss
        if not isinstance(loss, LogisticLoss):
            return Predictive(sure, f[:, None, :], error[:, None, :])
        rows = jax.tree.map(lambda a: jnp.broadcast_to(a, (n, 1, *a.shape)), loss.likelihood)
        return LatentPredictive(sure, f[:, None, :], jnp.zeros((n, 1, c, c), f.dtype), rows)

    def add_class(
        self, state: MultiKernelState, num_classes: int, rows: int
    ) -> tuple["MultiKernel", MultiKernelState]:
        """The model and the state for one class more than `num_classes`, whose function is zero, after `rows`."""
        likelihood = self.learner.loss.likelihood.with_class(num_classes, rows)
        learner = replace(self.learner, loss=LogisticLoss(likelihood))
        more = learner.loss.num_functions - self.learner.loss.num_functions
        theta = state.learner.theta
        padded = jnp.pad(theta, [(0, 0)] * (theta.ndim - 1) + [(0, more)])
        return replace(self, learner=learner), replace(state, learner=replace(state.learner, theta=padded))
