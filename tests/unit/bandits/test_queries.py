"""Side queries: rules against determinants and refits one by one, and a budget against what it spends."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.bandits import Box, Budget, Candidates, Choice, Integer, Real, TimeVaryingOptimizer
from streamgp.bandits.problems import MovingBump
from streamgp.bandits.queries import (
    FIRST_PRICE,
    check_query_count,
    choose_maximisers,
    choose_most_informative,
    choose_past_inputs,
    draw_dense_points,
    draw_uniformly,
    queries_in_step,
    spread_evenly,
)
from streamgp.bandits.regression import KERNELS, Hyperparameters, Posterior

pytestmark = pytest.mark.slow

KERNEL = KERNELS["squared-exponential"]
HYPER = Hyperparameters(np.array([0.15]), 0.4, 0.02, 1.0)
NOISE_VAR = 0.05
LINE = Box((Real(-50.0, 50.0),))
MIXED = Box((Real(1e-3, 1.0, log=True), Integer(1, 4), Choice(("a", "b", "c"))), ("rate", "depth", "kind"))
LABELLED = Candidates(np.arange(12.0)[:, None], tuple("abcdefghijkl"))
STATIONS = Candidates(np.random.default_rng(0).normal(size=(30, 2)))
POINTS = np.linspace(0.0, 1.0, 25)[:, None]


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Hundreds of steps: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def k(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    apart = np.sum(np.square((A[:, None] - B[None]) / HYPER.lengthscales), axis=2)
    return HYPER.variance * np.exp(-0.5 * apart)


def observed() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, rewards and noise variances."""
    rng = np.random.default_rng(3)
    return rng.uniform(size=(9, 1)), rng.normal(1.0, 0.6, 9), rng.uniform(0.01, 0.3, 9)


def posterior() -> Posterior:
    return Posterior(KERNEL, HYPER, *observed())


def moments(U: np.ndarray, y: np.ndarray, noise_vars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the function at `POINTS`, by an inverse."""
    inverse, cross = np.linalg.inv(k(U, U) + np.diag(noise_vars)), k(U, POINTS)
    return 1.0 + cross.T @ inverse @ (y - 1.0), k(POINTS, POINTS) - cross.T @ inverse @ cross


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Where


def test_a_grid_is_even_and_moves():
    grids = [spread_evenly(LINE, 8, rng(seed)) for seed in range(40)]
    for U in grids:
        assert_allclose(np.diff(U[:, 0]), 1.0 / 8.0, atol=1e-12)
        assert 0.0 <= U[0, 0] < 1.0 / 8.0
    first = np.array([U[0, 0] for U in grids])
    assert first.min() < 0.02 < 0.1 < first.max()


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_on_a_line_of_candidates_the_grid_takes_every_so_manieth(n):
    x = rng(5).permutation(np.linspace(0.0, 3.0, 20) ** 3)
    space = Candidates(x[:, None])
    for seed in range(20):
        U = spread_evenly(space, n, rng(seed))
        ranks = np.sort(np.searchsorted(np.sort(space.unit[:, 0]), U[:, 0]))
        assert len(ranks) == n
        gaps = np.diff(ranks)
        assert np.all((gaps >= 20 // n) & (gaps <= -(-20 // n)))
        assert ranks[0] <= 20 / n
    assert_array_equal(spread_evenly(space, 21, rng()), space.unit)


def test_elsewhere_it_covers_the_space():
    U = spread_evenly(Box((Real(0.0, 1.0), Real(0.0, 1.0))), 64, rng())
    cells = np.floor(8.0 * U).astype(int)  # of a scrambled Sobol sequence each holds one
    assert len({tuple(cell) for cell in cells}) == 64
    assert len(np.unique(spread_evenly(STATIONS, 12, rng()), axis=0)) == 12
    assert len(spread_evenly(STATIONS, 50, rng())) == 30


@pytest.mark.parametrize("rule", ["grid", "past", "domain", "maximisers", "random"])
@pytest.mark.parametrize("space", [LINE, MIXED, STATIONS, LABELLED])
def test_every_rule_asks_for_as_many_points_of_the_space(rule, space):
    opt = TimeVaryingOptimizer(space, "sparq-gp-ucb", query_rule=rule, num_queries=4, random_state=2)
    assert len(opt.queries()) == 0
    visited: set[tuple[float, ...]] = set()
    for t in range(1, 9):
        x = opt.ask()
        opt.tell(x, float(np.sin(t)))
        visited.add(tuple(space.encode(x).round(12).tolist()))
        X = opt.queries()
        U = space.encode_all(X)
        if isinstance(space, Candidates):
            assert all(np.any(np.all(space.unit == u, axis=1)) for u in U)
        else:
            assert_allclose(space.snap(U), U, atol=1e-12)
        assert len(U) == len(X) == (min(4, len(visited)) if rule == "past" else 4)
        if rule != "random" and space is not MIXED:
            assert len(np.unique(U, axis=0)) == len(U)
        if rule == "past":
            assert {tuple(u) for u in U.round(12).tolist()} <= visited
        opt.answer(X, np.cos(np.arange(len(X))))


def test_random_points_are_uniform():
    U = draw_uniformly(LINE, 4000, rng())
    assert U.shape == (4000, 1)
    counts = np.histogram(U, 10, (0.0, 1.0))[0]
    assert np.all(np.abs(counts - 400) < 4.5 * np.sqrt(400 * 0.9))
    rows, counts = np.unique(draw_uniformly(STATIONS, 3000, rng()), axis=0, return_counts=True)
    assert len(rows) == 30
    assert np.all(np.abs(counts - 100) < 4.5 * np.sqrt(100))
    kinds = np.unique(draw_uniformly(MIXED, 3000, rng())[:, 2:], axis=0, return_counts=True)[1]
    assert np.all(np.abs(kinds - 1000) < 4.5 * np.sqrt(1000 * 2 / 3))


def test_past_inputs_have_the_greatest_determinant_one_by_one():
    locations = rng(7).uniform(size=(11, 1))
    K = k(locations, locations)
    starts = set()
    for seed in range(12):
        chosen = choose_past_inputs(locations, KERNEL, HYPER, 5, 0, rng(seed))
        S = [int(np.flatnonzero(locations[:, 0] == u)[0]) for u in chosen[:, 0]]
        starts.add(S[0])
        for m in range(1, 5):
            dets = [0.0 if j in S[:m] else np.linalg.det(K[np.ix_([*S[:m], j], [*S[:m], j])]) for j in range(11)]
            assert dets[S[m]] >= max(dets) * (1.0 - 1e-9)
    assert len(starts) > 4  # all variances are equal: any may be the first
    swapped = [np.sort(choose_past_inputs(locations, KERNEL, HYPER, 5, 200, rng(seed)), axis=0) for seed in range(3)]
    assert all(len(np.unique(U)) == 5 and np.all(np.isin(U, locations)) for U in swapped)
    assert np.any(swapped[0] != swapped[1]) or np.any(swapped[0] != swapped[2])


def test_past_inputs_that_say_nothing_new_are_left_out():
    close = np.array([[0.2], [0.2 + 1e-9], [0.8], [0.8 + 1e-9], [0.8 - 1e-9]])
    for swaps in (0, 20):
        chosen = choose_past_inputs(close, KERNEL, HYPER, 5, swaps, rng())
        assert np.unique(np.round(chosen, 6)).tolist() == [0.2, 0.8]
        assert len(chosen) == 2
    assert len(choose_past_inputs(close, KERNEL, HYPER, 0, 0, rng())) == 0


def test_most_telling_points_gain_most_one_after_the_other():
    chosen, gains = choose_most_informative(POINTS, posterior(), NOISE_VAR, 8, rng())
    cov = moments(*observed())[1]

    def gain(S: list[int]) -> float:
        """1/2 log |I + cov_S / noise|: what answers there tell of the function."""
        return 0.5 * np.linalg.slogdet(np.eye(len(S)) + cov[np.ix_(S, S)] / NOISE_VAR)[1]

    S = [int(np.flatnonzero(POINTS[:, 0] == u)[0]) for u in chosen[:, 0]]
    for m in range(8):
        each = [gain([*S[:m], j]) - gain(S[:m]) if j not in S[:m] else -np.inf for j in range(len(POINTS))]
        assert S[m] == int(np.argmax(each))
        assert_allclose(gains[m], each[S[m]], rtol=1e-8)
    assert len(set(S)) == 8
    assert np.all(np.diff(gains) < 0.0)
    assert len(choose_most_informative(POINTS, posterior(), NOISE_VAR, 99, rng())[0]) == len(POINTS)


@pytest.mark.parametrize("factor", [0.0, 1.0, 4.0])
def test_maximisers_are_those_of_refits_with_their_own_means(factor):
    chosen = choose_maximisers(POINTS, posterior(), NOISE_VAR, factor, 10)
    U, y, noise_vars = observed()
    left = list(range(len(POINTS)))
    for u in chosen:
        mean, cov = moments(U, y, noise_vars)
        bounds = mean + factor * np.sqrt(np.diag(cov))
        i = max(left, key=bounds.__getitem__)
        assert u == POINTS[i]
        left.remove(i)
        U, y = np.append(U, POINTS[i : i + 1], axis=0), np.append(y, mean[i])
        noise_vars = np.append(noise_vars, NOISE_VAR)
    assert len(choose_maximisers(POINTS, posterior(), NOISE_VAR, factor, 99)) == len(POINTS)


def test_a_temporal_kernel_keeps_both_rules_exact():
    U, y, noise_vars = observed()
    times = np.arange(9.0)
    decay = 0.8 ** np.abs(times[:, None] - times)
    now = 0.8 ** (9.0 - times)
    fading = Posterior(KERNEL, HYPER, U, y, noise_vars, decay, now)
    inverse, cross = np.linalg.inv(k(U, U) * decay + np.diag(noise_vars)), k(U, POINTS) * now[:, None]
    mean, cov = 1.0 + cross.T @ inverse @ (y - 1.0), k(POINTS, POINTS) - cross.T @ inverse @ cross
    first = choose_maximisers(POINTS, fading, NOISE_VAR, 2.0, 2)
    i = int(np.argmax(mean + 2.0 * np.sqrt(np.diag(cov))))
    assert first[0] == POINTS[i]
    left = np.diag(cov) - cov[i] ** 2 / (cov[i, i] + NOISE_VAR)
    bounds = mean + 2.0 * np.sqrt(left)
    bounds[i] = -np.inf
    assert first[1] == POINTS[np.argmax(bounds)]
    assert choose_most_informative(POINTS, fading, NOISE_VAR, 1, rng())[0][0] == POINTS[np.argmax(np.diag(cov))]


def test_an_optimiser_looks_for_queries_among_what_it_knew_before_answers():
    opt = TimeVaryingOptimizer(
        Candidates(POINTS),
        "gp-ucb",
        query_rule="domain",
        num_queries=3,
        expert_noise_var=NOISE_VAR,
        hyperparameters={"lengthscales": 0.15, "variance": 0.4, "noise_var": 0.02, "mean": 1.0},
        random_state=0,
    )
    i = [3, 4, 18]
    for at in i:
        opt.ask()
        opt.tell(POINTS[at], 1.0)
    inverse, cross = np.linalg.inv(k(POINTS[i], POINTS[i]) + 0.02 * np.eye(3)), k(POINTS[i], POINTS)
    cov = k(POINTS, POINTS) - cross.T @ inverse @ cross
    sets = itertools.combinations(range(len(POINTS)), 1)
    best = max(sets, key=lambda S: np.linalg.det(np.eye(1) + cov[np.ix_(S, S)] / NOISE_VAR))
    X = opt.queries()
    assert X[0] == POINTS[best[0]]
    opt.answer(X, [3.0, 3.0, 3.0])
    assert_array_equal(opt.queries(), X)


def test_dense_points_are_all_candidates_or_many():
    assert_array_equal(draw_dense_points(STATIONS, rng()), STATIONS.unit)
    U = draw_dense_points(MIXED, rng())
    assert len(U) == 256
    assert_allclose(MIXED.snap(U), U, atol=1e-12)


# How many


def test_numbers_of_queries(unchecked):
    assert [queries_in_step("6 log t", t) for t in (0, 1, 2, 3, 10, 500)] == [0, 0, 5, 7, 14, 38]
    assert [queries_in_step("2.5 log t", t) for t in (1, 2, 100)] == [0, 2, 12]
    assert [queries_in_step(7, t) for t in (1, 100)] == [7, 7]
    assert queries_in_step(Budget(1.5, 3.0), 9) == 5
    for wrong in (-1, 1.5, True, "log t", "6 log T", "6logt", "-1 log t", None):
        with pytest.raises(ValueError, match=r"^num_queries: expected a whole number of at least zero"):
            check_query_count(wrong, "grid")
    with pytest.raises(ValueError, match="expected a Budget with query_rule='domain' alone, got 'past'"):
        check_query_count(Budget(1.0), "past")
    for arguments in ((0.0,), (-1.0,), (float("inf"),), (1.0, 0.5), (float("nan"),)):
        with pytest.raises(ValueError, match=r"^Budget: expected per_step > 0 and burst >= 1, got "):
            Budget(*arguments)


def test_the_price_rises_and_falls_with_what_was_asked():
    budget = Budget(4.0, burst=3.0)
    assert budget.next_price(0.5, 4) == 0.5
    assert_allclose(budget.next_price(0.5, 8), 0.5 * np.exp(0.1))
    assert_allclose(budget.next_price(0.5, 0), 0.5 * np.exp(-0.1))
    assert_allclose(budget.next_price(0.5, 12), 0.5 * np.exp(0.2))
    assert budget.next_price(0.5, 99) == budget.next_price(0.5, 12)  # what was answered of its own accord
    # What is spent in any order comes back to the same price: no order of bursts gets more than the budget.
    for asked in ((0, 0, 12), (12, 0, 0), (8, 0, 4), (3, 3, 6)):
        price = 0.5
        for one in asked:
            price = budget.next_price(price, one)
        assert_allclose(price, 0.5, rtol=1e-12)
    gains = np.array([1.0, 0.6, 0.5, 0.2])
    assert [budget.affordable(gains, price) for price in (2.0, 0.6, 0.55, 0.1)] == [0, 1, 2, 4]


@pytest.mark.parametrize(("per_step", "burst"), [(1.0, 4.0), (5.0, 1.6)])
def test_a_budget_is_spent_and_kept_to(per_step, burst, unchecked):
    problem = MovingBump(points=101)
    budget = Budget(per_step, burst)
    arguments: dict[str, Any] = {"query_rule": "domain", "num_queries": budget, "random_state": 0}
    hyperparameters = {"lengthscales": 0.06, "variance": 0.25, "noise_var": 0.01, "mean": 1.5}
    opt = TimeVaryingOptimizer(problem.space, "sparq-gp-ucb", hyperparameters=hyperparameters, **arguments)
    asked, noise, price = [], rng(1), [FIRST_PRICE]
    for t in range(1, 201):
        x = opt.ask()
        opt.tell(x, float(problem.value(opt.space.encode(x)[None], t)[0] + 0.1 * noise.normal()))
        price.append(opt._unit.price)
        X = opt.queries()
        asked.append(len(X))
        opt.answer(X, problem.value(opt.space.encode_all(X), t) + 0.1 * noise.normal(size=len(X)))
    assert 0.85 * per_step < np.mean(asked) < 1.15 * per_step
    assert max(asked) <= np.ceil(per_step * burst)
    assert_allclose(np.diff(np.log(price))[1:], 0.1 * (np.array(asked[:-1]) / per_step - 1.0), atol=1e-12)
    assert price[1] == FIRST_PRICE
