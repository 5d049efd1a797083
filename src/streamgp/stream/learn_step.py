"""How a stream is learnt: which rows go together, and what each batch of them does to the state."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamgp.likelihoods import AnyPredictive
from streamgp.models.contract import ClassModel, Info
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.batching import SMALL, concatenate
from streamgp.numerics.precision import computed, in_float64
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.batches import BatchEngine, predict_rows
from streamgp.stream.categories import Categories
from streamgp.stream.doubts import surprised, with_surprises
from streamgp.stream.driver import Driver, max_batch
from streamgp.stream.forecast_queue import Forecasts
from streamgp.stream.gains import fill_next, with_due_gains, with_measured_gains
from streamgp.stream.missed_steps import leading_without, moved_on, widened_after
from streamgp.stream.renewal import renewed
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.warmup import Progress, known_rows, rebuild, rebuild_due, with_calendar, with_warmup_rows

FIRST_LEVELS = 16  # rows, before which no level has a column: to learn anew with each would cost more than it tells
Learnt = tuple[StreamState, Info]
Learn = Callable[[StreamSettings, StreamState, RawRows, Progress], Learnt]


@in_float64
def first_state(settings: StreamSettings, num_classes: int, categories: Categories) -> StreamState:
    """Return the state before any row, with the prior's forecasts of the first rows."""
    state = StreamState.start(settings, num_classes, categories)
    if not settings.horizon:
        return state
    prior = predict_rows(settings, state, np.zeros((settings.horizon, state.inputs.width)))
    return replace(state, forecasts=Forecasts(((prior, None),)))


@in_float64
def predict_next(
    settings: StreamSettings, state: StreamState, X: np.ndarray, times: np.ndarray | None
) -> AnyPredictive:
    """Predict each row as if it were the next one, in the units of the targets; inputs may be missing (NaN)."""
    filled, extra = fill_next(settings, state, X)
    wide = widened_after(settings, state, state.inputs.lags, filled, X, times)
    return predict_rows(settings, state, wide, times, extra)


@in_float64
def predict_after(
    settings: StreamSettings, state: StreamState, rows: RawRows, unlearnt: np.ndarray, *, following: bool = True
) -> Info:
    """Predict rows after others that were not learnt, so many more steps ahead, `following` each other or not.

    `unlearnt` (w, E) stands for the targets of those others where past targets are inputs; rows that follow each
    other can then not be predicted together. The targets of `rows` are not looked at.
    """
    n, ahead = len(rows.X), len(unlearnt)
    X, extra = fill_next(settings, state, rows.X)
    wide = widened_after(settings, state, state.inputs.lags.learn(unlearnt), X, rows.X, rows.times, ahead)
    times, then = rows.times, state
    steps = ahead + 1.0 + (np.arange(n) if following else np.zeros(n))
    if times is None and (ahead or (following and n > 1)):  # a stream that counts rows has a step for each
        times = steps
        start = np.zeros_like(state.model_state.last_time)
        then = replace(state, model_state=replace(state.model_state, last_time=start))
    return _described(state, predict_rows(settings, then, wide, times, extra, steps))


def _described(state: StreamState, predictive: AnyPredictive) -> Info:
    """Return predictions of rows that are not learnt, with what counted in them."""
    n = len(predictive.log_weights)
    rules = np.tile([*state.rules.values()], (n, 1)) if state.rules else None
    weights = None if state.model.mixes_experts else np.tile(state.weights, (n, 1))
    return Info(predictive, np.zeros(n, bool), rules, weights)


def next_batch(settings: StreamSettings, state: StreamState, rows: RawRows) -> tuple[StreamState, RawRows, Learn]:
    """Return as many of the leading rows as go together, and how they are learnt from the state returned.

    There is at least one, and none beyond the next boundary, or after steps of the clock without a row but the first.
    Each has a target, or none has; a row with the first label of a class comes alone. Call it inside `float64`.
    """
    n = min(len(rows.X), max_batch(settings, state))
    state, n = leading_without(settings, state, rows.X[:n], None if rows.times is None else rows.times[:n])
    unlabelled = _has_nan(rows.y[:n])
    if unlabelled[0]:
        n = leading(unlabelled)
        if lags := _looking_back(settings, state):  # no row of a batch is a lag of another
            n = min(n, lags[0])
        return state, rows.part(slice(n)), _pass_over
    n = leading(~unlabelled)
    if state.inputs.gains is None:
        gaps = state.inputs.have_gaps(rows.X[:n])
        if gaps[0]:  # the stream's first gap
            state = with_measured_gains(settings, state)
            n = min(n, max_batch(settings, state))
        else:
            n = leading(~gaps)
    new = settings.task.new_class(rows.y[:n], state.num_classes)
    if new == 0:
        return state, rows.part(slice(1)), _learn_new_class
    return state, rows.part(slice(n if new is None else new)), _learn_batch


def _pass_over(settings: StreamSettings, state: StreamState, rows: RawRows, progress: Progress) -> Learnt:
    """Predict rows with a target missing, each as if it were the next one, but that lags keep their distance.

    What was predicted stands as a lag for a target that is missing. Of several targets those that are there teach how
    their errors go together, and no row teaches anything else.
    """
    state = state if state.is_warmed_up else replace(state, passed=state.passed.add(state.rows, len(rows.X)))
    if settings.horizon:  # the forecast that the next target is to meet
        forecast = tree.map(lambda a: np.repeat(a[:1], len(rows.X), axis=0), state.forecasts.parts[0])
        info = _described(state, forecast[0])._replace(rules=forecast[1])
    else:
        X, extra = fill_next(settings, state, rows.X)
        wide = state.inputs.lags.widen(X, rows.y)  # no row of a batch is a lag of another
        info = _described(state, predict_rows(settings, state, wide, rows.times, extra))
    counted = moved_on(settings, state, rows.X, rows.times)
    counted = replace(counted, imputed_values=state.imputed_values + int(np.isnan(rows.X).sum()))
    if state.rows and (_looking_back(settings, state) or state.recent is not None):
        expected = settings.task.expected_lags(info.predictive, rows.X)
        known = settings.task.as_lags(rows.y, rows.X)
        past = np.where(np.isnan(rows.y), expected, known)
        recent = None if counted.recent is None else counted.recent.learn(X, past)
        counted = replace(
            counted, inputs=replace(counted.inputs, lags=counted.inputs.lags.learn(past)), recent=recent
        )
    if state.correlation is None or np.isnan(rows.y).all():
        return counted, info
    correlation, matrices = state.correlation.learn(info.predictive, rows.y)
    if not settings.horizon:
        info = info._replace(predictive=replace(info.predictive, correlation=matrices[:-1]))
    return replace(counted, correlation=correlation), info


def _looking_back(settings: StreamSettings, state: StreamState) -> tuple[int, ...]:
    """Return the lags that count rows without a target: none with a horizon, which counts the rows learnt."""
    return () if settings.horizon else state.inputs.lags.lags


def _learn_new_class(settings: StreamSettings, state: StreamState, rows: RawRows, progress: Progress) -> Learnt:
    """Learn a row with a label that no row had before, which was predicted among the classes known so far."""
    predictive = predict_next(settings, state, rows.X, rows.times)
    while state.num_classes <= rows.y[0, 0]:
        state = with_class(settings, state, progress)
    state, info = _learn_batch(settings, state, rows, progress)
    return state, info._replace(predictive=predictive)


@in_float64
def with_class(settings: StreamSettings, state: StreamState, progress: Progress = None) -> StreamState:
    """Return the state with one class more."""
    more = replace(state, num_classes=state.num_classes + 1)
    if not state.is_warmed_up:
        with one_blas_thread():
            return rebuild(settings, more, progress)
    assert isinstance(state.model, ClassModel)
    model, model_state = state.model.add_class(state.model_state, state.num_classes, state.rows)
    return replace(more, model=model, model_state=model_state)


def _learn_batch(
    settings: StreamSettings, before: StreamState, rows: RawRows, progress: Progress, past: np.ndarray | None = None
) -> Learnt:
    """Learn rows in one block by the model that there is, and what is due after them: see `Driver.learn`.

    Given `past`, the targets as later rows are to see them, nothing is looked for in the rows, and nothing is due.
    """
    # What BLAS' threads round depends on how many there are: of fits, and of all that is learnt.
    with one_blas_thread():
        state = with_warmup_rows(before, rows)
        driver = Driver(settings, state, BatchEngine(settings, state))
        info = driver.learn(rows, past)
        state = driver.flush()
        computed(state.model_state)
    if past is not None:
        return state, info
    if state.inputs.lags and info.flagged is not None and _first_seen(settings, info.flagged) is not None:
        state, info = _learn_without_glitches(settings, before, rows)
    n, surprises = surprised(settings, before, rows, info)
    if n < len(rows.X):
        state, _ = _learn_batch(settings, before, rows.part(slice(n)), progress)
        return state, tree.map(lambda a: a[:n], info)  # as if the rows beyond had other targets, to the last bit
    return due_after(settings, with_surprises(state, rows.X[n - 1 :], surprises), progress), info


def _learn_without_glitches(settings: StreamSettings, state: StreamState, rows: RawRows) -> Learnt:
    """Learn rows some of which are outliers, for which something else stands as lags of the rows after them.

    Which rows are outliers depends on the lags, so that a batch is learnt anew for each that is found in it.
    """
    parts = []
    for at in range(0, len(rows.X), SMALL):
        batch = rows.part(slice(at, at + SMALL))
        past, known = batch.y, np.zeros(len(batch.y), bool)
        while True:
            after, info = _learn_batch(settings, state, batch, None, past)
            found = _first_seen(settings, np.asarray(info.flagged) & ~known)
            if found is None:
                break
            known[found] = True
            means = np.asarray(info.predictive.mean)
            past, _ = state.inputs.lags.standing_in(batch.y, means, known, settings.rows_ahead)
        state = after
        parts.append(info)
    return state, concatenate(parts)


def _first_seen(settings: StreamSettings, outliers: AnyArray) -> int | None:
    """Return the first of the outliers of a batch for which something else is to stand as a lag in there.

    The last row is a lag of none of them, but with a horizon, where forecasts are made from a row's own target.
    """
    seen = np.flatnonzero(outliers if settings.horizon else outliers[:-1])
    return int(seen[0]) if len(seen) else None


@in_float64
def due_after(settings: StreamSettings, state: StreamState, progress: Progress = None) -> StreamState:
    """Return the state with what is due after its rows: measured gains, a model built anew, new experts."""
    return renewed(settings, _with_due_model(settings, state, progress))


def _with_due_model(settings: StreamSettings, state: StreamState, progress: Progress) -> StreamState:
    """Return the state with gains that are measured again, and a model that is built anew, where it is time to."""
    with one_blas_thread():
        state = with_due_gains(settings, state)
        if not rebuild_due(settings, state):
            return state
        ends = state.rows == settings.warmup
        categories = state.inputs.categories
        if ends or state.rows >= FIRST_LEVELS:  # an exposure, the last column, is no input
            rows = known_rows(state).X[:, : settings.num_inputs - settings.spec.exposure]
            statistics = settings.task.level_statistics(settings.num_outputs, state.num_classes)
            categories = categories.after(rows, statistics)
        if ends and categories.is_open:
            categories = with_calendar(settings, state, categories)
        if categories != (before := state.inputs.categories):
            if categories.each_width(settings.num_inputs) != before.each_width(settings.num_inputs):
                return _relearnt(settings, state, categories, progress)
            state = replace(state, inputs=replace(state.inputs, categories=categories))
        state = rebuild(settings, state, progress)
        if settings.horizon:  # what is known of the last row is more by now
            last = _last_forecast(settings, state)
            state = replace(state, forecasts=state.forecasts.with_last(last))
        computed(state.model_state)
    return state


def _relearnt(
    settings: StreamSettings, state: StreamState, categories: Categories, progress: Progress
) -> StreamState:
    """Return the state after the rows of the warm-up so far, as if all this had been known from the start."""
    rows = known_rows(state)
    again = replace(first_state(settings, state.num_classes, categories), passed=state.passed)
    rows = rows if settings.timed else rows._replace(times=None)
    while len(rows.X):
        again, batch, learn = next_batch(settings, again, rows)
        again, info = learn(settings, again, batch, progress)
        rows = rows.part(slice(len(info.outside), None))
    return replace(again, imputed_values=state.imputed_values)


def _last_forecast(settings: StreamSettings, state: StreamState) -> tuple[AnyPredictive, np.ndarray | None]:
    """Return the forecast from the last row learnt, and the weights of the rules."""
    rules = np.asarray([[*state.rules.values()]])
    return predict_rows(settings, state, state.origins.inputs[-1:]), rules if rules.size else None


def _has_nan(rows: np.ndarray) -> np.ndarray:
    """Return which rows have a NaN."""
    return np.asarray(np.isnan(rows).any(axis=1))


def leading(flags: np.ndarray) -> int:
    """Return how many of the flags are set before the first that is not."""
    return len(flags) if flags.all() else int(np.argmin(flags))
