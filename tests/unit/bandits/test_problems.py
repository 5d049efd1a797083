"""Problems and regret against values by hand, the motor's equations, and an optimiser that does as it is told."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.bandits import Box, Candidates, TimeVaryingOptimizer
from streamgp.bandits.problems import Motor, MovingBump, Stations, play

GAINS = np.stack(np.meshgrid(np.linspace(0.0, 1.0, 31), np.linspace(0.0, 1.0, 31)), -1).reshape(-1, 2)


class Scripted(TimeVaryingOptimizer):
    """Asks for the points, and has the side queries, that it was given; remembers what it was told."""

    def __init__(self, space: Box | Candidates, points: list[Any], side: list[list[Any]]) -> None:
        self.space, self.points, self.side = space, points, side
        self.rewards: list[float] = []
        self.answers: list[np.ndarray] = []
        self.log: list[str] = []

    def ask(self) -> Any:
        self.log.append("ask")
        return self.points[len(self.rewards)]

    def tell(self, x: Any, y: float, t: float | None = None) -> None:
        assert np.all(x == self.points[len(self.rewards)])
        self.log.append("tell")
        self.rewards.append(y)

    def queries(self) -> Any:
        return np.array(self.side[len(self.rewards) - 1])

    def answer(self, X: Any, y: Any) -> None:
        assert_array_equal(X, self.queries())
        self.log.append("answer")
        self.answers.append(y)


def test_the_moving_bump_by_hand():
    problem = MovingBump()
    x = np.array([-50.0, 0.0, 5.0, 35.0])
    U = (x[:, None] + 50.0) / 100.0
    at_zero = [0.0, 1.0, np.exp(-1.25), 0.0] + 0.5 * np.cos(0.2 * x) + 1.5
    assert_allclose(problem.value(U, 0), at_zero, atol=1e-12)
    # In step 5 pi the bump is at 5.
    quarter = MovingBump(omega=np.pi / 40.0)
    assert_allclose(quarter.value(U, 20)[1:3], [2.0 + np.exp(-1.25), 2.5 + 0.5 * np.cos(1.0)], rtol=1e-12)
    assert_allclose(quarter.value(U, 40), at_zero, atol=1e-12)
    assert_allclose(problem.value(U, 3)[1], np.exp(-1.25 * np.sin(0.3) ** 2) + 2.0, rtol=1e-12)
    assert len(problem.space.points) == 1001
    assert_allclose(problem.space.points[[0, 500, -1], 0], [-50.0, 0.0, 50.0])
    assert_allclose(problem.best(0), 3.0, atol=1e-12)
    assert 2.5 + 0.5 * np.cos(1.0) < problem.best(16) < 2.9


def test_a_second_bump_appears():
    plain, problem = MovingBump(points=101), MovingBump(points=101, appears=10, where=20.0)
    U = plain.space.unit
    x = plain.space.points[:, 0]
    assert_array_equal(problem.value(U, 9), plain.value(U, 9))
    more = problem.value(U, 10) - plain.value(U, 10)
    assert_allclose(more, 2.0 * np.exp(-0.05 * (x - 20.0) ** 2), atol=1e-12)
    assert problem.best(9) < 3.0
    assert_allclose(problem.best(10), problem.value(np.array([[0.7]]), 10)[0])


def test_a_narrower_grid_has_its_own_range():
    problem = MovingBump(width=10.0, points=21)
    assert_allclose(problem.space.points[:, 0], np.linspace(-10.0, 10.0, 21))
    assert_allclose(problem.value(np.array([[1.0]]), 0), [np.exp(-5.0) + 0.5 * np.cos(2.0) + 1.5])


def test_stations_read_their_table():
    places = np.array([[-74.0, 40.0], [-73.5, 41.0], [-75.0, 40.5], [-74.2, 40.9]])
    readings = np.array([[3.0, 1.0, np.nan, 2.0], [5.0, np.nan, 7.0, np.nan], [0.0, -1.0, -2.0, -3.0]])
    problem = Stations(places, readings)
    U = problem.space.unit
    for t in (1, 2, 3):
        assert_array_equal(problem.value(U, t), readings[t - 1])
        assert_array_equal(problem.value(U[[2, 2, 0]], t), readings[t - 1, [2, 2, 0]])
    assert_array_equal(problem.value(U + 1e-3, 1), readings[0])  # the nearest
    assert [problem.best(t) for t in (1, 2, 3)] == [3.0, 7.0, 0.0]
    for i, place in enumerate(places):
        assert_array_equal(problem.space.encode(place), U[i])


def test_a_well_tuned_motor_settles():
    problem = Motor()
    for t in (1, 50, 150):
        u = GAINS[np.argmax(problem.value(GAINS, t))]
        (speed,), (current,) = (values.T for values in problem.speed(u[None], t))
        assert speed.shape == (300,)
        assert_allclose(speed[[149, 299]], 1.0, atol=0.03)
        # At rest 0.5 current is friction and load: 0.05, and 0.5 more from half-way on.
        assert_allclose(current[[149, 299]], [0.1, 1.1], atol=0.12)
        assert speed[140] - speed[150:200].min() > 0.01  # the load is felt
        error = np.mean(np.abs(1.0 - speed)) + 2e-4 * np.mean(current**2)
        assert_allclose(problem.value(u[None], t), [-np.log(error)], rtol=1e-12)
    # Gains that are far too low do not get there.
    assert problem.speed(np.zeros((1, 2)), 1)[0].max() < 0.9


def test_a_motor_starts_after_its_delay_and_obeys_its_equations():
    problem = Motor(samples=2000, delay=40)
    speed, current = problem.speed(np.array([[0.5, 0.4]]), 20)
    kp, ki, dt, J = np.sqrt(0.1 * 100.0), 0.1 * 3000.0**0.4, 1.0 / 2000, problem.inertia(20)
    for s in (500, 1200, 1900):
        measured = 1.0 - np.concatenate([np.zeros(40), speed[:, 0]])[: s + 1]
        volts = kp * measured[s] + ki * dt * measured[:s].sum()
        assert abs(volts) < 24.0
        di, domega = ((values[s + 1, 0] - values[s - 1, 0]) / (2.0 * dt) for values in (current, speed))
        omega, i, load = speed[s, 0], current[s, 0], 0.5 * (s >= 1000)
        assert_allclose(0.02 * di, volts - i - 0.5 * omega, atol=0.02)
        assert_allclose(J * domega, 0.5 * i - 0.05 * omega - load, atol=0.02)
    assert_allclose(problem.speed(np.array([[0.5, 0.4]]), 220)[0], speed, rtol=1e-9)


def test_the_best_gains_of_the_motor_move():
    problem = Motor()
    assert_allclose([problem.inertia(t) for t in (0, 50, 100, 150, 200)], [0.05, 0.2, 0.05, 0.0125, 0.05])
    heavy, light = (GAINS[np.argmax(problem.value(GAINS, t))] for t in (50, 150))
    gains = [np.array(list(problem.space.decode(u).values())) for u in (heavy, light)]
    assert np.max(gains[0] / gains[1]) > 3.0
    # What suits one is clearly worse for the other.
    for t, own, other in ((50, heavy, light), (150, light, heavy)):
        values = problem.value(np.array([own, other]), t)
        assert values[0] - values[1] > 4.0 * problem.noise_std
        assert problem.best(t) >= values[0]
        assert problem.best(t) == problem.best(t + 200)
        assert problem.best(t) < values[0] + 0.1


def test_regret_is_counted_by_the_step():
    problem = MovingBump(points=101, noise_std=0.0)
    points = problem.space.points
    script = [points[i] for i in (0, 50, 80)]
    side = [[], [points[10], points[90]], [points[50]]]
    opt, done = Scripted(problem.space, script, side), []
    played = play(problem, opt, 3, 0, progress=done.append)
    f = [problem.value(problem.space.unit, t) for t in (1, 2, 3)]
    assert_allclose(played.regret, [f[0].max() - f[0][0], f[1].max() - f[1][50], f[2].max() - f[2][80]], rtol=1e-12)
    assert_allclose(
        played.side_regret, [f[1].max() - f[1][10], f[1].max() - f[1][90], f[2].max() - f[2][50]], rtol=1e-12
    )
    assert_allclose(opt.rewards, [f[0][0], f[1][50], f[2][80]], rtol=1e-12)
    assert_allclose(np.concatenate(opt.answers), [f[1][10], f[1][90], f[2][50]], rtol=1e-12)
    assert opt.log == ["ask", "tell", "ask", "tell", "answer", "ask", "tell", "answer"]
    assert done == [1, 2, 3]
    alone = Scripted(problem.space, script, side)
    assert len(play(problem, alone, 3, 0, answers=False).side_regret) == 0
    assert alone.answers == []


def test_the_best_point_of_a_step_has_no_regret():
    problem = MovingBump(points=101)
    best = [problem.space.points[np.argmax(problem.value(problem.space.unit, t))] for t in range(1, 41)]
    assert len({tuple(x) for x in best}) > 3
    assert_array_equal(play(problem, Scripted(problem.space, best, [[]] * 40), 40, 0).regret, np.zeros(40))
    late = Scripted(problem.space, [best[0], *best[:-1]], [[]] * 40)
    assert 0.0 < play(problem, late, 40, 0).regret.sum() < 1.0


@pytest.mark.parametrize(("side_noise_std", "expected"), [(None, 0.1), (0.5, 0.5), (0.0, 0.0)])
def test_rewards_and_answers_have_their_own_noise(side_noise_std, expected):
    problem, n = MovingBump(points=101, noise_std=0.1), 400
    script = [problem.space.points[50]] * n
    side = [[problem.space.points[20], problem.space.points[70]]] * n
    opt = Scripted(problem.space, script, side)
    played = play(problem, opt, n, 3, side_noise_std=side_noise_std)
    f = np.array([problem.value(problem.space.unit, t) for t in range(1, n + 1)])
    noise, side_noise = np.array(opt.rewards) - f[:, 50], (np.array(opt.answers) - f[:, [20, 70]]).ravel()
    for errors, std in ((noise, 0.1), (side_noise, expected)):
        assert abs(errors.mean()) <= 4.5 * std / np.sqrt(len(errors))
        assert abs(errors.std() - std) <= 4.5 * std / np.sqrt(2 * len(errors))
    assert abs(np.corrcoef(noise, side_noise[::2])[0, 1]) < 4.5 / np.sqrt(n) if expected else True
    assert_allclose(played.regret, f.max(axis=1) - f[:, 50], rtol=1e-12)  # of the function, not of the noise
    again = Scripted(problem.space, script, side)
    play(problem, again, n, 3, side_noise_std=side_noise_std)
    assert again.rewards == opt.rewards
    other = Scripted(problem.space, script, side)
    play(problem, other, n, 4, side_noise_std=side_noise_std)
    assert other.rewards != opt.rewards


def test_a_missing_reading_is_no_regret():
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    problem = Stations(places, np.array([[3.0, np.nan, 1.0], [np.nan, 4.0, 6.0]]))
    opt = Scripted(problem.space, [places[1], places[1]], [[places[2], places[1]], [places[0]]])
    played = play(problem, opt, 2, 0)
    assert_array_equal(played.regret, [np.nan, 2.0])
    assert_array_equal(played.side_regret, [2.0, np.nan, np.nan])
    assert np.isnan(opt.rewards[0])
    real = TimeVaryingOptimizer(problem.space, "gp-ucb", random_state=0, num_queries=2)
    play(problem, real, 2, 0)
    assert real.steps == 2
