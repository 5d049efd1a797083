"""Sparse and local Gaussian processes as `OnlineModel`s: rows are collected in batches, a full batch is learnt."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.likelihoods import Predictive
from streamgp.models.contract import Described, Info, StreamModel
from streamgp.numerics import keys, tree
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.batching import concatenate
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.numerics.standardise import Standardiser
from streamgp.research.sparse import combining
from streamgp.research.sparse.combining import Combined
from streamgp.research.sparse.glitches import TargetGuard, draw_in_rows, replace_glitches
from streamgp.research.sparse.local import LocalModels, empty_models
from streamgp.research.sparse.splitting import (
    BatchOptimiser,
    learn_by_distance,
    learn_by_wasserstein,
    learn_one_model,
    learn_row_by_row,
)
from streamgp.research.sparse.vfe import Batch, KernelHyperparameters


@register
class LocalState(Module):
    """The models, the rows of a batch that is not full yet, and the number of rows so far.

    Attributes
    ----------
    pending_X, pending_y, pending
        Rows of the next batch, and their number.
    log_weights
        Log weights of the models, for the combination ``stream``.
    pending_drawn
        The targets `pending_y`, with glitches drawn in towards what was expected (see
        `streamgp.research.sparse.glitches`).
    guard
        The size of recent errors.
    """

    models: LocalModels
    pending_X: Float[Array, "b d"]
    pending_y: Float[Array, "b e"]
    pending: Int[Array, ""]
    log_weights: Float[Array, " j"]
    rows: Int[Array, ""]
    last_time: Float[Array, ""]
    key: AnyArray
    pending_drawn: Float[Array, "b e"]
    guard: TargetGuard


@register
class LocalGPs(StreamModel):
    """One streaming sparse Gaussian process, or several local ones, of inputs and targets of about unit size.

    Rows are predicted from the batches before theirs: a batch is learnt when it is full.

    Parameters
    ----------
    method
        ``ovfe`` (Bui, Nguyen and Turner 2017): one model. ``wgpr`` (Kepler et al. 2021), ``solar-gp`` (Wilcox and Yip
        2020), ``lgpr`` (Nguyen-Tuong, Seeger and Peters 2009): several; see `streamgp.research.sparse.splitting`.
    num_inducing
        M, the inducing inputs of each model; for ``lgpr``, the rows that each model keeps.
    batch_size
        Number of rows learnt together.
    max_models
        Largest number of models. When there are so many, batches go to the best of them.
    threshold
        For ``wgpr``, the change without units that makes a new model; for ``solar-gp`` and ``lgpr``, the similarity
        to the nearest centre, in (0, 1), below which a new model begins.
    combination
        See `streamgp.research.sparse.combining`.
    optimiser
        How sparse models learn a batch.
    hyperparameters
        For ``lgpr``, the hyperparameters of all models.
    robust
        Whether glitches among the targets are drawn in before they are learnt.
    """

    mixes_experts: ClassVar[bool] = False

    method: str = static_field()
    num_inputs: int = static_field()
    num_outputs: int = static_field()
    num_inducing: int = static_field()
    batch_size: int = static_field()
    max_models: int = static_field()
    threshold: float = static_field()
    combination: str = static_field()
    optimiser: BatchOptimiser = static_field()
    hyperparameters: KernelHyperparameters | None = None
    robust: bool = static_field(default=False)

    def init(self, key: Key, horizon: int = 0) -> LocalState:
        """Return the state before any row; `key` decides where inducing inputs start."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since these models do not forecast ahead, got {horizon}")
        b, d, e = self.batch_size, self.num_inputs, self.num_outputs
        return LocalState(
            empty_models(self.max_models, self.num_inducing, d, e),
            jnp.zeros((b, d)),
            jnp.zeros((b, e)),
            jnp.zeros((), int),
            combining.initial_weights(self.max_models),
            jnp.zeros((), int),
            jnp.full((), jnp.nan),
            key,
            jnp.zeros((b, e)),
            TargetGuard.empty(e),
        )

    def describe(self, state: LocalState) -> Described:
        """Return the weight of each model: under ``stream`` for the next row, else its share of the rows learnt."""
        if self.combination == "stream":
            return Described(np.asarray(jnp.exp(combining.normalise_alive(state.models, state.log_weights))))
        rows = np.asarray(state.models.each.rows, dtype=float)
        return Described(rows / max(rows.sum(), 1.0))

    def describe_parts(self, state: LocalState, inputs: Standardiser, targets: Standardiser) -> list[dict[str, Any]]:
        """Describe each model alive: first row, rows learnt, centre and hyperparameters, in the units of the data.

        Variances are those of the first target. With two inputs there are the inducing inputs as well, for a map.
        """
        mean, scale, unit = (np.asarray(a) for a in (inputs.mean, inputs.scale, targets.scale[0]))
        each = state.models.each
        mapped = len(mean) == 2
        return [
            {
                "born": int(each.born[j]),
                "rows": int(each.rows[j]),
                "centre": (mean + scale * np.asarray(each.centre[j])).tolist(),
                "lengthscales": (scale * np.asarray(each.hyperparameters.lengthscales[j])).tolist(),
                "variance": float(unit**2 * each.hyperparameters.variance[j]),
                "noise_var": float(unit**2 * each.hyperparameters.noise_var[j]),
            }
            | ({"inducing": (mean + scale * np.asarray(each.sparse.inducing[j])).tolist()} if mapped else {})
            for j in range(int(state.models.count))
        ]

    def predict(
        self, state: LocalState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> Predictive:
        """Predict each row as if it were the next one."""
        X, parts = np.asarray(X), []
        for rows, padded in self._pad(X):
            made = self._combine(state.models, padded, state.log_weights).predictive
            parts.append(_first(made, rows.stop - rows.start))
        return concatenate(parts)

    def update(
        self,
        state: LocalState,
        X: Float[AnyArray, "n d"],
        y: Float[AnyArray, "n e"],
        mask: Bool[AnyArray, " n"] | None = None,
        times: Float[AnyArray, " n"] | None = None,
        later: None = None,
    ) -> tuple[LocalState, Info]:
        """Learn from the rows in order and return the one-step-ahead prediction of each."""
        n = len(X)
        kept = np.arange(n) if mask is None else np.flatnonzero(mask)
        rows_X, rows_y, at, parts = np.asarray(X)[kept], np.asarray(y)[kept], 0, []
        while at < len(kept):
            until = min(len(kept), at + self.batch_size - int(state.pending))
            state, made = self._collect(state, rows_X[at:until], rows_y[at:until])
            parts.append(made)
            at = until
        if times is not None and len(kept):
            latest = np.fmax(state.last_time, np.asarray(times)[kept].max())
            state = replace(state, last_time=jnp.asarray(latest))
        if not parts:
            parts = [self._combine(state.models, np.zeros((1, self.num_inputs)), state.log_weights)]
        # The rows left out get any other row's prediction, since they need some value.
        index = np.zeros(n, int)
        index[kept] = np.arange(len(kept))
        made = tree.map(lambda a: np.asarray(a)[index], concatenate(parts))
        return state, Info(made.predictive, np.zeros(n, bool), None, made.weights)

    def _collect(
        self, state: LocalState, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]
    ) -> tuple[LocalState, Combined]:
        """Predict rows that all fit into the pending batch, and learn the batch if it is full then."""
        log_weights, guard, parts = state.log_weights, state.guard, []
        drawn_in = np.array(y, dtype=float)
        for rows, padded in self._pad(X):
            n = rows.stop - rows.start
            targets, real = np.zeros((len(padded), self.num_outputs)), np.arange(len(padded)) < n
            targets[:n] = y[rows]
            if self.combination == "stream" and int(state.models.count):
                log_weights, after, made, drawn = _learn_weights(
                    state.models, padded, targets, real, log_weights, guard if self.robust else None
                )
                guard = after or guard
            else:
                made = self._combine(state.models, padded, log_weights)
                if self.robust:
                    predictive = made.predictive
                    guard, drawn = draw_in_rows(guard, predictive.mean, predictive.variance, targets, real)
            if self.robust:
                drawn_in[rows] = np.asarray(drawn)[:n]
            parts.append(_first(made, n))
        start = int(state.pending)
        pending = [np.array(a) for a in (state.pending_X, state.pending_y, state.pending_drawn)]
        for kept, new in zip(pending, (X, y, drawn_in), strict=True):
            kept[start : start + len(X)] = new
        pending_X, pending_y, pending_drawn = map(jnp.asarray, pending)
        state = replace(
            state,
            pending_X=pending_X,
            pending_y=pending_y,
            pending_drawn=pending_drawn,
            pending=jnp.asarray(start + len(X)),
            log_weights=log_weights,
            guard=guard,
            rows=state.rows + len(X),
        )
        if start + len(X) == self.batch_size:
            state = self._learn_batch(state)
        return state, concatenate(parts)

    def _learn_batch(self, state: LocalState) -> LocalState:
        """Learn the pending batch, which is full."""
        guard, y = replace_glitches(state.guard, np.asarray(state.pending_y), np.asarray(state.pending_drawn))
        batch = Batch(state.pending_X, jnp.asarray(y), jnp.ones(self.batch_size, bool))
        return replace(state, models=self._learn_models(state, batch), pending=jnp.zeros((), int), guard=guard)

    def _learn_models(self, state: LocalState, batch: Batch) -> LocalModels:
        first = int(state.rows) - self.batch_size
        key = keys.fold_in(state.key, first // self.batch_size)
        models = state.models
        match self.method:
            case "ovfe":
                return learn_one_model(models, batch, key, first, self.optimiser)
            case "wgpr":
                return learn_by_wasserstein(models, batch, key, first, self.optimiser, self.threshold)
            case "solar-gp":
                return learn_by_distance(models, batch, key, first, self.optimiser, self.threshold)
            case _:
                assert self.hyperparameters is not None
                return learn_row_by_row(models, batch, first, self.hyperparameters, self.threshold)

    def _pad(self, X: Float[np.ndarray, "n d"]) -> Any:
        """Yield rows in batches of the full size, padded, or one row alone: two programs in all."""
        size = 1 if len(X) == 1 else self.batch_size
        for at in range(0, len(X), size):
            rows = slice(at, min(at + size, len(X)))
            padded = np.zeros((size, self.num_inputs))
            padded[: rows.stop - at] = X[rows]
            yield rows, padded

    def _combine(self, models: LocalModels, X: np.ndarray, log_weights: Float[Array, " j"]) -> Combined:
        if not int(models.count):
            # Without models, the prediction is the prior of standardised targets.
            models = LocalModels(models.each, jnp.ones((), int))
        return _combine_models(self.combination, models, X, log_weights)


@jax.jit(static_argnames="combination")
def _combine_models(
    combination: str, models: LocalModels, X: Float[Array, "n d"], log_weights: Float[Array, " j"]
) -> Combined:
    match combination:
        case "nearest":
            return combining.combine_nearest(models, X)
        case "precision":
            return combining.combine_by_precision(models, X)
        case "distance":
            return combining.combine_by_distance(models, X)
        case _:
            return combining.combine_by_stream(models, X, log_weights)


_learn_weights = jax.jit(combining.learn_weights)


def _first(given: Any, n: int) -> Any:
    return tree.map(lambda a: np.asarray(a)[:n], given)
