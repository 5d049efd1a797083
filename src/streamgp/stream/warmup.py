"""The warm-up of a stream: a provisional model that is rebuilt as rows come, and the fit that ends it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.likelihoods import Predictive
from streamgp.models.base import FittedModel, PathFamily, WarmupRows
from streamgp.models.contract import Info
from streamgp.numerics import keys, tree
from streamgp.numerics.batching import concatenate
from streamgp.numerics.precision import computed
from streamgp.stream.batches import BatchEngine
from streamgp.stream.calendar_choice import choose_calendar, longer_than, whole
from streamgp.stream.categories import Categories
from streamgp.stream.clock import cycles_by_rows, is_dated
from streamgp.stream.forecast_queue import Origins
from streamgp.stream.gains import with_measured_gains
from streamgp.stream.inputs import USUAL, Extra, StreamInputs
from streamgp.stream.lag_choice import LONGER_LAGS, choose_lags
from streamgp.stream.passed_rows import PassedRows
from streamgp.stream.recent_rows import RecentRows
from streamgp.stream.renewal import conditioned_apart
from streamgp.stream.rows import RawRows
from streamgp.stream.sample import RowSample
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.target_range import TargetRange
from streamgp.stream.timetable import Timetable
from streamgp.table.codes import find_suspects

MOST_GLITCHES = 0.1  # of the rows; where there are more, as days among nights of zeros, they are none
Progress = Callable[[int, int], None] | None


def rebuild_due(settings: StreamSettings, state: StreamState) -> bool:
    """Return whether the model is to be rebuilt: in the warm-up at rows 1, 2, 4, 8, ..., and at its end."""
    return not state.is_warmed_up and (state.rows == settings.warmup or state.rows.bit_count() == 1)


def with_warmup_rows(state: StreamState, new: RawRows) -> StreamState:
    """Return the state with rows added to those of the warm-up, while it lasts."""
    if state.warmup_rows is None:
        return state
    timed = new if new.times is not None else new._replace(times=np.zeros(len(new.X)))
    return replace(state, warmup_rows=(*state.warmup_rows, timed.copy()))


def known_rows(state: StreamState) -> RawRows:
    """Return the rows of the warm-up so far."""
    assert state.warmup_rows is not None
    return concatenate(list(state.warmup_rows))


def reread(
    settings: StreamSettings, state: StreamState, rows: RawRows
) -> tuple[StreamState, np.ndarray, np.ndarray, Extra]:
    """Read the rows of the warm-up again, by all that is known by now.

    What their levels are worth is what it was when they came, but for glitches.

    Returns
    -------
    state
        With what the levels are worth after the rows.
    usual
        Their targets without glitches.
    X, extra
        The rows without gaps, and the variance that these add.
    """
    task, robust = settings.task, settings.spec.robust

    def read(y: np.ndarray) -> tuple[StreamInputs, np.ndarray, Extra]:
        categories = state.inputs.categories
        start = StreamInputs.empty(settings.spec, settings.num_inputs, settings.num_outputs, categories)
        coded, learnt = start.learn_levels(rows.X, task.level_values(rows.X, y, categories.statistics))
        return replace(state.inputs, effects=learnt.effects), *state.inputs.refill(coded, robust=robust)

    inputs, X, extra = read(rows.y)
    usual = task.usual(X, rows.y, settings.seed)
    if inputs.effects.columns and (usual != rows.y).any():
        inputs, X, extra = read(usual)
    return replace(state, inputs=inputs), usual, X, extra


def passed_over(settings: StreamSettings, state: StreamState) -> PassedRows:
    """Return where lags have rows without a target to count; a horizon counts the rows learnt, and so do its lags."""
    return PassedRows.none() if settings.horizon else state.passed


def on_the_clock(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state at the end of the warm-up with its timetable, by which steps without a row are passed over."""
    times, every = _clock(settings, known_rows(state)), _whole_clock(settings, state, state.passed)
    timetable = None if every is None else Timetable.of(every)
    if times is None or timetable is None:
        return state
    missed, timetable = timetable.along(times, 1 + state.passed.before_each(len(times)))
    return replace(state, passed=state.passed.with_missed(missed), timetable=timetable)


def rebuild(settings: StreamSettings, state: StreamState, progress: Progress) -> StreamState:
    """Standardise by the rows so far and condition a model on them; at the end of the warm-up, a fitted one.

    Call it inside `float64`, with BLAS at one thread.
    """
    spec, task, h = settings.spec, settings.task, settings.horizon
    X, y, times = rows = known_rows(state)
    assert times is not None
    ends, levels = state.rows == settings.warmup, getattr(state.model_state, "levels", None)
    state, usual, X, extra = reread(settings, on_the_clock(settings, state) if ends else state, rows)
    targets, passed = task.scale(usual, provisional=not ends), passed_over(settings, state)
    past = [task.as_lags(each, rows.X) for each in (usual, y)]
    if ends:
        chosen = state.inputs.lags.lags
        if spec.chooses_lags:
            chosen = _chosen_lags(settings, state, X, task.as_lags(_for_choices(usual, y), rows.X))
        state = replace(state, inputs=state.inputs.with_lags(chosen, past[0], passed))
    # The first rows' lags are missing still, but now there is a mean to stand in for them.
    lags = replace(state.inputs.lags, fill=task.lag_fill(past[0], targets))
    state, lags = replace(state, inputs=replace(state.inputs, lags=lags)), lags.emptied()
    widened, inputs = (lags.widen_among(X, each, passed, own=h > 0) for each in past)
    usual_kinds = np.full(state.rows, USUAL)
    rebuilt = replace(
        state,
        warmup_rows=(rows,),
        suspects=_suspects(rows, state.inputs.categories.columns) if ends else state.suspects,
        seasons=_seasons(settings, state, state.inputs.lags.lags) if ends else (),
        targets=targets,
        inputs=state.inputs.scaled_by(widened, spec),
        origins=Origins.empty(h, inputs.shape[1]).paired(inputs, usual_kinds)[2],
    )
    if ends:
        # The provisional expert that did best goes on beside the fitted ones; a user's matrix counts these alone.
        continues = settings.weighs_warmup and spec.rule != "Q"
        best = task.best_provisional_expert(state.weights, inputs.shape[1], settings.seed) if continues else None
        model, experts = _fit(settings, rebuilt, widened[: state.rows - h], usual[h:], times, best, progress)
        rebuilt = replace(rebuilt, experts=tuple(experts))
    else:
        pairs = _as_fitted(settings, rebuilt, widened[: state.rows - h], usual[h:], times)
        model = settings.task.provisional(X, y, pairs, settings.seed)
    prior = model.init(keys.key(settings.seed), h)
    rebuilt, info = replace(rebuilt, model=model, model_state=prior), None
    if state.rows > h and (not ends or spec.warmup_posterior == "condition"):
        n, stamps = state.rows - h, times if settings.timed else None
        taken, moved, known = rebuilt.inputs.bounded(inputs[:n])
        taken, (later, added) = known.clip(taken)[0], (known.clip(inputs[h:])[0], None) if h else (None, extra)
        engine = BatchEngine(settings, rebuilt)
        info = engine.update(taken, y[h:], stamps, later=later, extra=added, moved=moved)
        rebuilt = replace(rebuilt, inputs=known, model_state=engine.flush())
    if ends:
        rebuilt = _ended(settings, rebuilt, prior, info, y, times)
        stamps = times[h:] if settings.timed else None
        rebuilt = conditioned_apart(settings, rebuilt, RawRows(inputs[: state.rows - h], usual[h:], stamps))
        learnt = RawRows(inputs[: state.rows - h], y[h:], None)
        sample = RowSample.empty(inputs.shape[1], settings.num_outputs)
        glitches = (usual != y).any(axis=1)
        recent = _recent(settings, replace(state, seasons=rebuilt.seasons), X, usual)
        rebuilt = replace(rebuilt, sample=sample.offer(learnt, glitches[h:]), recent=recent)
        if settings.transforms:
            target_range = TargetRange.empty(settings.num_outputs).learn(y, glitches)[0]
            rebuilt = replace(rebuilt, target_range=target_range)
    if levels is not None:  # of targets that set the scale, or were fitted, the levels would tell little
        rebuilt = replace(rebuilt, model_state=replace(rebuilt.model_state, levels=levels))
    return rebuilt if state.inputs.gains is None else with_measured_gains(settings, rebuilt)


def with_calendar(settings: StreamSettings, state: StreamState, categories: Categories) -> Categories:
    """Return what becomes of the columns of X, with the calendar that the rows of the warm-up speak for."""
    state, rows, task = on_the_clock(settings, state), known_rows(state), settings.task
    _, usual, X, _ = reread(settings, state, rows)
    numbers = task.as_numbers(_for_choices(usual, rows.y), rows.X)
    times, chosen, too_long = _clock(settings, rows), (), ()
    if times is not None:
        too_long = longer_than(times)
        lags = _chosen_lags(settings, state, X, numbers) if settings.spec.chooses_lags else settings.spec.lags
        chosen = choose_calendar(
            X, numbers, lags, times, settings.horizon, settings.delay, passed_over(settings, state)
        )
    return replace(categories, calendar=(*chosen, *categories.entries), too_long=too_long)


def _chosen_lags(settings: StreamSettings, state: StreamState, X: np.ndarray, y: np.ndarray) -> tuple[int, ...]:
    """Return the lags that the rows of the warm-up speak for; `X` and the numbers `y` are without gaps and outliers.

    They are chosen beside the other inputs, but not beside the calendar (see `choose_calendar`) or an exposure.
    """
    others = ~state.inputs.categories.of_calendar(X.shape[1])
    others[X.shape[1] - settings.spec.exposure :] = False
    passed = passed_over(settings, state)
    times = _whole_clock(settings, state, passed)
    return choose_lags(X[:, others], y, settings.horizon, settings.delay, times, passed)


def _seasons(settings: StreamSettings, state: StreamState, lags: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    """Return the cycles of the clock of which the rows show two, and the longest lag that is no short one."""
    times = _whole_clock(settings, state, state.passed)
    found = {} if times is None or not is_dated(times) else cycles_by_rows(times)
    longest = max(lags, default=0)
    if longest - settings.delay > LONGER_LAGS[-1][-1]:
        found.setdefault(longest, "")
    return tuple(sorted((season, name) for season, name in found.items() if 2 * season <= state.rows))


def _for_choices(usual: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the targets by which inputs are chosen: without glitches, unless so many rows are that none is."""
    return y if (usual != y).any(axis=1).mean() > MOST_GLITCHES else usual


def _clock(settings: StreamSettings, rows: RawRows) -> np.ndarray | None:
    """Return the times of rows, what is missing between its neighbours."""
    clock = settings.clock(rows.X, rows.times)
    return None if clock is None else whole(clock)


def _whole_clock(settings: StreamSettings, state: StreamState, passed: PassedRows) -> np.ndarray | None:
    """Return the times of all rows of the warm-up, ascending, those of rows passed over between their neighbours."""
    times = _clock(settings, known_rows(state))
    if times is None:
        return None
    places = passed.places(len(times))
    return np.interp(np.arange(places[-1] + 1), places, np.sort(times))


def _recent(settings: StreamSettings, state: StreamState, X: np.ndarray, usual: np.ndarray) -> RecentRows | None:
    """Return the rows of the warm-up, those passed over among them, where forecasts are to be regressed on such rows.

    So they are where past targets are inputs, and where the clock has a season that the other inputs may tell today,
    but not tomorrow. The papers' models are asked for later rows as they are.
    """
    periods = state.inputs.lags.lags or [season for season, _ in state.seasons]
    if settings.horizon or not periods or not settings.spec.robust or not isinstance(settings.family, PathFamily):
        return None
    y = state.passed.whole(usual, max(periods))
    rows = np.full((len(y), X.shape[1]), np.nan)
    rows[state.passed.places(len(X))] = X
    return RecentRows(rows[:0], y[:0]).learn(rows, y)


def _suspects(rows: RawRows, codes: tuple[int, ...]) -> np.ndarray:
    """Return the columns of numbers with a value that seems to stand for a missing one."""
    each = np.concatenate([rows.X, rows.y], axis=1)
    each[:, codes] = np.nan
    return find_suspects(each)


def _ended(
    settings: StreamSettings, state: StreamState, prior: Any, info: Info | None, y: np.ndarray, times: np.ndarray
) -> StreamState:
    """Return the state with which the fitted model begins: the last time, and the experts' first weights."""
    last_time = np.asarray(times[-1]) if settings.timed else prior.last_time
    model_state = replace(state.model_state, last_time=last_time)
    # The fit has seen these rows: they may shape the beliefs, but tell little of the race of the experts.
    log_weights = None if info is None else _prior_log_weights(settings, state, info, y[settings.horizon :])
    model_state = state.model.with_prior_weights(model_state, log_weights, state.rows)
    return replace(state, model_state=model_state, warmup_rows=None, passed=PassedRows.none())


def _as_fitted(
    settings: StreamSettings, state: StreamState, X: np.ndarray, y: np.ndarray, times: np.ndarray
) -> WarmupRows:
    """Return pairs of inputs and targets as a family fits them."""
    targets = np.asarray((y - state.targets.mean) / state.targets.scale)
    return WarmupRows(state.inputs.standardised(X), targets, state.num_classes, _time_unit(settings, times))


def _prior_log_weights(settings: StreamSettings, state: StreamState, info: Info, y: np.ndarray) -> np.ndarray | None:
    """Return what the later half of the warm-up says of the experts, of which some are no good at all."""
    if not settings.weighs_warmup:
        return None
    h = settings.horizon  # so many rows after the one that it was made at a forecast falls due
    n = (len(y) - h) // 2
    latest: Predictive = tree.map(lambda a: a[len(y) - h - n : len(y) - h], info.predictive)
    density = np.asarray(latest.component_log_density(y[len(y) - n :]))
    return settings.task.prior_log_weights(density / max(h, 1), state.experts)


def _time_unit(settings: StreamSettings, times: np.ndarray) -> float:
    """Return the usual time from one row to the next."""
    gaps = np.diff(times)
    return float(np.median(gaps[gaps > 0])) if settings.timed and (gaps > 0).any() else 1.0


def _fit(
    settings: StreamSettings,
    state: StreamState,
    X: np.ndarray,
    y: np.ndarray,
    times: np.ndarray,
    provisional_expert: Any,
    progress: Progress,
) -> FittedModel:
    fitted = settings.family.fit(
        replace(settings.spec, lags=state.inputs.lags.lags),
        _as_fitted(settings, state, X, y, times),
        seed=settings.seed,
        progress=progress,
        provisional_expert=provisional_expert,
    )
    return computed(fitted)
