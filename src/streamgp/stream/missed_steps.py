"""Steps of the clock that passed without a row: lags and forecasts count them, and something stands for their targets."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from streamgp.stream.passed_rows import carried_over
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState


def counts_steps(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether steps without a row matter: not with a horizon, which counts the rows learnt."""
    looks_back = bool(state.inputs.lags) or state.recent is not None
    return state.timetable is not None and looks_back and not settings.horizon


def before_each(
    settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None, waiting: int = 0
) -> Int[np.ndarray, " n"]:
    """Return how many steps had no row before each row, were it the next one after so many that wait for a label."""
    clock = settings.clock(X, times)
    if state.timetable is None or clock is None or not counts_steps(settings, state):
        return np.zeros(len(X), np.int64)
    return state.timetable.before_each(clock, waiting)


def leading_without(
    settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None
) -> tuple[StreamState, int]:
    """Return what is known once the steps before the next row have passed, and how many rows come before others do."""
    clock = settings.clock(X, times)
    if state.timetable is None or clock is None or not counts_steps(settings, state):
        return state, len(X)
    missed, _ = state.timetable.along(clock)
    more = np.flatnonzero(missed[1:])
    return with_missed(state, int(missed[0])), int(more[0]) + 1 if len(more) else len(X)


def with_missed(state: StreamState, rows: int) -> StreamState:
    """Return what is known once so many steps have passed without a row."""
    if not rows or state.timetable is None:
        return state
    lags, recent = state.inputs.lags, state.recent
    if lags or recent is None:
        stand = lags.carried(rows)
    else:
        stand = carried_over(recent.y, max(season for season, _ in state.seasons), rows)
    if recent is not None:
        recent = recent.learn(np.full((rows, recent.X.shape[1]), np.nan), stand)
    inputs = replace(state.inputs, lags=lags.learn(stand)) if lags else state.inputs
    return replace(state, inputs=inputs, recent=recent, timetable=state.timetable.passed(rows))


def moved_on(settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None) -> StreamState:
    """Return the state with the clock moved on by rows that came."""
    clock = settings.clock(X, times)
    if state.timetable is None or clock is None:
        return state
    return replace(state, timetable=state.timetable.along(clock)[1])
