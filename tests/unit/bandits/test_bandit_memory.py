"""What each method keeps and how it trusts it, as tables of ages."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.bandits.memory import METHODS, WINDOW, Memory, memory_of

pytestmark = pytest.mark.slow


def kept(memory: Memory, t: int, ages: list[float] | None = None, *, signal: float = 25.0) -> list[float]:
    """The ages of the observations that are used after t steps, of one reward a step by default."""
    return used(memory, t, ages, answers=False, signal=signal)


def used(memory: Memory, t: int, ages: list[float] | None, *, answers: bool, signal: float = 25.0) -> list[float]:
    steps = np.arange(t)
    times = np.array(steps if ages is None else ages, dtype=float)
    return times[memory.keeps(steps, times, np.full(t, answers), t, signal)].tolist()


def test_what_counts_for_good():
    memory = memory_of("gp-ucb")
    assert kept(memory, 400) == list(range(400))
    assert used(memory, 400, None, answers=True) == list(range(400))
    assert_allclose(memory.inflation(np.array([0.0, 3.0, 1e4])), 1.0)
    assert_allclose(memory.correlation(np.array([0.0, -3.0, 1e4])), 1.0)


@pytest.mark.parametrize(
    ("t", "last"), [(1, 0), (2, 0), (3, 0), (7, 0), (8, 1), (148, 1), (149, 2), (500, 2), (22027, 3)]
)
def test_injected_uncertainty_keeps_what_is_at_most_log_t(t, last):
    """a^2 + 1 <= log t: e^2 = 7.39, e^5 = 148.4, e^10 = 22,026.5; the newest is kept before e^1 as well."""
    assert kept(memory_of("sparq-gp-ucb"), t) == list(range(last + 1))


def test_injected_uncertainty_grows_with_time_and_not_with_steps():
    memory = memory_of("sparq-gp-ucb")
    assert_allclose(memory.inflation(np.array([0.0, 1.0, 2.0, 0.5])), [1.0, 2.0, 5.0, 1.25])
    # After 9 steps 1 + a^2 <= 2.197, so a <= 1.094.
    ages = [0.0, 0.5, 1.0, 1.09, 1.1, 2.0, 3.0, 4.0, 9.0]
    assert kept(memory, 9, ages) == [0.0, 0.5, 1.0, 1.09]
    # The newest observation is always used, old as it may be, even if no step after it had one.
    assert kept(memory, 9, [5.0 + age for age in ages]) == [5.0]
    steps = np.array([4, 5, 8])
    assert memory.keeps(steps, steps * 1.0, np.zeros(3, bool), 9, 25.0).tolist() == [True, False, False]
    # An answer is no such observation.
    for answered in (0, 4):
        found = memory.keeps(np.array([answered, 4, 5]), np.array([0.0, 4.0, 5.0]), np.arange(3) == 0, 9, 25.0)
        assert found.tolist() == [answered == 0, True, False]


def test_answers_are_of_use_in_their_own_step_alone():
    memory = memory_of("sparq-gp-ucb")
    assert used(memory, 500, None, answers=True) == [0.0]
    assert kept(memory, 500) == [0.0, 1.0, 2.0]
    assert memory.keeps(np.zeros(3, int), np.zeros(3), np.ones(3, bool), 1, 0.1).all()
    # Rewards and answers side by side.
    steps, answer = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([False, True] * 4)
    found = memory.keeps(steps, steps.astype(float), answer, 500, 25.0)
    assert found.tolist() == [True, True, True, False, True, False, False, False]


@pytest.mark.parametrize(("signal", "last"), [(25.0, 4), (26.0, 5), (4.9, 1), (0.5, 0)])
def test_answers_that_are_used_again_age_until_they_say_less_than_the_prior(signal, last):
    """1 + a^2 <= variance over noise, however few steps there were."""
    memory = memory_of("sparq-gp-ucb", reuse=True)
    for t in (30, 500):
        assert used(memory, t, None, answers=True, signal=signal) == list(range(last + 1))
    assert kept(memory, 500, signal=signal) == [0.0, 1.0, 2.0]


def test_restarts_empty_the_memory():
    memory = memory_of("r-gp-ucb", window=5)
    sizes = [len(kept(memory, t)) for t in range(1, 13)]
    assert sizes == [1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2]
    assert kept(memory, 8) == [0.0, 1.0, 2.0]  # the newest: of steps 6, 7 and 8
    # Steps count, however much time lies between; answers go as well.
    assert kept(memory, 7, [10.0 * age for age in range(7)]) == [0.0, 10.0]
    # Answers of now are about the function of the next block.
    assert used(memory, 5, None, answers=True) == [0.0]
    assert used(memory, 7, None, answers=True) == [0.0, 1.0, 2.0]
    assert_allclose(memory.inflation(np.arange(3.0)), 1.0)


def test_windows_slide():
    memory = memory_of("sw-gp-ucb", window=5)
    for t, expected in ((1, 1), (4, 4), (5, 5), (6, 5), (500, 5)):
        assert kept(memory, t) == list(range(expected))
    assert kept(memory, 7, [10.0 * age for age in range(7)]) == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert used(memory, 7, None, answers=True) == list(range(5))
    assert_allclose(memory.inflation(np.arange(3.0)), 1.0)


def test_weights_fall_with_age():
    memory = memory_of("w-gp-ucb", gamma=0.5)
    assert_allclose(memory.inflation(np.array([0.0, 1.0, 2.0, 0.5, 10.0])), [1.0, 2.0, 4.0, 2.0**0.5, 1024.0])
    assert kept(memory, 100) == list(range(10))  # 2^9 = 512, 2^10 = 1024: more than a thousand times the noise
    assert len(kept(memory_of("w-gp-ucb"), 500)) == 66  # 0.9^-65 = 941, 0.9^-66 = 1046
    assert_allclose(memory.correlation(np.array([3.0])), 1.0)


def test_correlation_falls_with_time():
    memory = memory_of("tv-gp-ucb", eps=0.19)
    assert_allclose(memory.correlation(np.array([0.0, 1.0, 2.0, -2.0, 0.5])), [1.0, 0.9, 0.81, 0.81, 0.9**0.5])
    apart = np.arange(4.0)[:, None] - np.arange(4.0)
    assert_allclose(memory.correlation(apart), 0.9 ** np.abs(apart))
    assert kept(memory, 100) == list(range(44))  # 0.9^43 = 0.0108, 0.9^44 = 0.0097: below a hundredth
    assert_allclose(memory.inflation(np.arange(3.0)), 1.0)


def test_nothing_was_observed():
    for method in METHODS[:-1]:
        assert kept(memory_of(method), 0) == []


def test_defaults_are_those_of_the_papers():
    assert WINDOW == 29  # 12 0.03^-1/4 = 28.8
    assert memory_of("r-gp-ucb") == Memory(restart=29)
    assert memory_of("sw-gp-ucb") == Memory(window=29)
    assert memory_of("tv-gp-ucb") == Memory(eps=0.03)
    assert memory_of("w-gp-ucb") == Memory(gamma=0.9)


def test_errors_say_what_came():
    for wrong in ("sparq", "ensemble"):
        with pytest.raises(ValueError, match=f"^method: expected one of sparq-gp-ucb, gp-ucb, .*, got {wrong!r}$"):
            memory_of(wrong)
    for name, bad in (
        *(("window", bad) for bad in (0, -3, 2.5, float("nan"))),
        *((name, bad) for name in ("eps", "gamma") for bad in (0.0, 1.0, float("nan"))),
    ):
        came = {"window": 29, "eps": 0.03, "gamma": 0.9} | {name: bad}
        message = "^expected a whole window >= 1 and eps and gamma between 0 and 1, got {window}, {eps} and {gamma}$"
        with pytest.raises(ValueError, match=message.format(**came)):
            memory_of.__wrapped__("gp-ucb", **{name: bad})  # past the type check that only tests switch on
