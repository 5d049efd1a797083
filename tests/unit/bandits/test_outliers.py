"""Absurd rewards: the regret with them beside that without, changes, peaks and cliffs, and the sums."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.bandits import TimeVaryingOptimizer, acquisition, ensemble_surrogate
from streamgp.bandits.history import History
from streamgp.bandits.outliers import LIMIT, clip_outliers, compute_limits, mark_outliers, predict_one_step_ahead

pytestmark = pytest.mark.slow

Rewards = Callable[[np.ndarray, int, np.random.Generator], float]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hundreds of steps: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    monkeypatch.setattr(acquisition, "POINTS", 128)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def light_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_surrogate, "LENGTHSCALES", (0.1, 0.3))
    monkeypatch.setattr(ensemble_surrogate, "DYNAMICS", ("static", "revert 0.95"))
    monkeypatch.setattr(ensemble_surrogate, "NOISE_VARS", (1e-3, 1e-1))
    monkeypatch.setattr(ensemble_surrogate, "_TERMS", 20)


def play(opt: TimeVaryingOptimizer, reward: Rewards, steps: int, seed: int = 0) -> np.ndarray:
    """The points asked for."""
    rng, asked = np.random.default_rng([seed, 5]), []
    for t in range(1, steps + 1):
        x = opt.ask()
        opt.tell(x, reward(x, t, rng))
        asked.append(x)
    return np.array(asked)


def centre(t: Any) -> np.ndarray:
    return np.array([1.5 * np.sin(0.05 * t), 1.5 * np.cos(0.04 * t)]).T


def regret(
    seed: int, glitches: dict[int, float], method: str = "tv-gp-ucb", d: int = 2, steps: int = 45
) -> np.ndarray:
    """Of every one of the steps on a quadratic that moves, some of whose rewards are replaced."""
    return _regret(seed, tuple(glitches.items()), method, d, steps)


@cache
def _regret(seed: int, replaced: tuple[tuple[int, float], ...], method: str, d: int, steps: int) -> np.ndarray:
    glitches = dict(replaced)

    def reward(x: np.ndarray, t: int, rng: np.random.Generator) -> float:
        y = -float(np.square(x - centre(t)[:d]).sum()) + 0.1 * rng.normal()
        return glitches.get(t, y)

    opt = TimeVaryingOptimizer([(-3.0, 3.0)] * d, method, random_state=seed)
    asked = play(opt, reward, steps, seed)
    return np.square(asked - centre(np.arange(1, steps + 1))[:, :d]).sum(axis=1)


@pytest.mark.parametrize(("at", "absurd"), [(2, 1e6), (15, -1e6), (15, 1e6), (15, 1e3)])
def test_one_absurd_reward_costs_next_to_nothing(at, absurd):
    clean, spoilt = ([regret(seed, bad)[at + 19 :].mean() for seed in range(3)] for bad in ({}, {at: absurd}))
    assert np.median(spoilt) < 1.5 * np.median(clean) < 1.0


def test_a_few_absurd_rewards_cost_next_to_nothing():
    def glitches(seed: int) -> dict[int, float]:
        rng = np.random.default_rng([seed, 9])
        return dict(zip(rng.choice(45, 3, replace=False) + 1, rng.choice([-1e6, 1e6], 3), strict=True))

    clean, spoilt = (
        [regret(seed, glitches(seed) if bad else {})[20:].mean() for seed in range(3)] for bad in (False, True)
    )
    assert np.median(spoilt) < 1.5 * np.median(clean) < 1.0


@pytest.mark.parametrize(("at", "more"), [(3, 1.0), (20, 0.2)])
def test_an_ensemble_is_not_led_astray_either(at, more, light_ensemble):
    """Taken at its word, such a reward costs 3 to 7 a step here; among the first few it costs some steps."""
    clean, spoilt = ([regret(s, bad, "ensemble", 1, 39)[22:].mean() for s in range(3)] for bad in ({}, {at: 1e6}))
    assert np.median(spoilt) < np.median(clean) + more < 1.5


@pytest.mark.parametrize("method", ["tv-gp-ucb", "gp-ucb", "sw-gp-ucb", "ensemble"])
def test_a_jump_of_the_level_is_accepted_after_a_handful(method, light_ensemble):
    """By ten standard deviations of all rewards before it."""

    def reward(x: np.ndarray, t: int, rng: np.random.Generator) -> float:
        return float(np.sin(4.0 * x[0])) + 0.1 * rng.normal() + (10.0 * (t > 30))

    for sign in (1.0, -1.0):
        opt = TimeVaryingOptimizer([(0.0, 1.0)], method, random_state=0)
        play(opt, lambda x, t, rng, sign=sign: sign * reward(x, t, rng), 30)
        for t in range(31, 45):
            x = opt.ask()
            opt.tell(x, sign * reward(x, t, np.random.default_rng(t)))
        assert not opt.trials["flagged"][-10:].any()  # those after the first four
        if method in ("tv-gp-ucb", "ensemble"):  # the others do not forget
            assert abs(opt.predict([x])[0][0] - sign * (10.0 + np.sin(4.0 * x[0]))) < 3.0


def test_another_scale_is_accepted():
    opt = TimeVaryingOptimizer([(0.0, 1.0)], random_state=0)
    play(opt, lambda x, t, rng: (100.0 if t > 30 else 1.0) * (np.sin(4.0 * x[0]) + 0.3 * rng.normal()), 70)
    assert opt.trials["flagged"][-30:].sum() <= 2


def test_what_is_flagged_is_reported_and_kept_as_it_was():
    def reward(x: np.ndarray, t: int, rng: np.random.Generator) -> float:
        return {20: 1e6, 25: -1e3}.get(t, float(np.sin(4.0 * x[0])) + 0.1 * rng.normal())

    opt = TimeVaryingOptimizer([(0.0, 1.0)], random_state=0)
    play(opt, reward, 30)
    trials = opt.trials
    assert opt.flagged_rewards == trials["flagged"].sum() == 2
    assert_array_equal(trials["step"][trials["flagged"]], [20, 25])
    assert_array_equal(trials["y"][trials["flagged"]], [1e6, -1e3])
    assert trials["x"].shape == (30, 1)
    plain = TimeVaryingOptimizer([(0.0, 1.0)], random_state=0, robust=False)
    play(plain, reward, 30)
    assert plain.flagged_rewards == 0


def test_too_good_to_be_true_is_tried_again_and_then_believed():
    def start() -> TimeVaryingOptimizer:
        opt = TimeVaryingOptimizer([(0.0, 1.0)], random_state=0)
        play(opt, lambda x, t, rng: float(np.sin(4.0 * x[0])) + 0.1 * rng.normal(), 20)
        opt.tell([0.91], 50.0)
        assert_allclose(opt.ask(), [0.91], rtol=1e-12)
        assert opt.flagged_rewards == 1
        return opt

    opt = start()
    opt.tell(opt.ask(), 49.0)
    assert opt.flagged_rewards == 0
    assert opt.predict([[0.91]])[0][0] > 20.0
    opt = start()
    opt.tell(opt.ask(), -0.5)
    assert opt.flagged_rewards == 1
    assert opt.predict([[0.91]])[0][0] < 2.0


def test_a_narrow_peak_and_a_cliff_are_learnt():
    for seed in range(2):
        opt = TimeVaryingOptimizer([(0.0, 1.0)], "gp-ucb", random_state=seed)
        peak = play(opt, lambda x, t, rng: np.exp(-200.0 * (x[0] - 0.37) ** 2) + 0.003 * rng.normal(), 30, seed)
        assert np.all(np.abs(peak[-10:] - 0.37) < 0.05)
        opt = TimeVaryingOptimizer([(0.0, 1.0)], "gp-ucb", random_state=seed)
        falls = play(opt, lambda x, t, rng: (-100.0 if x[0] > 0.6 else x[0]) + 0.01 * rng.normal(), 40, seed) > 0.6
        assert falls[:20].any()
        assert falls[20:].sum() <= 4


def test_clean_rewards_are_hardly_ever_flagged():
    flagged = 0
    for seed in range(3):
        opt = TimeVaryingOptimizer([(0.0, 1.0)], random_state=seed)
        play(opt, lambda x, t, rng: float(np.sin(4.0 * x[0] + 0.05 * t)) + 0.2 * rng.normal(), 40, seed)
        flagged += opt.flagged_rewards
    assert flagged <= 2


def test_predicted_errors_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    U, y = rng.uniform(size=(25, 2)), rng.normal(size=25) + 3.0
    K = 1.7 * np.exp(-0.5 * np.square((U[:, None] - U[None]) / 0.3).sum(axis=2))
    noise = rng.uniform(0.1, 0.3, 25)
    for mean in (None, 2.5):
        errors, variances = predict_one_step_ahead(K, noise, y, mean)
        for i in range(10, 25):
            A = np.linalg.inv(K[:i, :i] + np.diag(noise[:i]))
            ones, k = np.ones(i), K[:i, i]
            level = ones @ A @ y[:i] / (ones @ A @ ones) if mean is None else mean
            unknown = (1.0 - ones @ A @ k) ** 2 / (ones @ A @ ones) if mean is None else 0.0
            assert_allclose(errors[i], y[i] - level - k @ A @ (y[:i] - level), rtol=1e-9)
            assert_allclose(variances[i], K[i, i] + noise[i] - k @ A @ k + unknown, rtol=1e-9)
        about = np.median(y[:10]) if mean is None else mean
        assert_allclose(errors[:10], y[:10] - about)
        assert_allclose(variances[:10], 1.7 + noise[:10])


def test_a_doubt_falls_with_the_square_and_the_limit_grows_with_usual_errors():
    history = History.empty(1)
    for i in range(30):
        history = history.advance(float(i)).append(np.array([[i / 30.0]]), np.array([0.0]), False, 100)
    errors = np.where(np.arange(30) == 25, 3.0 * LIMIT, 0.5)
    marked = mark_outliers(history, np.arange(30), lambda _: (errors, np.full(30, 4.0)))
    wanted = np.zeros(30)
    wanted[25] = 4.0 * (1.5**2 - 1.0)
    assert_allclose(marked.added_noise, wanted)
    assert not np.any(history.added_noise)
    assert_allclose(compute_limits(np.zeros(5)), LIMIT)
    assert_allclose(compute_limits(np.full(40, 3.0))[-1], LIMIT * 3.0 / 0.6745)
    y = np.array([1.0, 2.0, 3.0, 1e9])
    assert_allclose(clip_outliers(y), [1.0, 2.0, 3.0, 2.5 + 10.0 / 0.6745])
    assert_array_equal(clip_outliers(np.array([0.0, 0.0, 0.0, 7.0])), [0.0, 0.0, 0.0, 7.0])


def test_absurd_answers_are_not_believed():
    def choices(bad: bool) -> tuple[np.ndarray, TimeVaryingOptimizer]:
        opt, asked = TimeVaryingOptimizer([(0.0, 1.0)], "sparq-gp-ucb", num_queries=12, random_state=0), []
        for t in range(1, 25):
            opt.tell(opt.ask(), float(np.sin(3.0 * opt.ask()[0])))
            X = opt.queries()
            y = np.sin(3.0 * X[:, 0]) + 0.01 * np.random.default_rng(t).normal(size=len(X))
            at = np.random.default_rng(t).integers(12)
            opt.answer(X, np.where((np.arange(len(X)) == at) & (t > 10) & bad, 1e6, y))
            asked.append(opt.ask()[0])
        return np.array(asked), opt

    (clean, _), (spoilt, opt) = choices(False), choices(True)
    assert np.sin(3.0 * spoilt[12:]).mean() > np.sin(3.0 * clean[12:]).mean() - 0.05
    assert abs(opt.predict([[0.5]])[0][0] - np.sin(1.5)) < 0.1
