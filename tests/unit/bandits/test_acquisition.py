"""Maximising a score against fine grids, against enumeration, and against chance where several are best."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.bandits.acquisition import maximise
from streamgp.bandits.parameters import Choice, Integer, Real
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior
from streamgp.bandits.space import Box, Candidates, as_space

SEEDS = range(6)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Grids, and thousands of draws: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


class Bound:
    """The upper confidence bound of a posterior with many maxima."""

    def __init__(
        self, seed: int, space: Box, n: int, lengthscale: float, kernel: str = "squared-exponential"
    ) -> None:
        rng, d = np.random.default_rng(seed), len(space.groups)
        self.hyper = Hyperparameters(np.full(d, lengthscale), 1.0, 0.01)
        noise_vars = np.full(n, 0.01)
        U = space.draw(rng, n)
        self.posterior = Posterior(KERNELS[kernel], self.hyper, U, rng.normal(size=n), noise_vars)

    def __call__(self, U: np.ndarray) -> np.ndarray:
        mean, std = self.posterior.at(U)
        return mean + 1.5 * std

    def slope(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        mean, std, by_mean, by_std = self.posterior.gradients(u)
        return mean + 1.5 * std, by_mean + 1.5 * by_std


def found(score: Any, slope: Any, space: Box | Candidates, seed: int = 0, near: Any = None) -> np.ndarray:
    near = np.zeros((0, len(space.groups))) if near is None else np.array(near)
    return maximise(score, slope, space, np.random.default_rng(seed), near)


def grid(d: int, points: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, points)] * d), -1).reshape(-1, d)


LINE, PLANE = as_space([(-3.0, 5.0)]), as_space([(0.0, 2.0), (-1.0, 1.0)])
GRIDS = [
    pytest.param(LINE, 20, 0.05, 4001, id="line"),
    pytest.param(LINE, 60, 0.015, 4001, id="rugged line"),
    pytest.param(PLANE, 30, 0.15, 101, id="plane"),
]


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-3/2"])
@pytest.mark.parametrize(("space", "n", "lengthscale", "points"), GRIDS)
def test_no_point_of_a_grid_is_better(space, n, lengthscale, points, kernel, unchecked):
    U, gaps = grid(len(space.groups), points), []
    for seed in SEEDS:
        bound = Bound(seed, space, n, lengthscale, kernel)
        values = bound(U)
        reach = np.ptp(values)
        inner = values.reshape(-1, points)
        maxima = (inner[:, 1:-1] > inner[:, 2:]) & (inner[:, 1:-1] > inner[:, :-2])
        assert maxima.sum() >= 5  # so that there is something to choose from
        u = found(bound, bound.slope, space, seed)
        best = bound(u[None])[0]
        assert best >= values.max() - 1e-3 * reach
        # The end of a climb: no slope but out of the box, against the curvature that the kernel can have.
        gradient = bound.slope(u)[1]
        inwards = np.where(
            u == 0.0, np.maximum(gradient, 0.0), np.where(u == 1.0, np.minimum(gradient, 0.0), gradient)
        )
        assert np.abs(inwards).max() < 1e-4 * reach / lengthscale
        gaps.append((values.max() - bound(found(bound, None, space, seed)[None])[0]) / reach)
    # Without gradients, 512 points are tried in a plane, which may all miss a summit; neighbours end 0.003 apart.
    assert np.median(gaps) < 1e-3
    assert max(gaps) < (3e-3 if space is LINE else 0.1)


def test_climbs_set_out_for_more_than_one_summit(unchecked):
    """The higher one is so narrow that the points tried at first find more on the slopes of the other."""
    for seed in range(20):
        low, high = np.random.default_rng(seed).permutation([[0.25, 0.3], [0.8, 0.7]])

        def score(U: np.ndarray, low: np.ndarray = low, high: np.ndarray = high) -> np.ndarray:
            broad = np.exp(-0.5 * np.square((U - low) / 0.08).sum(axis=1))
            return broad + 1.1 * np.exp(-0.5 * np.square((U - high) / 0.03).sum(axis=1))

        def slope(u: np.ndarray, low: np.ndarray = low, high: np.ndarray = high) -> tuple[float, np.ndarray]:
            broad = np.exp(-0.5 * np.square((u - low) / 0.08).sum())
            narrow = 1.1 * np.exp(-0.5 * np.square((u - high) / 0.03).sum())
            return float(broad + narrow), -broad * (u - low) / 0.08**2 - narrow * (u - high) / 0.03**2

        assert_allclose(found(score, slope, PLANE, seed), high, atol=1e-4)


def test_bounds_are_reached():
    """The greatest score in a corner, and on an edge."""
    for slopes, expected in (([3.0, -2.0], [1.0, 0.0]), ([-1.0, 0.0], [0.0, 0.3])):
        a = np.array(slopes)

        def score(U: np.ndarray, a: np.ndarray = a) -> np.ndarray:
            return U @ a - (a[1] == 0.0) * np.square(U[:, 1] - 0.3)

        def slope(u: np.ndarray, a: np.ndarray = a) -> tuple[float, np.ndarray]:
            return float(score(u[None], a)[0]), a - (a[1] == 0.0) * np.array([0.0, 2.0 * (u[1] - 0.3)])

        assert_allclose(found(score, slope, PLANE), expected, atol=1e-5)
        assert_allclose(found(score, None, PLANE), expected, atol=0.03)


def enumerated(space: Box, points: int = 0) -> np.ndarray:
    """All values of whole numbers and categories, and so many of continuous numbers."""
    sides = []
    for one in space.parameters:
        values = one.values if isinstance(one, Choice) else np.linspace(one.low, one.high, points or 1)
        values = range(one.low, one.high + 1) if isinstance(one, Integer) else values
        sides.append([np.array(one.encode(v, "x")) for v in values])
    return np.array([np.concatenate(x) for x in itertools.product(*sides)])


WHOLE = Box((Integer(-20, 20), Integer(1, 64, log=True), Choice(tuple("abcde"))), ("shift", "size", "kind"))
PARTLY = Box((Integer(0, 9), Choice(tuple("abc")), Real(-1.0, 1.0)), ("number", "kind", "level"))


def test_whole_numbers_and_categories_are_the_best_of_all(unchecked):
    U, exact = enumerated(WHOLE), {True: 0, False: 0}
    assert U.shape == (41 * 64 * 5, 7)
    for seed in SEEDS:
        bound = Bound(seed, WHOLE, 40, 0.3)
        values = bound(U)
        for slope in (bound.slope, None):
            u = found(bound, slope, WHOLE, seed)
            assert np.abs(U - u).max(axis=1).min() < 1e-12
            gap = values.max() - bound(u[None])[0]
            assert gap < 0.1 * np.ptp(values)
            exact[slope is None] += gap < 1e-9
    assert min(exact.values()) >= len(SEEDS) - 1


def test_a_summit_is_climbed_by_exchanges_from_anywhere(unchecked):
    """One in 400 million points: none of those tried at first is near."""
    space = as_space({f"n{i}": Integer(0, 2**10) for i in range(2)} | {f"c{i}": list("abcdefg") for i in range(3)})
    summit = space.encode({"n0": 777, "n1": 3, "c0": "b", "c1": "g", "c2": "a"})

    def score(U: np.ndarray) -> np.ndarray:
        return -np.square(U - summit).sum(axis=1)

    def slope(u: np.ndarray) -> tuple[float, np.ndarray]:
        return float(score(u[None])[0]), -2.0 * (u - summit)

    for seed in SEEDS:
        assert_array_equal(found(score, slope, space, seed), summit)


def test_numbers_of_all_kinds_side_by_side(unchecked):
    U = enumerated(PARTLY, 101)
    for seed in SEEDS:
        bound = Bound(seed, PARTLY, 30, 0.3)
        values = bound(U)
        u = found(bound, bound.slope, PARTLY, seed)
        assert_allclose(PARTLY.snap(u[None])[0], u, atol=1e-12)
        assert bound(u[None])[0] >= values.max() - 1e-3 * np.ptp(values)
        u = found(bound, None, PARTLY, seed)
        assert_allclose(PARTLY.snap(u[None])[0], u, atol=1e-12)
        assert bound(u[None])[0] >= values.max() - 0.05 * np.ptp(values)


def test_gradients_of_what_does_not_move_play_no_part():
    """Whole numbers and categories stay whole, whatever a gradient says between them."""

    def score(U: np.ndarray) -> np.ndarray:
        return U[:, 0] - np.square(U[:, -1] - 0.25)

    def slope(u: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.full(len(u), 1e3)
        gradient[-1] = -2.0 * (u[-1] - 0.25)
        return float(score(u[None])[0]), gradient

    x = PARTLY.decode(found(score, slope, PARTLY))
    assert (x["number"], x["level"]) == (9, pytest.approx(-0.5, abs=1e-5))


@pytest.mark.parametrize("slope", [True, False])
def test_what_is_near_the_last_choices_is_looked_at(slope):
    at = np.array([0.123456, 0.654321])

    def score(U: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.square((U - at) / 0.001).sum(axis=1)) + 0.1 * U[:, 0]

    def gradient(u: np.ndarray) -> tuple[float, np.ndarray]:
        bump = np.exp(-0.5 * np.square((u - at) / 0.001).sum())
        return float(score(u[None])[0]), -bump * (u - at) / 0.001**2 + [0.1, 0.0]

    slopes = gradient if slope else None
    assert score(found(score, slopes, PLANE)[None])[0] < 0.2
    u = found(score, slopes, PLANE, near=[[0.9, 0.9], at + 0.002])
    assert score(u[None])[0] > (1.0 if slope else 0.7)


def test_candidates_are_all_looked_at():
    points = np.random.default_rng(0).normal(size=(300, 3))
    for space in (Candidates(points), Candidates(points, tuple(f"p{i}" for i in range(300)))):
        for seed in SEEDS:
            scores = np.random.default_rng(seed).normal(size=300)
            u = found(lambda U, scores=scores: scores, None, space, seed)
            assert_array_equal(u, space.unit[scores.argmax()])


@pytest.mark.parametrize("slope", [True, False])
@pytest.mark.parametrize(
    "space",
    [LINE, PLANE, PARTLY, Candidates(np.linspace(0.0, 1.0, 200)[:, None])],
    ids=["line", "plane", "mixed", "points"],
)
def test_only_what_is_allowed_is_chosen(space, slope, unchecked):
    """The summit is not, and every climb would lead there."""
    at = space.draw(np.random.default_rng(3), 1)[0]

    def score(U: np.ndarray) -> np.ndarray:
        return -np.square(U - at).sum(axis=1)

    def allows(U: np.ndarray) -> np.ndarray:
        return np.abs(U - at).max(axis=1) >= 0.03

    slopes = (lambda u: (score(u[None])[0], -2.0 * (u - at))) if slope else None
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        u = maximise(score, slopes, space, rng, at[None], allows)
        assert allows(u[None])[0]
        assert np.abs(u - at).max() < 0.3  # as near as may be, or nearly so
        # Where nothing is allowed, the best is chosen all the same.
        u = maximise(score, slopes, space, rng, at[None], lambda U: np.zeros(len(U), bool))
        assert_allclose(u, at, atol=0.01)


def shares(chosen: list[float]) -> dict[float, float]:
    return {value: count / len(chosen) for value, count in Counter(chosen).items()}


def test_ties_among_candidates_are_broken_at_random(unchecked):
    space, number = Candidates(np.arange(8.0)[:, None]), 1500
    rng, near = np.random.default_rng(0), np.zeros((0, 1))
    for level in (0.0, 1e6, -3.0):
        scores = level + max(1.0, abs(level)) * np.array([0.0, 1.0, 0.5, 1.0 - 1e-14, 1.0, 1.0 - 1e-9, 0.0, 1.0])
        drawn = [7.0 * maximise(lambda U, s=scores: s, None, space, rng, near)[0] for _ in range(number)]
        share = shares(drawn)
        assert set(np.round(list(share), 9)) == {1.0, 3.0, 4.0, 7.0}
        assert np.abs(np.array(list(share.values())) - 0.25).max() < 4.0 * np.sqrt(0.25 * 0.75 / number)


@pytest.mark.parametrize("slope", [True, False])
def test_flat_scores_leave_the_choice_to_chance(slope, unchecked):
    def flat(U: np.ndarray) -> np.ndarray:
        return np.full(len(U), 3.0)

    slopes = (lambda u: (3.0, np.zeros(len(u)))) if slope else None
    for space in (PLANE, PARTLY, Candidates(np.arange(500.0)[:, None])):
        chosen = np.array([found(flat, slopes, space, seed) for seed in range(5)])
        assert len(np.unique(chosen, axis=0)) == 5
        assert_array_equal(found(flat, slopes, space, 3), chosen[3])  # the generator alone decides
    # All over the line, as independent uniform draws are.
    chosen = np.array([found(flat, slopes, LINE, seed)[0] for seed in range(40)])
    assert abs(chosen.mean() - 0.5) < 4.0 * np.sqrt(1 / 12 / 40)
    assert abs(12.0 * chosen.var() - 1.0) < 4.0 * np.sqrt(0.8 / 40)  # of squares of a uniform one


@pytest.mark.parametrize("slope", [True, False])
def test_categories_of_equal_worth_are_all_chosen(slope, unchecked):
    space = as_space({"kind": list("abcd")})

    def score(U: np.ndarray) -> np.ndarray:
        return -U[:, 3]

    slopes = (lambda u: (-u[3], np.array([0.0, 0.0, 0.0, -1.0]))) if slope else None
    share = shares([space.decode(found(score, slopes, space, seed))["kind"] for seed in range(40)])
    assert set(share) == set("abc")
    assert min(share.values()) > 0.08


@pytest.mark.parametrize(
    "space", [LINE, PARTLY, Candidates(np.arange(9.0)[:, None])], ids=["line", "mixed", "points"]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_no_scores(space, bad):
    def score(U: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(U)) == len(U) // 2, bad, 0.0)

    for slope in (None, lambda u: (0.0, np.zeros(len(u)))):
        with pytest.raises(FloatingPointError, match=f"^expected finite scores, got {bad}$"):
            found(score, slope, space)


def test_no_score_anywhere():
    with pytest.raises(FloatingPointError, match="got -inf"):
        found(lambda U: np.full(len(U), -np.inf), None, LINE)


def test_points_of_no_worth_are_left_aside():
    """A score of minus infinity forbids a point, and no more."""
    space = Candidates(np.arange(5.0)[:, None])
    scores = np.array([-np.inf, 1.0, 2.0, -np.inf, 0.0])
    assert found(lambda U: scores, None, space) == [0.5]
