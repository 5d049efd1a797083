"""Steps of the clock that passed without a row: lags and forecasts count them, and their targets are stood in for."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from streamgp.stream.batches import predict_rows
from streamgp.stream.lags import LaggedTargets
from streamgp.stream.passed_rows import SHORTEST_SEASON, carried_over
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

PREDICTED = 3  # steps at one place for which a prediction stands, where no season does; then the last of them


def counts_steps(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether steps without a row matter: not with a horizon, which counts the rows learnt."""
    looks_back = bool(state.inputs.lags) or state.recent is not None
    return state.timetable is not None and looks_back and not settings.horizon


def widened_after(
    settings: StreamSettings,
    state: StreamState,
    lags: LaggedTargets,
    filled: Float[np.ndarray, "n w"],
    X: Float[np.ndarray, "n d"],
    times: Float[np.ndarray, " n"] | None,
    waiting: int = 0,
) -> Float[np.ndarray, "n v"]:
    """Return rows, `filled` without gaps and `X` as they came, with lags, each as if it were the next one.

    Each comes after the steps without a row before it, of which so many rows that wait for a label are none; these
    are known to the `lags`.
    """
    clock = settings.clock(X, times)
    if not lags or state.timetable is None or clock is None or settings.horizon:
        return lags.widen_next(filled)
    missed = state.timetable.before_each(clock, waiting)
    most = int(missed.max(initial=0))
    return (
        lags.widen_after(filled, missed, _expected(settings, state, lags, most)) if most else lags.widen_next(filled)
    )


def leading_without(
    settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None
) -> tuple[StreamState, int]:
    """Return what is known once the steps before the next row have passed, and how many rows lie before others."""
    state, clock = with_missed(settings, state, X, times), _counted(settings, state, X, times)
    if state.timetable is None or clock is None:
        return state, len(X)
    more = np.flatnonzero(state.timetable.along(clock)[0])
    return state, int(more[0]) if len(more) else len(X)


def with_missed(settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None) -> StreamState:
    """Return what is known once the steps without a row before the first of the next rows have passed."""
    clock = _counted(settings, state, X, times)
    if state.timetable is None or clock is None:
        return state
    rows, timetable = state.timetable.passed_to(float(clock[0]))
    if not rows:
        return state
    inputs, recent = state.inputs, state.recent
    if inputs.lags or recent is None:
        stand = _expected(settings, state, inputs.lags, rows)
        inputs = replace(inputs, lags=inputs.lags.learn(stand))
    else:
        stand = carried_over(recent.y, max(season for season, _ in state.seasons), rows)
    if recent is not None:
        recent = recent.learn(np.full((rows, recent.X.shape[1]), np.nan), stand)
    return replace(state, inputs=inputs, recent=recent, timetable=timetable)


def _counted(
    settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None
) -> np.ndarray | None:
    """Return the times of rows by the clock; None where its steps without a row do not matter."""
    return settings.clock(X, times) if counts_steps(settings, state) else None


def _expected(
    settings: StreamSettings, state: StreamState, lags: LaggedTargets, rows: int
) -> Float[np.ndarray, "n e"]:
    """Return what stands for the targets of so many missed steps; that of the first ones is the same for any number.

    Where a season is among the lags it is what `carried_over` says, which moves with the level and keeps the season's
    shape, for lags of a season later. Else it is what is predicted, one step after the other, with inputs filled in.
    """
    if max(lags.lags) >= SHORTEST_SEASON:
        return lags.carried(rows)
    found = np.zeros((0, settings.num_outputs))
    x = np.full((1, settings.num_inputs), np.nan)
    if settings.spec.exposure:
        x[:, -1] = 0.0  # the log of one
    for step in range(1, min(rows, PREDICTED) + 1):
        assert state.timetable is not None
        time = np.array([state.timetable.last + step * state.timetable.step])
        x[:, settings.categories.dates] = time
        wide = lags.widen_next(state.inputs.fill(x)[0])
        predictive = predict_rows(settings, state, wide, time if settings.timed else None)
        found = np.concatenate([found, settings.task.expected_lags(predictive, x)])
        lags = lags.learn(found[-1:])
    return np.concatenate([found, lags.carried(rows - len(found))])


def moved_on(settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None) -> StreamState:
    """Return the state with the clock moved on by rows that came."""
    clock = settings.clock(X, times)
    if state.timetable is None or clock is None:
        return state
    return replace(state, timetable=state.timetable.along(clock)[1])
