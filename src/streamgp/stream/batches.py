"""A model driven over rows in batches of few sizes, so that few programs are compiled."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.filters.engine.placement import on_device
from streamgp.likelihoods import AnyPredictive
from streamgp.models.contract import Info
from streamgp.numerics import tree
from streamgp.numerics.batching import concatenate, split_batches
from streamgp.numerics.precision import in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.inputs import Extra
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState


class BatchEngine:
    """The engine of every model: rows within the bounds, in padded batches of few sizes.

    Call its methods inside `float64`, with BLAS at one thread: what its threads round depends on their number.

    Parameters
    ----------
    settings
        Those of the learner.
    state
        What is known before the rows, the model's state among it.
    """

    def __init__(self, settings: StreamSettings, state: StreamState) -> None:
        self._settings, self._state = settings, state
        self._knows_targets = float(state.targets.count) > 0.0
        self.restarted: frozenset[int] = frozenset()

    def predict(self, X: np.ndarray, times: np.ndarray | None = None, extra: Extra = None) -> AnyPredictive:
        """Predict each row as if it were the next one."""
        parts, state = [], self._state
        for rows, size in split_batches(len(X), state.model.padded_to):
            inputs = _padded(state, X[rows], size)
            stamps = _padded_times(None if times is None else times[rows], size)
            with on_device(self._settings.spec.device):
                predictive = state.model.predict(state.model_state, inputs, stamps, **_more(state, extra, rows, size))
            parts.append(self._in_units(predictive, X[rows]))
        return concatenate(parts)

    def update(
        self,
        X: np.ndarray,
        y: np.ndarray,
        times: np.ndarray | None,
        *,
        later: np.ndarray | None = None,
        extra: Extra = None,
        moved: np.ndarray | None = None,
    ) -> Info:
        """Learn pairs of inputs and targets; with a horizon, forecast from the `later` inputs.

        Where rows were `moved` nothing vouches for their inputs: some models predict them, but do not learn them.
        """
        parts, state, settings = [], self._state, self._settings
        for at, size in split_batches(len(X), state.model.padded_to):
            n = at.stop - at.start
            target = np.zeros((size, settings.num_outputs))
            target[:n] = (y[at] - state.targets.mean) / state.targets.scale
            if moved is not None and not state.model.learns_far_inputs:
                target[:n][moved[at]] = np.nan
            with on_device(settings.spec.device):
                model_state, info = state.model.update(
                    state.model_state,
                    _padded(state, X[at], size),
                    target,
                    None if size == n else np.arange(size) < n,
                    _padded_times(None if times is None else times[at], size),
                    None if later is None else _padded(state, later[at], size),
                    **_more(state, extra, at, size),
                )
            info = tree.map(lambda a, n=n: np.asarray(a)[:n], info)
            # The rules of the provisional model are not reported.
            rules = info.rules if state.experts else None
            parts.append(info._replace(predictive=self._in_units(info.predictive, X[at]), rules=rules))
            state = replace(state, model_state=model_state)
        self._state, info = state, concatenate(parts)
        if info.non_finite is not None and info.non_finite.any():
            self.restarted |= frozenset(np.flatnonzero(info.non_finite.any(0)).tolist())
        return info

    def _in_units(self, predictive: AnyPredictive, X: np.ndarray) -> AnyPredictive:
        task, state = self._settings.task, self._state
        predicted = task.in_units(predictive, len(X), state.targets, state.num_classes)
        return predicted if self._knows_targets else task.guessed(predicted, X)

    def flush(self) -> Any:
        """Return the model's state after the rows learnt."""
        return self._state.model_state


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
    with one_blas_thread():
        whole: Any = BatchEngine(settings, state).predict(state.inputs.clip(X)[0], times, extra)
    if state.target_range is not None:
        whole = state.target_range.limit(whole, settings.rows_ahead if ahead is None else ahead)
    return whole if state.correlation is None else state.correlation.of(whole)


def _padded(state: StreamState, X: np.ndarray, size: int) -> np.ndarray:
    """Return rows that are within the bounds, standardised and padded to `size` rows."""
    padded = np.zeros((size, X.shape[1]))
    padded[: len(X)] = state.inputs.scaling.transform(X)
    return padded


def _padded_times(times: np.ndarray | None, size: int) -> np.ndarray | None:
    return None if times is None else np.pad(times, (0, size - len(times)), mode="edge")


def _more(state: StreamState, extra: Extra, rows: slice, size: int) -> dict[str, Any]:
    """Return the rows' additional variance for a model that can take it, padded to `size` rows."""
    if extra is None or not state.model.takes_extra_variance:
        return {}
    return {"extra": np.pad(extra[rows], (0, size - (rows.stop - rows.start)))}
