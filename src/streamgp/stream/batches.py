"""A model driven over rows in batches of few sizes, so that few programs are compiled."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.core import Info
from streamgp.likelihoods import AnyPredictive
from streamgp.numerics.batching import concatenate, split_batches
from streamgp.numerics.precision import in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.inputs import MOVED, USUAL, Extra
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.target_range import limited


@in_float64
def predict_rows(
    settings: StreamSettings,
    state: StreamState,
    X: np.ndarray,
    times: np.ndarray | None = None,
    extra: Extra = None,
    ahead: np.ndarray | None = None,
) -> AnyPredictive:
    """Predict each row as if it were the next one, in the units of the targets.

    Parameters
    ----------
    X
        Inputs of the model (n, W) in the units of the data: lags included, without gaps.
    times
        Time stamps (n,).
    extra
        Additional variance of each row.
    ahead
        How many rows after the last one learnt each row is; None: all as many as what is learnt forecasts.
    """
    parts = []
    # What BLAS' threads round depends on how many there are.
    with one_blas_thread():
        for rows, size in split_batches(len(X), state.batch_sizes):
            inputs = _padded(state, X[rows], size)
            stamps = _padded_times(None if times is None else times[rows], size)
            predictive = state.model.predict(state.model_state, inputs, stamps, **_more(state, extra, rows, size))
            n = rows.stop - rows.start
            parts.append(settings.task.in_units(predictive, n, state.targets, state.num_classes))
    whole = concatenate(parts)
    if state.target_range is not None:
        whole = state.target_range.limit(whole, settings.rows_ahead if ahead is None else ahead)
    return whole if state.correlation is None else state.correlation.of(whole)


def update_rows(
    settings: StreamSettings,
    state: StreamState,
    X: np.ndarray,
    y: np.ndarray,
    times: np.ndarray | None,
    later: np.ndarray | None,
    extra: Extra,
    kinds: np.ndarray,
) -> tuple[StreamState, Info]:
    """Learn pairs of inputs, of these `kinds`, and targets; with a horizon, forecast from the `later` inputs.

    Call it inside `float64`, with BLAS at one thread.
    """
    parts = []
    X, beyond, inputs = state.inputs.bounded(X)
    state, moved = replace(state, inputs=inputs), beyond | (kinds == MOVED)
    beyond = beyond | (kinds != USUAL)
    for rows, size in split_batches(len(X), state.batch_sizes, state.min_filled_rows):
        n = rows.stop - rows.start
        target = np.zeros((size, settings.num_outputs))
        target[:n] = (y[rows] - state.targets.mean) / state.targets.scale
        if not state.model.learns_far_inputs:
            target[:n][moved[rows]] = np.nan  # nothing vouches for these inputs: predicted, but not learnt
        model_state, info = state.model.update(
            state.model_state,
            _padded(state, X[rows], size),
            jnp.asarray(target),
            jnp.asarray(np.arange(size) < n),
            _padded_times(None if times is None else times[rows], size),
            None if later is None else _padded(state, later[rows], size),
            **_more(state, extra, rows, size),
        )
        info = jax.tree.map(lambda a, n=n: np.asarray(a)[:n], info)
        predictive = settings.task.in_units(info.predictive, n, state.targets, state.num_classes)
        # The rules of the provisional model are not reported.
        parts.append(info._replace(predictive=predictive, rules=info.rules if state.experts else None))
        state = replace(state, model_state=model_state)
        if state.is_warmed_up:
            state = state.counted(info.outside | beyond[rows], info.flagged, info.non_finite)
    return _with_range(settings, state, concatenate(parts), y)


def _with_range(settings: StreamSettings, state: StreamState, info: Info, y: np.ndarray) -> tuple[StreamState, Info]:
    """Learn the range of transformed targets; each prediction keeps to what was known when it was made."""
    if state.target_range is None:
        return state, info
    after, ends = state.target_range.learn(y, info.flagged)
    known = ends[1:] if settings.horizon else ends[:-1]
    predictive = limited(info.predictive, known, settings.rows_ahead)
    return replace(state, target_range=after), info._replace(predictive=predictive)


def _padded(state: StreamState, X: np.ndarray, size: int) -> jax.Array:
    """Return standardised rows, padded to `size` rows."""
    padded = np.zeros((size, X.shape[1]))
    padded[: len(X)] = state.inputs.standardised(X)
    return jnp.asarray(padded)


def _padded_times(times: np.ndarray | None, size: int) -> jax.Array | None:
    return None if times is None else jnp.asarray(np.pad(times, (0, size - len(times)), mode="edge"))


def _more(state: StreamState, extra: Extra, rows: slice, size: int) -> dict[str, Any]:
    """Return the rows' additional variance for a model that can take it, padded to `size` rows."""
    if extra is None or not state.model.takes_extra_variance:
        return {}
    return {"extra": jnp.asarray(np.pad(extra[rows], (0, size - (rows.stop - rows.start))))}
