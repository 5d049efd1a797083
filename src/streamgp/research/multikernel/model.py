"""Online learners of many kernels as `OnlineModel`s: one compiled loop over the rows, and bands from past errors."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.likelihoods import AnyPredictive, LatentPredictive, Predictive
from streamgp.models.contract import Described, Info, StreamModel
from streamgp.numerics import tree
from streamgp.numerics.accelerator import Array, eqx, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.batching import SMALL
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.checkpoint.field_types import check_state
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.research.multikernel.experts import Prediction
from streamgp.research.multikernel.losses import LogisticLoss

# The size of the errors is averaged over so many rows.
ERROR_MEMORY = 100
# Root mean square errors from the prediction: a target further out is a glitch, and counts as being at that distance.
GLITCH_THRESHOLD = 6.0
# So many consecutive rows beyond the threshold are no glitches.
CHANGE_ROWS = 5


@register
class MultiKernelState(Module):
    """The learner's state, the mean square of its errors, the rows learnt, the last time stamp.

    `beyond` is the number of consecutive rows beyond the threshold just before the next row, for each target.
    """

    learner: Any
    error: Float[Array, " e"]
    rows: Array
    last_time: Float[AnyArray, ""]
    beyond: Int[Array, " e"]


@register
class MultiKernel(StreamModel):
    """A learner that predicts a value for each row, as an `OnlineModel` with predictive distributions.

    Such learners have no variance. For numbers the distribution is a Gaussian about the value, whose variance is the
    mean square of the errors so far, over about the last 100 rows: a stated guess, not a posterior. Where its bands
    matter, correct them by `streamgp.evaluation.Conformal`. For labels it is the softmax of the values.

    Predictions have a single component; the weight of each kernel in it is in `Info.weights`.

    Parameters
    ----------
    learner
        `Raker`, `AdaRaker`, `SFG`, `OMKLGF` or `OMKR`.
    names
        Names of the kernels.
    num_inputs
        Columns of X.
    input_scale
        Inputs are divided by it before kernels are evaluated.
    robust
        Whether glitches among targets that are numbers are drawn in towards the predictions before they are learnt,
        the more the further out they lie. Five in a row are a change, and learnt as they are.
    """

    mixes_experts: ClassVar[bool] = False
    padded_to: ClassVar[tuple[int, ...]] = (SMALL, 1)

    learner: Any
    names: tuple[str, ...] = static_field()
    num_inputs: int = static_field()
    input_scale: float = static_field(default=1.0)
    robust: bool = static_field(default=False)

    @property
    def num_outputs(self) -> int:
        """Return the number of columns of y."""
        return self.learner.loss.num_outputs

    @property
    def num_experts(self) -> int:
        """Return N, the number of kernels."""
        return len(self.names)

    def check_state(self, state: MultiKernelState) -> None:
        """Raise ValueError if the state is that of another learner."""
        check_state(self.learner, state.learner)

    def init(self, key: Key, horizon: int = 0) -> MultiKernelState:
        """Return the state before any row; `key` decides the draws of the learner."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since these models do not forecast ahead, got {horizon}")
        learner = self.learner.init(key)
        dtype = tree.leaves(learner)[0].dtype
        nothing = jnp.full((), jnp.nan, dtype)
        error, beyond = jnp.ones(self.num_outputs, dtype), jnp.zeros(self.num_outputs, int)
        return MultiKernelState(learner, error, jnp.zeros((), int), nothing, beyond)

    def describe(self, state: MultiKernelState) -> Described:
        """Return the weight of each kernel in the next row: among those drawn, where kernels are drawn."""
        x = jnp.zeros((1, self.num_inputs), state.error.dtype)
        return Described(np.asarray(self._predict_rows(state, x).weights[0]))

    @eqx.filter_jit
    def predict(
        self, state: MultiKernelState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> AnyPredictive:
        """Predict each row as if it were the next one."""
        error = jnp.broadcast_to(state.error, (X.shape[0], self.num_outputs))
        return self._predictive(self._predict_rows(state, jnp.asarray(X)).values, error)

    def _predict_rows(self, state: MultiKernelState, X: Array) -> Prediction:
        steps = jnp.full(len(X), state.rows + 1)
        rows = self.learner.prepare_rows(state.learner, X / self.input_scale, steps)
        return jax.vmap(self.learner.predict, (None, 0))(state.learner, rows)

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
        # Rows left out may hold any value, and a non-finite one times zero is not zero.
        X, y = (jnp.where(mask[:, None], jnp.asarray(a), 0.0) for a in (X, y))
        rows = self.learner.prepare_rows(state.learner, X / self.input_scale, state.rows + jnp.cumsum(mask))

        def step(state: MultiKernelState, row: tuple) -> tuple[MultiKernelState, tuple]:
            prepared, target, keep = row
            error, beyond = state.error, state.beyond
            believed, max_square, numbers = target, jnp.inf, not isinstance(self.learner.loss, LogisticLoss)
            if self.robust and numbers:
                expected = self.learner.predict(state.learner, prepared).values
                excess = jnp.square(target - expected) / (GLITCH_THRESHOLD**2 * error)
                beyond = jnp.where(excess > 1.0, beyond + 1, 0)
                glitch = (excess > 1.0) & (beyond < CHANGE_ROWS)
                believed = jnp.where(glitch, expected + (target - expected) / excess, target)
                max_square = jnp.where(glitch, GLITCH_THRESHOLD**2 * error, jnp.inf)
            learner, prediction = self.learner.step(state.learner, prepared, believed)
            if numbers:
                share = jnp.maximum(1.0 / (state.rows + 2.0), 1.0 / ERROR_MEMORY)
                error = error + share * (jnp.minimum(jnp.square(prediction.values - target), max_square) - error)
            new = MultiKernelState(learner, error, state.rows + 1, state.last_time, beyond)
            kept = tree.map(lambda a, b: jnp.where(keep, a, b), new, state)
            return kept, (prediction, state.error)

        state, (prediction, error) = jax.lax.scan(step, state, (rows, y, mask))
        if times is not None:
            latest = jnp.max(jnp.where(mask, times, -jnp.inf))
            state = replace(
                state, last_time=jnp.where(mask.any(), jnp.fmax(state.last_time, latest), state.last_time)
            )
        return state, Info(
            self._predictive(prediction.values, error), jnp.zeros(len(X), bool), None, prediction.weights
        )

    def _predictive(self, f: Float[Array, "n c"], error: Float[Array, "n e"]) -> AnyPredictive:
        n, c = f.shape
        log_weights = jnp.zeros((n, 1), f.dtype)
        loss = self.learner.loss
        if not isinstance(loss, LogisticLoss):
            return Predictive(log_weights, f[:, None, :], error[:, None, :])
        rows = tree.map(lambda a: jnp.broadcast_to(a, (n, 1, *a.shape)), loss.likelihood)
        return LatentPredictive(log_weights, f[:, None, :], jnp.zeros((n, 1, c, c), f.dtype), rows)

    def add_class(
        self, state: MultiKernelState, num_classes: int, rows: int
    ) -> tuple["MultiKernel", MultiKernelState]:
        """Return the model and the state for one class more than `num_classes`, with the function zero."""
        likelihood = self.learner.loss.likelihood.with_class(num_classes, rows)
        learner = replace(self.learner, loss=LogisticLoss(likelihood))
        more = learner.loss.num_functions - self.learner.loss.num_functions
        theta = state.learner.theta
        padded = jnp.pad(theta, [(0, 0)] * (theta.ndim - 1) + [(0, more)])
        return replace(self, learner=learner), replace(state, learner=replace(state.learner, theta=padded))
