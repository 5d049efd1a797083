"""Sparse and local Gaussian processes as `OnlineModel`s: rows gather to batches, a full batch is learnt."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from streamgp.checkpoint.encoding import register
from streamgp.core import AnyArray, Info, Predictive, StreamModel
from streamgp.models.sparse import combining
from streamgp.models.sparse.combining import Combined
from streamgp.models.sparse.glitches import TargetGuard, drawn_in, without_glitches
from streamgp.models.sparse.local import LocalModels, empty
from streamgp.models.sparse.splitting import Learning, by_distance, one_model, row_by_row, wasserstein
from streamgp.models.sparse.vfe import Batch, Hyper
from streamgp.numerics.batching import concatenate
from streamgp.numerics.standardise import Standardiser


@register
class LocalState(eqx.Module):
    """The models, the rows that wait for their batch to fill, and how many rows there were.

    Attributes
    ----------
    pending_X, pending_y, pending
        Rows of the next batch, and how many of them there are.
    log_weights
        Of the models, for the combination ``stream``.
    pending_drawn
        The targets `pending_y`, glitches drawn in to what was expected; see `streamgp.models.sparse.glitches`.
    guard
        What is ordinary of late.
    """

    models: LocalModels
    pending_X: Float[Array, "b d"]
    pending_y: Float[Array, "b e"]
    pending: Int[Array, ""]
    log_weights: Float[Array, " j"]
    rows: Int[Array, ""]
    last_time: Float[Array, ""]
    key: Array
    pending_drawn: Float[Array, "b e"]
    guard: TargetGuard

    @staticmethod
    def with_younger_fields(fields: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint holds, with what it lacks if it was written before there was a guard."""
        if "guard" in fields or "pending_y" not in fields:
            return fields
        guard = TargetGuard.empty(fields["pending_y"].shape[1])
        return {**fields, "pending_drawn": fields["pending_y"], "guard": guard}


@register
class LocalGPs(StreamModel):
    """One streaming sparse Gaussian process, or several local ones, of inputs and targets of about unit size.

    Rows are predicted by what the batches before theirs have taught: a batch is learnt when it is full.

    Parameters
    ----------
    method
        ``ovfe`` (Bui, Nguyen and Turner 2017): one model. ``wgpr`` (Kepler et al. 2021), ``solar-gp`` (Wilcox and Yip
        2020), ``lgpr`` (Nguyen-Tuong, Seeger and Peters 2009): several; see `streamgp.models.sparse.splitting`.
    num_inducing
        M: inducing inputs of each model; of ``lgpr``, the rows that each model keeps.
    batch_size
        Rows learnt together.
    max_models
        How many models there may be. When there are so many, batches go to the best of them.
    threshold
        Of ``wgpr``, the change without units that makes a new model; of ``solar-gp`` and ``lgpr``, the similarity to
        the nearest centre, in (0, 1), below which there is one.
    combination
        See `streamgp.models.sparse.combining`.
    learning
        How sparse models learn a batch.
    hyper
        Of ``lgpr``, the hyperparameters of all models.
    robust
        Whether glitches among the targets are drawn in before they are learnt.
    """

    mixes_experts: ClassVar[bool] = False

    method: str = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)
    num_inducing: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    max_models: int = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    combination: str = eqx.field(static=True)
    learning: Learning = eqx.field(static=True)
    hyper: Hyper | None = None
    robust: bool = eqx.field(static=True, default=False)

    def init(self, key: Key[Array, ""], horizon: int = 0) -> LocalState:
        """Nothing learnt; `key` decides where inducing inputs start."""
        if horizon:
            raise ValueError(f"horizon: expected 0, since these models do not forecast ahead, got {horizon}")
        b, d, e = self.batch_size, self.num_inputs, self.num_outputs
        return LocalState(
            empty(self.max_models, self.num_inducing, d, e),
            jnp.zeros((b, d)),
            jnp.zeros((b, e)),
            jnp.zeros((), int),
            combining.first_weights(self.max_models),
            jnp.zeros((), int),
            jnp.full((), jnp.nan),
            jax.random.key_data(key),
            jnp.zeros((b, e)),
            TargetGuard.empty(e),
        )

    def expert_weights(self, state: LocalState) -> Float[np.ndarray, " j"]:
        """How much each model counts: under ``stream`` for the next row, else its share of the rows learnt."""
        if self.combination == "stream":
            return np.asarray(jnp.exp(combining.awake(state.models, state.log_weights)))
        rows = np.asarray(state.models.each.rows, dtype=float)
        return rows / max(rows.sum(), 1.0)

    def describe_parts(self, state: LocalState, inputs: Standardiser, targets: Standardiser) -> list[dict[str, Any]]:
        """Of each model alive: row of birth, rows learnt, centre and hyperparameters, in the units of the data.

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
                "lengthscales": (scale * np.asarray(each.hyper.lengthscales[j])).tolist(),
                "variance": float(unit**2 * each.hyper.variance[j]),
                "noise_var": float(unit**2 * each.hyper.noise_var[j]),
            }
            | ({"inducing": (mean + scale * np.asarray(each.site.inducing[j])).tolist()} if mapped else {})
            for j in range(int(state.models.count))
        ]

    def predict(
        self, state: LocalState, X: Float[AnyArray, "n d"], times: Float[AnyArray, " n"] | None = None
    ) -> Predictive:
        """Predict each row as if it were the next one."""
        X, parts = np.asarray(X), []
        for rows, padded in self._padded(X):
            made = self._combined(state.models, padded, state.log_weights).predictive
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
            state, made = self._gather(state, rows_X[at:until], rows_y[at:until])
            parts.append(made)
            at = until
        if times is not None and len(kept):
            latest = np.fmax(state.last_time, np.asarray(times)[kept].max())
            state = replace(state, last_time=jnp.asarray(latest))
        if not parts:
            parts = [self._combined(state.models, np.zeros((1, self.num_inputs)), state.log_weights)]
        # Something has to stand for the rows left out: any other row's prediction.
        place = np.zeros(n, int)
        place[kept] = np.arange(len(kept))
        made = jax.tree.map(lambda a: np.asarray(a)[place], concatenate(parts))
        return state, Info(made.predictive, np.zeros(n, bool), None, made.weights)

    def _gather(
        self, state: LocalState, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n e"]
    ) -> tuple[LocalState, Combined]:
        """Predict rows that all fit into the pending batch, and learn that if it is full then."""
        log_weights, guard, parts = state.log_weights, state.guard, []
        told = np.array(y, dtype=float)
        for rows, padded in self._padded(X):
            n = rows.stop - rows.start
            targets, real = np.zeros((len(padded), self.num_outputs)), np.arange(len(padded)) < n
            targets[:n] = y[rows]
            if self.combination == "stream" and int(state.models.count):
                log_weights, judged, made, drawn = _learn_weights(
                    state.models, padded, targets, real, log_weights, guard if self.robust else None
                )
                guard = judged or guard
            else:
                made = self._combined(state.models, padded, log_weights)
                if self.robust:
                    predictive = made.predictive
                    guard, drawn = drawn_in(guard, predictive.mean, predictive.variance, targets, real)
            if self.robust:
                told[rows] = np.asarray(drawn)[:n]
            parts.append(_first(made, n))
        start = int(state.pending)
        pending = [np.array(a) for a in (state.pending_X, state.pending_y, state.pending_drawn)]
        for kept, new in zip(pending, (X, y, told), strict=True):
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
            state = self._learnt(state)
        return state, concatenate(parts)

    def _learnt(self, state: LocalState) -> LocalState:
        """After a batch that is full."""
        guard, y = without_glitches(state.guard, np.asarray(state.pending_y), np.asarray(state.pending_drawn))
        batch = Batch(state.pending_X, jnp.asarray(y), jnp.ones(self.batch_size, bool))
        return replace(state, models=self._taught(state, batch), pending=jnp.zeros((), int), guard=guard)

    def _taught(self, state: LocalState, batch: Batch) -> LocalModels:
        first = int(state.rows) - self.batch_size
        key = jax.random.fold_in(jax.random.wrap_key_data(state.key), first // self.batch_size)
        models = state.models
        match self.method:
            case "ovfe":
                return one_model(models, batch, key, first, self.learning)
            case "wgpr":
                return wasserstein(models, batch, key, first, self.learning, self.threshold)
            case "solar-gp":
                return by_distance(models, batch, key, first, self.learning, self.threshold)
            case _:
                assert self.hyper is not None
                return row_by_row(models, batch, first, self.hyper, self.threshold)

    def _padded(self, X: Float[np.ndarray, "n d"]) -> Any:
        """Pieces of a whole batch, or of one row: two programs in all."""
        size = 1 if len(X) == 1 else self.batch_size
        for at in range(0, len(X), size):
            rows = slice(at, min(at + size, len(X)))
            padded = np.zeros((size, self.num_inputs))
            padded[: rows.stop - at] = X[rows]
            yield rows, padded

    def _combined(self, models: LocalModels, X: np.ndarray, log_weights: Float[Array, " j"]) -> Combined:
        if not int(models.count):
            models = LocalModels(models.each, jnp.ones((), int))  # the prior, of standardised targets
        return _combine(self.combination, models, X, log_weights)


@jax.jit(static_argnames="combination")
def _combine(
    combination: str, models: LocalModels, X: Float[Array, "n d"], log_weights: Float[Array, " j"]
) -> Combined:
    match combination:
        case "nearest":
            return combining.nearest(models, X)
        case "precision":
            return combining.precision(models, X)
        case "distance":
            return combining.distance(models, X)
        case _:
            return combining.stream(models, X, log_weights)


_learn_weights = jax.jit(combining.learn_weights)


def _first(tree: Any, n: int) -> Any:
    return jax.tree.map(lambda a: np.asarray(a)[:n], tree)
