"""Past data, several points at once, and times as users have them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.bandits import Candidates, Integer, TimeVaryingOptimizer, acquisition, ensemble_surrogate, optimizer
from streamgp.bandits.clock import Clock

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:sparq-gp-ucb. expected answers")]
METHODS = ["tv-gp-ucb", "sparq-gp-ucb", "ensemble"]
BOX = [(-3.0, 3.0)] * 2


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    config.update("jaxtyping_disable", True)
    monkeypatch.setattr(acquisition, "POINTS", 64)
    monkeypatch.setattr(ensemble_surrogate, "LENGTHSCALES", (0.3,))
    monkeypatch.setattr(ensemble_surrogate, "DYNAMICS", ("static", "revert 0.95"))
    monkeypatch.setattr(ensemble_surrogate, "NOISE_VARS", (1e-2,))
    monkeypatch.setattr(ensemble_surrogate, "_FREQUENCIES", 24)
    yield
    config.update("jaxtyping_disable", False)


def reward(x: Any, t: int = 0) -> float:
    return float(-np.square(np.asarray(x) - np.sin(0.05 * t)).sum() + 0.1 * np.random.default_rng(t).normal())


def new(method: str = "tv-gp-ucb", space: Any = BOX, **arguments: Any) -> TimeVaryingOptimizer:
    return TimeVaryingOptimizer(space, method, **{"random_state": 0, **arguments})


# Past data


@pytest.mark.parametrize("method", METHODS)
def test_past_data_count_at_once_or_one_by_one(method):
    X = np.random.default_rng(0).uniform(-3.0, 3.0, (40, 2))
    y = np.array([reward(x) for x in X])
    y[[7, 30]] = 1e6, np.nan
    at_once, one_by_one = new(method), new(method)
    at_once.tell(X, y)
    for x, value in zip(X, y, strict=True):
        one_by_one.tell(x, value)
    assert (at_once.steps, at_once.skipped_rewards) == (40, 1)
    assert_array_equal(at_once.ask(), one_by_one.ask())
    assert_array_equal(at_once.trials["flagged"], one_by_one.trials["flagged"])
    if method != "sparq-gp-ucb":  # which uses the last few rewards alone
        assert_array_equal(at_once.trials["step"][at_once.trials["flagged"]], [8])
        assert np.abs(at_once.recommend()).max() < 1.0


def test_past_data_of_any_space():
    named = new(space={"a": (0.0, 1.0), "n": Integer(1, 5)})
    named.tell([{"a": 0.5, "n": 2}, {"a": 0.7, "n": 1}], [1.0, 2.0])
    labelled = new(space=Candidates([[0.0], [1.0], [2.0]], ("a", "b", "c")))
    labelled.tell(["a", "b", "a"], [1.0, 2.0, 1.5], [1.0, 2.0, 2.0])
    line = new(space=[(0.0, 1.0)])
    line.tell([[0.2], [0.4]], [[1.0], [2.0]])
    line.tell([0.2], 3.0)
    line.tell(0.3, [3.0])
    assert (named.steps, labelled.steps, line.steps) == (2, 3, 4)


def test_past_data_that_are_wrong_change_nothing():
    opt = new()
    for X, y, t, message in (
        ([[0.0, 0.0], [0.0, 9.0]], [1.0, 2.0], None, r"x\[1\]\[1\]: expected a number from -3 to 3, got 9"),
        ([[0.0, 0.0], [0.0, 1.0]], [1.0], None, r"y: expected 2 numbers, one per point, got shape \(1,\)"),
        ([[0.0, 0.0], [0.0, 1.0]], [1.0, 2.0], [2.0, 1.0], r"t\[1\]: expected a finite number, at least 2, the time"),
        ([[0.0, 0.0], [0.0, 1.0]], [1.0, 2.0], 3.0, r"t: expected 2 times, one per point, got shape \(\)"),
        ([[0.0, 0.0], [0.0, 1.0]], [1.0, 2.0], [3.0], r"t: expected 2 times, one per point, got shape \(1,\)"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            opt.tell(X, y, t)
        assert opt.steps == 0
        assert len(opt.trials["y"]) == 0


# Several at once


@pytest.mark.parametrize("method", METHODS)
def test_points_asked_side_by_side_differ_and_are_told_in_any_order(method):
    opt = new(method)
    for t in range(12):
        opt.tell(opt.ask(), reward(opt.ask(), t))
    first = opt.ask()
    points = [first, *(opt.ask(another=True) for _ in range(3))]
    assert_array_equal(opt.ask(), points[-1])
    assert_array_equal(opt.pending, points)
    apart = np.abs(np.array(points)[:, None] - np.array(points)[None]).max(axis=2)[~np.eye(4, dtype=bool)]
    assert apart.min() > 1e-3
    for left, i in ((3, 2), (2, 0), (1, 3), (0, 1)):
        opt.tell(points[i], reward(points[i], 12))
        assert len(opt.pending) == left
    assert opt.steps == 16


def test_what_is_out_is_taken_to_come_as_expected():
    opt = new("gp-ucb", hyperparameters={"lengthscales": 0.3, "variance": 4.0, "noise_var": 0.01, "mean": 0.0})
    for t in range(8):
        opt.tell(opt.ask(), reward(opt.ask(), t))
    one, two = opt.ask(), opt.ask(another=True)
    believed = new("gp-ucb", hyperparameters={"lengthscales": 0.3, "variance": 4.0, "noise_var": 0.01, "mean": 0.0})
    believed._unit.history, believed._unit.settings = opt._unit.history, opt._unit.settings
    expected = opt.predict([one])[0][0]
    believed.tell(one, expected)
    mean, std = believed.predict([two, one])
    grid = np.stack(np.meshgrid(*[np.linspace(-3.0, 3.0, 31)] * 2), -1).reshape(-1, 2)
    means, stds = believed.predict(grid)
    assert mean[0] + 2.0 * std[0] > np.max(means + 2.0 * stds) - 0.05
    assert_array_equal(opt.predict(grid)[0].shape, means.shape)
    assert len(opt._unit.history.y) == 8  # nothing was learnt from what was expected


def test_side_by_side_from_the_first_and_at_a_corner():
    opt = new()
    assert len({tuple(opt.ask(another=True)) for _ in range(8)}) == 8
    corner = new(space=[(0.0, 1.0)])
    for _ in range(12):
        corner.tell(corner.ask(), 5.0 * float(corner.ask()[0]))
    assert len({float(corner.ask(another=True)[0]) for _ in range(6)}) == 6
    few = new(space=Candidates([[0.0], [1.0], [2.0]]))
    asked = [float(few.ask(another=True)[0]) for _ in range(5)]
    assert len(set(asked[:3])) == 3  # and then there is no other


def test_too_many_out_are_refused(monkeypatch):
    monkeypatch.setattr(optimizer, "MAX_PENDING", 3)
    opt = new()
    points = [opt.ask(another=True) for _ in range(3)]
    with pytest.raises(ValueError, match=r"^ask: expected at most 3 points out at once, got one more"):
        opt.ask(another=True)
    assert_array_equal(opt.pending, points)
    assert_array_equal(opt.ask(), points[-1])
    opt.tell(points[0], float("nan"))
    assert len(opt.pending) == 2
    opt.ask(another=True)


def test_other_trials_leave_what_is_out():
    opt = new()
    one, two = opt.ask(), opt.ask(another=True)
    opt.tell([0.1, 0.2], 1.0)
    assert_array_equal(opt.pending, [one, two])
    opt.tell(two, 1.0)
    assert_array_equal(opt.pending, [one])
    opt.tell([0.3, 0.2], 1.0)  # done instead of the only one that is out
    assert len(opt.pending) == 0


# Times


def run(times: Any, steps: int = 25, method: str = "tv-gp-ucb", **arguments: Any) -> np.ndarray:
    opt = new(method, [(-3.0, 3.0)], **arguments)
    asked = []
    for t in range(steps):
        x = opt.ask()
        opt.tell(x, reward(x, t), None if times is None else times(t))
        asked.append(x)
    return np.array(asked)


@pytest.mark.parametrize("method", METHODS)
def test_even_times_in_any_unit_are_steps(method):
    start = datetime(2024, 5, 1, 12, tzinfo=UTC)
    steps = run(None, method=method)
    for times in (
        lambda t: 1.7e9 + 60.0 * t,
        lambda t: start + timedelta(hours=t),
        lambda t: np.datetime64("2024-05-01T12:00") + np.timedelta64(t, "D"),
        lambda t: 1.0 + 2.0**-10 * t,
    ):
        assert_array_equal(run(times, method=method), steps)


def test_a_unit_that_is_given_counts():
    steps = run(None, eps=0.1)
    assert_array_equal(run(lambda t: 1.7e9 + 60.0 * t, eps=0.1, time_unit=60.0), steps)
    assert_array_equal(
        run(lambda t: datetime(2024, 5, 1) + timedelta(hours=t), eps=0.1, time_unit=timedelta(hours=1)), steps
    )
    assert_array_equal(run(lambda t: 60.0 * t, eps=0.1, time_unit=np.timedelta64(1, "m")), steps)
    assert np.any(run(lambda t: 1.7e9 + 60.0 * t, eps=0.1, time_unit=30.0) != steps)
    for unit in (0.0, -1.0, float("inf"), float("nan"), "hour", True):
        with pytest.raises(ValueError, match=r"^time_unit: expected a positive number, a timedelta or None, got "):
            new(time_unit=unit)


def test_a_clock_counts_by_the_median_gap():
    clock, passed = Clock().advance(1000.0, first=True)
    found = [passed]
    for time in (1010.0, 1010.0, 1020.0, 1060.0, None, 1070.0):
        clock, passed = clock.advance(time, first=False)
        found.append(passed)
    assert_allclose(found, [1.0, 1.0, 0.0, 1.0, 4.0, 1.0, 0.0])
    assert clock.last == 1070.0


def test_times_that_are_none():
    opt = new()
    opt.tell([0.0, 0.0], 1.0, datetime(2024, 5, 1))
    for t in (datetime(2024, 4, 30), np.datetime64("NaT"), "noon", [5.0, 6.0]):
        with pytest.raises(ValueError, match=r"^t: expected "):
            opt.tell([0.0, 0.0], 1.0, t)
    assert opt.steps == 1


# Interrupted


@pytest.mark.parametrize("method", METHODS)
def test_all_of_it_comes_back(method, tmp_path):
    def play(opt: TimeVaryingOptimizer, steps: range) -> list[np.ndarray]:
        asked = []
        for t in steps:
            while len(opt.pending) < 3:
                asked.append(opt.ask(another=True))
            x = opt.pending[t % 3]
            opt.tell(x, 1e6 if t in (9, 14) else reward(x, t), 1.7e9 + 60.0 * t + 7.0 * (t % 2))
        return asked

    unbroken, broken = new(method, num_queries=0), new(method, num_queries=0)
    wanted = play(unbroken, range(22))
    found = play(broken, range(10))
    broken.save(tmp_path)
    broken = TimeVaryingOptimizer.load(tmp_path)
    found += play(broken, range(10, 22))
    assert_array_equal(found, wanted)
    assert_array_equal(broken.trials["flagged"], unbroken.trials["flagged"])
