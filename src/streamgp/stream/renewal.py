"""When experts are fitted anew, and to which rows."""

import math
from dataclasses import replace

import numpy as np

from streamgp.models.base import FittedModel, RenewingFamily, WarmupRows
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.batching import LARGEST
from streamgp.numerics.precision import computed, in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.reservoir import LATEST, Reservoir
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

GROWTH = 1.25  # of the rows, from one renewal to the next
# And so many rows after a change, to the rows since. No batch has both the change and the first of them.
AFTER_CHANGE = (LARGEST, 2 * LARGEST, LATEST)


def next_renewal(settings: StreamSettings, state: StreamState) -> float:
    """Return the next row count at which experts are fitted anew; infinite where they never are."""
    if state.reservoir is None:
        return math.inf
    k = max(math.floor(math.log(max(state.rows / settings.warmup, 1.0), GROWTH)), 0)
    due = [_due(settings, k + i) for i in range(4)]
    if state.errors.changed_at:
        due += [state.errors.changed_at + rows for rows in AFTER_CHANGE]
    return min(each for each in due if each > state.rows)


def _due(settings: StreamSettings, number: int) -> int:
    """Return after how many rows the renewal with a number is due."""
    return math.ceil(settings.warmup * GROWTH**number)


def with_rows(
    settings: StreamSettings, state: StreamState, rows: RawRows, predicted: AnyArray, flagged: AnyArray | None
) -> StreamState:
    """Return the state with its next rows, which were learnt, in the reservoir, and their errors counted.

    Outliers, which are `flagged`, take no part. With a horizon no errors are counted: what was `predicted` (n, E) is
    then not of these targets.
    """
    assert state.reservoir is not None
    outlier = np.zeros(len(rows.X), bool) if flagged is None else np.asarray(flagged)
    errors = (np.abs(rows.y - np.asarray(predicted)) / np.asarray(state.targets.scale)).mean(axis=1)
    errors[outlier | bool(settings.horizon)] = np.nan
    return replace(
        state, reservoir=state.reservoir.add(rows.part(~outlier)), errors=state.errors.learn(errors, state.rows)
    )


def renewed(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state with new experts, if some are due after the rows that it has learnt."""
    if state.reservoir is None:
        return state
    every, since = settings.spec.searched_every, state.rows - state.errors.changed_at
    if state.errors.changed_at and since in AFTER_CHANGE:
        return refitted(settings, state, searches=every > 0, latest=since)
    k = round(math.log(state.rows / settings.warmup, GROWTH))
    if k > 0 and state.rows == _due(settings, k):
        return refitted(settings, state, searches=every > 0 and k % every == 0)
    return state


def conditioned_apart(settings: StreamSettings, state: StreamState, rows: RawRows) -> StreamState:
    """Return the state at the end of the warm-up, in which some experts have learnt only part of its rows.

    `rows` are those of the warm-up as the model takes them. Where experts are renewed, they are kept.
    """
    family = settings.family
    if not isinstance(family, RenewingFamily):
        return state
    if settings.spec.warmup_posterior == "condition":
        fitted, times = _standardised(state, rows)
        state = replace(state, model_state=family.conditioned_apart(state.model, state.model_state, fitted, times))
    if not settings.spec.renewable:
        return state
    empty = Reservoir.empty(rows.X.shape[1], settings.num_outputs, settings.timed)
    return replace(state, reservoir=empty.add(rows))


@in_float64
def refitted(
    settings: StreamSettings, state: StreamState, *, searches: bool, latest: int | None = None
) -> StreamState:
    """Return the state with experts fitted to the reservoir, or to the `latest` of its rows."""
    family = settings.family
    assert isinstance(family, RenewingFamily)
    assert state.reservoir is not None
    rows, times = _standardised(state, state.reservoir.rows().part(slice(0 if latest is None else -latest, None)))
    fitted = FittedModel(state.model, list(state.experts))
    how = {"learnt": state.rows, "searches": searches, "seed": settings.seed}
    with one_blas_thread():
        (model, experts), model_state = family.renew(settings.spec, fitted, state.model_state, rows, times, **how)
        computed((model, model_state))
    return replace(state, model=model, model_state=model_state, experts=tuple(experts))


def _standardised(state: StreamState, rows: RawRows) -> tuple[WarmupRows, np.ndarray | None]:
    """Return rows of the reservoir as a family fits them, and their times."""
    targets = np.asarray((rows.y - state.targets.mean) / state.targets.scale)
    return WarmupRows(state.inputs.standardised(rows.X), targets, state.num_classes, 1.0), rows.times
