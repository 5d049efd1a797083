"""How much each column matters to a model: what a gap in it adds to the variance of a prediction."""

from dataclasses import replace

import numpy as np

from streamgp.likelihoods import AnyPredictive
from streamgp.numerics.batching import LARGEST
from streamgp.stream.batches import predict_rows
from streamgp.stream.inputs import Extra
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

PROBES = 1024  # rows that are predicted to find out what the columns matter
MEASURED_EVERY = LARGEST  # at row counts that are multiples of it, if anything was missing so far


def with_measured_gains(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state with what each column matters, measured by the model of now.

    The gain of a column is the mean squared change of the prediction, in standardised units of the targets, by a unit
    of the column: see `Imputer.probes`.
    """
    return replace(state, inputs=replace(state.inputs, gains=_measured(settings, state)))


def fill_next(settings: StreamSettings, state: StreamState, X: np.ndarray) -> tuple[np.ndarray, Extra]:
    """Fill each row as if it were the next one, and return the variance that its gaps add."""
    if state.inputs.gains is None and state.inputs.have_gaps(X).any():
        state = with_measured_gains(settings, state)
    return state.inputs.fill(X)


def with_due_gains(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state with the gains measured again at some row counts, where there are gains at all."""
    if state.inputs.gains is None or state.rows % MEASURED_EVERY:
        return state
    return with_measured_gains(settings, state)


def predicted_at(
    settings: StreamSettings, state: StreamState, X: np.ndarray, time: float | None = None
) -> AnyPredictive:
    """Return what is predicted of the next target at inputs without gaps, on the scale that is learnt.

    Columns of categories are those of 0 and 1 already; lags are as they are now. With times it comes at `time`, or
    at that of the last row.
    """
    last = state.last_time if time is None else time
    wide = state.inputs.lags.widen_next(X)
    times = None if last is None else np.full(len(X), last)
    return predict_rows(settings, state, wide, times)


def _measured(settings: StreamSettings, state: StreamState) -> np.ndarray:
    imputer = state.inputs.imputer
    if not state.model.takes_extra_variance or not state.rows:
        return np.zeros(imputer.width)
    base, moved, steps = imputer.probes(PROBES, state.inputs.scaling.scale)
    # Means in standardised units of the targets.
    there, here = (predicted_at(settings, state, X).mean / np.asarray(state.targets.scale) for X in (moved, base))
    change = there.reshape(imputer.width, len(base), -1) - here
    return np.square(change).mean(axis=(1, 2)) / np.square(steps)
