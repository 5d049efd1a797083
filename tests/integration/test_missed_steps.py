"""Rows that never came, seen by the clock: lags, seasons, baselines and forecasts are those of the steps."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPRegressor, evaluate
from streamgp.estimators.result import Evaluation
from streamgp.models.registry import make_spec
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

HOUR, WARMUP = 3_600.0, 400
MONDAY = 1_704_067_200.0  # 2024-01-01
LAGS = (1, 2, 24)


def stream(
    n: int = 700, is_open: Callable[[int], bool] = lambda hour: True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hours, an input and targets with a day that no input tells."""
    rng = np.random.default_rng(0)
    hours = np.array([hour for hour in range(3 * n) if is_open(hour)][:n])
    level = np.cumsum(rng.normal(scale=0.05, size=n))
    y = 5.0 + rng.normal(size=24)[hours % 24] + level + 0.1 * rng.normal(size=n)
    return hours, rng.normal(size=(n, 1)), y


def kept(n: int, share: float, day: int | None = 500) -> np.ndarray:
    """Return which of the rows come: not some, and for a day none."""
    keep = np.random.default_rng(1).random(n) >= share
    if share and day is not None:
        keep[day : day + 24] = False
    keep[[0, -1]] = True
    return keep


def new(**options) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", **{"lags": LAGS, "warmup": WARMUP} | options)


def stamps(hours: np.ndarray) -> np.ndarray:
    return np.datetime64("2024-01-01", "s") + (3_600 * np.asarray(hours)).astype("timedelta64[s]")


def scored(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, hours: np.ndarray, **options) -> Evaluation:
    return evaluate(model, X, y, stamps(hours), progress=False, **options)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.03, 0.1])
@pytest.mark.parametrize(
    "is_open",
    [lambda hour: True, lambda hour: hour // 24 % 7 < 5, lambda hour: hour // 24 % 7 < 5 and 6 <= hour % 24 < 20],
)
def test_lags_are_the_targets_of_so_many_steps_before(share: float, is_open: Callable[[int], bool]):
    hours, X, y = stream(is_open=is_open)
    keep = kept(len(y), share)
    model, longest = new(calendar=None), max(LAGS)
    for stop in (WARMUP, WARMUP + 1, 470, 499, 524, 525, 560, 640, len(y)):
        came = np.flatnonzero(keep[:stop])
        if len(came) < WARMUP:
            continue
        new_rows = came[model._learner.rows if hasattr(model, "_learner") else 0 :]
        model.partial_fit(X[new_rows], y[new_rows], times=stamps(hours[new_rows]))
        state = model._learner.state
        assert state.flagged_rows == 0 and state.timetable is not None
        last = state.inputs.lags.last[:, 0]
        steps = came[-1] - longest + np.arange(longest + 1)
        assert_array_equal(last[keep[steps]], y[steps[keep[steps]]])
        assert np.isfinite(last).all() and state.timetable.missed == came[-1] + 1 - len(came)


def by_steps(y: np.ndarray, hours: np.ndarray, keep: np.ndarray, season: int, warmup: int) -> float:
    """Return the error of the target so many hours before, by a search: of the latest such hour that has one."""
    came, errors = {int(hours[i]): y[i] for i in np.flatnonzero(keep)}, []
    for i in np.flatnonzero(keep)[warmup:]:
        back = range(hours[i] - season, hours[0] - 1, -season)
        last = next(came[hour] for hour in range(hours[i] - 1, -1, -1) if hour in came)
        errors.append(y[i] - next((came[hour] for hour in back if hour in came), last))
    return float(np.sqrt(np.mean(np.square(errors))))


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1])
def test_seasons_and_lags_are_those_of_the_complete_stream(share: float):
    hours, X, y = stream(1_100)
    whole, gaps = (new(lags="auto", warmup=800, calendar=None) for _ in range(2))
    every = scored(whole, X, y, hours)
    keep = kept(len(y), share, day=300)
    some = scored(gaps, X[keep], y[keep], hours[keep])
    assert gaps._learner.seasons == whole._learner.seasons == {24: "day", 168: "week"}
    assert gaps._learner.spec.lags == whole._learner.spec.lags
    assert some.metrics["rmse"] < 1.1 * every.metrics["rmse"]
    missed = [model._learner.state.timetable.missed for model in (whole, gaps)]
    assert missed == [0, len(y) - int(keep.sum())]
    naive = [result.metrics["naive"] for result in (every, some)]
    assert naive[0].keys() == naive[1].keys() and "seasonal_24" in naive[1]
    assert naive[1]["seasonal_24"]["rmse"] == pytest.approx(by_steps(y, hours, keep, 24, 800), rel=1e-12)
    assert naive[1]["seasonal_168"]["rmse"] == pytest.approx(by_steps(y, hours, keep, 168, 800), rel=1e-12)


def test_a_prediction_is_what_learning_the_row_would_have_said():
    hours, X, y = stream()
    keep = kept(len(y), 0.1)
    hours, X, y = hours[keep], X[keep], y[keep]
    result = scored(new(), X, y, hours)
    model = new()
    model.partial_fit(X[:420], y[:420], times=stamps(hours[:420]))
    after = np.flatnonzero(np.diff(hours) > 1) + 1
    ahead = after[after > 420][:1]
    model.partial_fit(X[420 : ahead[0]], y[420 : ahead[0]], times=stamps(hours[420 : ahead[0]]))
    mean, std = model.predict(X[ahead], return_std=True, times=stamps(hours[ahead]))
    assert_allclose([mean[0], std[0]], [result.mean[ahead[0]], result.std[ahead[0]]], rtol=1e-9)
    # Each of several rows as if it were the next one, with its own gap.
    many = slice(ahead[0], ahead[0] + 60)
    with pytest.warns(UserWarning, match="taken as the next one"):
        together = model.predict(X[many], times=stamps(hours[many]))
    each = [model.predict(X[i : i + 1], times=stamps(hours[i : i + 1]))[0] for i in range(many.start, many.stop)]
    assert_allclose(together, each, rtol=1e-9)
    single = [model.predict_one(X[i], time=stamps(hours[i]))[0] for i in range(many.start, many.stop)]
    assert_allclose(together, np.ravel(single), rtol=1e-9)


def learnt_until(row: int, missed: int) -> tuple[StreamingGPRegressor, np.ndarray, np.ndarray, np.ndarray]:
    """Return a model with short lags that has learnt until a row, and the rows, of which some are missed after it."""
    hours, X, y = stream(row + 10)
    hours[row:] += missed
    model = new(lags=(1, 2, 3))
    model.partial_fit(X[:row], y[:row], times=stamps(hours[:row]))
    return model, hours, X, y


def test_where_no_season_is_among_the_lags_a_prediction_stands_for_a_missed_step():
    row = WARMUP + 30
    model, hours, X, y = learnt_until(row, missed=1)
    expected = model.predict([[np.nan]], times=stamps(hours[row : row + 1] - 1))
    model.partial_fit(X[row : row + 1], y[row : row + 1], times=stamps(hours[row : row + 1]))
    last = model._learner.state.inputs.lags.last[:, 0]
    assert_allclose(last, [*y[row - 2 : row], expected[0], y[row]], rtol=1e-9)


@pytest.mark.parametrize("missed", [2, 3, 7, 1_000])
def test_so_it_does_for_several_and_the_last_prediction_for_the_rest(missed: int):
    row = WARMUP + 30
    model, hours, X, y = learnt_until(row, missed)
    # The same model, which learns each prediction as if it had come.
    filled, _, _, _ = learnt_until(row, missed)
    lags = [*y[row - 3 : row]]
    for step in range(min(missed, 3)):
        time = stamps(hours[row - 1 : row] + 1 + step)
        lags.append(float(filled.predict([[np.nan]], times=time)[0]))
        state = filled._learner.state
        held = state.inputs.lags.learn(np.array([[lags[-1]]]))
        moved = replace(state.timetable, last=state.timetable.last + HOUR)
        filled._learner.state = replace(state, inputs=replace(state.inputs, lags=held), timetable=moved)
    lags += [lags[-1]] * min(max(missed - 3, 0), 3)
    model.partial_fit(X[row : row + 1], y[row : row + 1], times=stamps(hours[row : row + 1]))
    found = model._learner.state.inputs.lags.last[:, 0]
    assert_allclose(found, [*lags[-3:], y[row]], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("lags", [LAGS, (1, 2, 3), (), "auto"])
def test_single_rows_chunks_and_resumed_runs_are_the_same(lags, tmp_path):
    hours, X, y = stream()
    keep = kept(len(y), 0.1)
    hours, X, y = hours[keep], X[keep], y[keep].copy()
    y[[430, 431, 470, 520]] = np.nan
    y[450] += 40.0  # a glitch
    hours = hours.copy()
    hours[545:] += 3_000
    result = scored(new(lags=lags), X, y, hours)
    times = stamps(hours)
    one = new(lags=lags)
    one.partial_fit(X[:410], y[:410], times=times[:410])
    means, stds = [], []
    for i in range(410, len(y)):
        mean, std = one.predict_one(X[i], time=times[i])
        means.append(float(np.ravel(mean)[0]))
        stds.append(float(np.ravel(std)[0]))
        one.learn_one(X[i], y[i], time=times[i])
        if i % 37 == 0:
            one.save(tmp_path / f"{i}")
            one = StreamingGPRegressor.load(tmp_path / f"{i}")
    assert_allclose(means, result.mean[410:], rtol=1e-9)
    assert_allclose(stds, result.std[410:], rtol=1e-9)
    chunks, at = new(lags=lags), 0
    rng = np.random.default_rng(2)
    while at < len(y):
        size = int(rng.integers(1, 60))
        part = slice(at, at + size)
        chunks.partial_fit(X[part], y[part], times=times[part])
        at += size
    paths = [model.forecast(30, X_future=np.full((30, 1), np.nan))["mean"].to_numpy() for model in (one, chunks)]
    assert_allclose(paths[0], paths[1], rtol=1e-9)
    assert chunks._learner.state.timetable.missed == one._learner.state.timetable.missed > 3_000


def numbers(hours: np.ndarray) -> np.ndarray:
    """Return seconds since 1970."""
    return MONDAY + HOUR * np.asarray(hours, float)


def settings(**options) -> StreamSettings:
    return StreamSettings(make_spec("linear", **{"lags": LAGS} | options), 1, warmup=WARMUP, timed=True)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1, 7, 30])
def test_labels_that_come_late_leave_what_labels_in_time_do(delay: int):
    hours, X, y = stream(560)
    keep = kept(len(y), 0.1)
    X, y, times = X[keep], y[keep][:, None], numbers(hours[keep])
    direct, learner = StreamLearner(settings()), StreamLearner(settings())
    for _ in direct.learn(X, y, times):
        pass
    late = LateLabels(learner)
    for i in range(len(y)):
        assert len(list(late.predict(X[i : i + 1], times[i : i + 1]))) == 1
        if i >= delay:
            late.learn([i - delay], y[i - delay : i - delay + 1])
        if i > WARMUP + delay:
            # Rows that wait are no missed steps: so many rows and steps lie between the last one learnt and this one.
            state, waiting = late.learner.state, i - late._learnt
            after = np.rint((times[i] - state.timetable.last) / HOUR) - 1
            assert state.timetable.before_each(times[i : i + 1], waiting)[0] == max(after - waiting, 0)
    late.learn(range(len(y) - delay, len(y)), y[-delay:])
    late.refresh()
    x, then = X[:1], times[-1:] + 3 * HOUR
    assert_allclose(late.predict_next(x, then).mean, direct.predict(x, then).mean, rtol=1e-9)
    assert learner.state.timetable.missed == direct.state.timetable.missed


def test_forecasts_after_missed_steps_begin_where_a_prediction_does():
    hours, X, y = stream()
    keep = kept(len(y), 0.05)
    learner = StreamLearner(settings())
    for _ in learner.learn(X[keep], y[keep][:, None], numbers(hours[keep])):
        pass
    then = numbers(hours[-1] + np.arange(1, 60))
    for gap in (0, 1, 5, 30):
        times = then[gap : gap + 26]
        paths = learner.paths(np.zeros((26, 1)), times, 4_000)[:, :, 0]
        at = learner.predict(np.zeros((1, 1)), times[:1])
        error = float(at.std[0, 0]) / np.sqrt(4_000)
        assert paths[:, 0].mean() == pytest.approx(float(at.mean[0, 0]), abs=5.0 * error)


def test_a_column_of_dates_is_a_clock_as_stamps_are():
    hours, X, y = stream()
    keep = kept(len(y), 0.05)
    hours, X, y = hours[keep], X[keep], y[keep]
    table = pd.DataFrame({"when": stamps(hours), "x": X[:, 0]})
    model = new(calendar="auto", lags="auto")
    evaluate(model, table, y, progress=False)
    state = model._learner.state
    assert state.timetable.missed == int(keep.size - keep.sum()) and 24 in state.inputs.lags.lags
    steps = np.flatnonzero(keep)[-1] - 24 + np.arange(25)
    found = state.inputs.lags.last[-25:, 0]
    came = keep[steps]
    assert_array_equal(found[came], y[np.cumsum(keep)[steps[came]] - 1])


def test_targets_that_are_learnt_apart_have_lags_of_so_many_steps_before():
    hours, X, y = stream()
    Y = np.column_stack([y, y[::-1]])
    keep = kept(len(y), 0.05)
    Y[[100, 450, 460], 0] = np.nan
    model = new()
    model.partial_fit(X[keep], Y[keep], times=stamps(hours[keep]))
    parts = model._learner.state.models
    assert len(parts) == 2
    steps = len(y) - 25 + np.arange(25)
    for e, part in enumerate(parts):
        last = part.inputs.lags.last[:, 0]
        assert_array_equal(last[keep[steps]], Y[steps[keep[steps]], e])


def test_a_horizon_counts_the_rows_learnt():
    hours, X, y = stream(560)
    keep = kept(len(y), 0.05)
    keep[-2] = False
    model = new(horizon=3, lags=(1, 2), calendar="auto")
    model.partial_fit(pd.DataFrame({"when": stamps(hours), "x": X[:, 0]})[keep], y[keep])
    state = model._learner.state
    assert_array_equal(state.inputs.lags.last[:, 0], y[keep][-3:])
    assert state.timetable.missed == int(keep.size - keep.sum())


@pytest.mark.slow
def test_steps_ahead_are_steps_of_the_clock():
    hours, X, y = stream(900)
    keep = kept(len(y), 0.1, day=None)
    hours, X, y = hours[keep], X[keep], y[keep]
    result = scored(new(), X, y, hours, steps_ahead=5)
    ahead = result.metrics["steps_ahead"]
    origins, came = ahead["origins_every"], dict(zip(hours.tolist(), y.tolist(), strict=True))
    assert ahead["seasons"] == [24, 168]
    wanted: dict[int, list[float]] = {}
    origin = int(hours[WARMUP - 1])
    for hour in hours[WARMUP:].tolist():
        if hour - origin > origins:  # it was due before this row, which is of no forecast
            origin = hour
            continue
        step = hour - origin
        if step <= 5:
            before = [origin - 24 + step - 24 * k for k in range(40)]
            naive = next((came[each] for each in before if each in came), None)
            wanted.setdefault(step, []).append(np.nan if naive is None else came[hour] - naive)
        if step == origins:
            origin = hour
    for entry in ahead["by_step"]:
        errors = np.array(wanted[entry["step"]])
        assert entry["judgement"]["rows"] == len(errors)
        assert entry["naive"]["seasonal_24"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-12)
