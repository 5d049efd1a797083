"""Determinantal point processes against determinants: subsets are gone through, and ratios computed, one by one."""

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from streamgp.bandits.kdpp import SwapChain, distinct, probabilities, sample
from streamgp.numerics.pivoted_cholesky import PivotedCholesky, pivoted_cholesky

Subset = tuple[int, ...]


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Thousands of steps and chains: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def squared_exponential(x: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.exp(-0.5 * np.square((x[:, None] - x) / lengthscale))


def uneven(n: int = 8) -> np.ndarray:
    std = np.geomspace(1.0, 4.0, n)
    return std[:, None] * squared_exponential(np.arange(n, dtype=float), 2.0) * std


def with_jitter(K: np.ndarray, jitter: float) -> np.ndarray:
    return K + jitter * np.diag(np.diag(K))


def law(K: np.ndarray, k: int) -> dict[Subset, float]:
    determinants = {S: np.linalg.det(K[np.ix_(S, S)]) for S in itertools.combinations(range(len(K)), k)}
    return {S: float(value / sum(determinants.values())) for S, value in determinants.items()}


def transitions(exact: dict[Subset, float], n: int) -> np.ndarray:
    """The probabilities of going from one subset to another by one step of Algorithm 2."""
    subsets = list(exact)
    P = np.zeros((len(subsets), len(subsets)))
    for a, S in enumerate(subsets):
        for i, j in itertools.product(S, set(range(n)) - set(S)):
            T = tuple(sorted({*S, j} - {i}))
            P[a, subsets.index(T)] = 0.5 * min(1.0, exact[T] / exact[S]) / (len(S) * (n - len(S)))
        P[a, a] = 1.0 - P[a].sum()
    return P


def greedy_of(
    K: np.ndarray, k: int, tolerance: float = 1e-12, rng: np.random.Generator | None = None
) -> PivotedCholesky:
    return pivoted_cholesky(lambda i: K[:, i], np.diag(K), k, tolerance=tolerance, rng=rng)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3])
def test_a_few_steps_go_as_far_as_they_should(steps, unchecked):
    K, number, rng = uneven(), 2000, np.random.default_rng(steps)
    exact = law(with_jitter(K, 1e-6), 3)
    at = list(exact).index(tuple(np.sort(greedy_of(K, 3).chosen).tolist()))
    expected = number * np.linalg.matrix_power(transitions(exact, len(K)), steps)[at]
    drawn = Counter(tuple(sample(K, 3, steps=steps, rng=rng).tolist()) for _ in range(number))
    observed = np.array([drawn[S] for S in exact])
    often = expected >= 5.0
    observed = np.append(observed[often], observed[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    seen = expected > 0.0
    assert observed[~seen].sum() == 0
    statistic = np.sum((observed - expected)[seen] ** 2 / expected[seen])
    low, high = chi2.ppf([1e-4, 1.0 - 1e-4], seen.sum() - 1)
    assert low < statistic < high


def test_steps_keep_the_law():
    K = uneven(7)
    exact = law(with_jitter(K, 1e-3), 3)
    for S in exact:
        chain = SwapChain(K, np.array(S), 1e-3)
        for position, j in itertools.product(range(3), set(range(7)) - set(S)):
            T = tuple(sorted({*S, j} - {S[position]}))
            assert_allclose(exact[S] * chain.ratio(position, j), exact[T], rtol=1e-9)


def follow(K: np.ndarray, k: int, swaps: int, rng: np.random.Generator, rtol: float) -> None:
    """Hold every ratio along a chain to two fresh determinants."""
    K_jitter = with_jitter(K, 1e-6)

    def log_det(S: np.ndarray) -> float:
        return np.linalg.slogdet(K_jitter[np.ix_(S, S)])[1]

    chain = SwapChain(K, greedy_of(K, k, 0.0).chosen, 1e-6)
    while swaps:
        position, j = int(rng.integers(k)), int(rng.integers(len(K)))
        if j in chain.chosen:
            continue
        after = chain.chosen.copy()
        after[position] = j
        fresh = np.exp(log_det(after) - log_det(chain.chosen))
        assert_allclose(chain.ratio(position, j), fresh, rtol=rtol)
        if rng.random() < fresh:
            chain.swap(position, j)
            assert_array_equal(chain.chosen, after)
            swaps -= 1


@pytest.mark.parametrize("k", [1, 2, 12, 22])
def test_ratios_of_a_smooth_and_nearly_singular_kernel(k, unchecked):
    K = squared_exponential(np.linspace(-50.0, 50.0, 200), 10.0)
    follow(K, k, 300, np.random.default_rng(k), 1e-5)


@pytest.mark.parametrize("k", [1, 10, 38])
def test_ratios_of_a_kernel_in_good_condition(k, unchecked):
    K = squared_exponential(np.linspace(-50.0, 50.0, 200), 0.6)
    follow(K, k, 300, np.random.default_rng(k), 1e-9)


def test_ratios_of_points_that_are_in_the_set():
    chain = SwapChain(uneven(), np.array([6, 1, 4]), 0.0)
    assert_allclose([chain.ratio(1, j) for j in (6, 1, 4)], [0.0, 1.0, 0.0], atol=1e-10)
    chain = SwapChain(uneven(), np.arange(8), 0.0)
    assert all(chain.ratio(position, j) >= 0.0 for position in range(8) for j in range(8))


def test_errors_live_for_no_more_swaps_than_there_are_points():
    K, start = uneven(), np.array([6, 1, 4])
    chain, spoilt = SwapChain(K, start, 0.0), SwapChain(K, start, 0.0)
    spoilt._W *= 0.9
    for j in (2, 7, 5):
        assert abs(spoilt.ratio(1, 3) / chain.ratio(1, 3) - 1.0) > 1e-3
        chain.swap(0, j)
        spoilt.swap(0, j)
    assert_allclose(spoilt.ratio(1, 3), chain.ratio(1, 3), rtol=1e-12)
    assert start.tolist() == [6, 1, 4]


def test_greedy_takes_the_point_of_greatest_determinant():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(12, 14)) * rng.uniform(0.5, 2.0, size=(12, 1))
    K = F @ F.T
    wanted: list[int] = []
    for _ in range(12):
        sets = [[*wanted, j] for j in range(12) if j not in wanted]
        wanted = max(sets, key=lambda S: np.linalg.det(K[np.ix_(S, S)]))
    found = greedy_of(K, 12)
    assert_array_equal(found.chosen, wanted)
    determinants = [np.linalg.det(K[np.ix_(wanted[:m], wanted[:m])]) for m in range(1, 13)]
    assert_allclose(np.cumprod(found.variances), determinants, rtol=1e-9)
    assert_array_equal(greedy_of(K, 5).chosen, wanted[:5])


def test_greedy_asks_for_the_columns_of_its_points_only():
    x = np.linspace(0.0, 1.0, 20_000)
    asked = []

    def column(i: int) -> np.ndarray:
        asked.append(i)
        return np.exp(-np.abs(x - x[i]))

    found = pivoted_cholesky(column, np.ones(len(x)), 6, tolerance=1e-6)
    assert found.chosen.tolist() == asked
    assert len(asked) == 6


def test_greedy_ends_at_the_rank():
    F = np.random.default_rng(1).normal(size=(10, 4))
    found = greedy_of(F @ F.T, 10, 1e-10)
    assert len(found.chosen) == len(found.variances) == 4
    K = squared_exponential(np.linspace(0.0, 1.0, 30), 0.5)
    for tolerance in (1e-2, 1e-5):
        found = greedy_of(K, 30, tolerance)
        S = found.chosen
        left = np.diag(K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S]))
        assert found.variances.min() > tolerance >= left.max()
    assert len(greedy_of(np.zeros((3, 3)), 3).chosen) == 0


def test_a_draw_has_no_more_points_than_say_more_than_the_jitter():
    K = squared_exponential(np.linspace(-50.0, 50.0, 200), 10.0)
    for jitter in (1e-6, 1e-3):
        drawn = sample(K, 100, steps=20, rng=np.random.default_rng(0), jitter=jitter)
        assert len(drawn) == len(greedy_of(K, 100, jitter, np.random.default_rng(0)).chosen) < 30
    with pytest.raises(ValueError, match="raise the jitter"):  # at the rank to n eps, rounding takes the determinants
        sample(K, 100, steps=3000, rng=np.random.default_rng(0), jitter=0.0)


@pytest.mark.parametrize("tolerance", [0.0, 1e-10])
def test_no_point_comes_twice(tolerance):
    x = np.random.default_rng(2).normal(size=6)
    K = squared_exponential(np.tile(x, 3), 0.3)
    found = greedy_of(K, 18, tolerance).chosen
    assert len(set(found.tolist())) == len(found)
    assert len(set((found % 6).tolist())) == 6
    if tolerance:
        assert len(found) == 6
        assert len(sample(K, 18, steps=50, rng=np.random.default_rng(0))) == 6  # no more than there are different


def test_sizes_are_those_asked_for():
    K = uneven()
    for k in range(9):
        drawn = sample(K, k, steps=40, rng=np.random.default_rng(k), jitter=0.0)
        assert drawn.shape == (k,)
        assert np.all(np.diff(drawn) > 0)


def test_ties_are_broken_at_random():
    K = np.diag([1.0, 0.5, 1.0 - 1e-15, 1.0, 1.0 - 1e-9])
    assert greedy_of(K, 5).chosen.tolist() == [0, 2, 3, 4, 1]
    rng, number = np.random.default_rng(3), 600
    orders = [greedy_of(K, 5, rng=rng).chosen.tolist() for _ in range(number)]
    assert all(set(order[:3]) == {0, 2, 3} and order[3:] == [4, 1] for order in orders)
    counts = np.array(list(Counter(map(tuple, orders)).values()))
    assert len(counts) == 6
    assert np.all(np.abs(counts / number - 1 / 6) < 4.0 * np.sqrt(1 / 6 * 5 / 6 / number))


def test_the_generator_alone_decides():
    K = squared_exponential(np.arange(30.0), 2.0)
    before = K.copy()
    one, same, other = (sample(K, 6, steps=200, rng=np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert np.any(one != other)
    assert_array_equal(K, before)


def test_probabilities_are_shares_of_determinants():
    K = uneven(7)
    for k in (0, 1, 3, 7):
        found, exact = probabilities(K, k), law(K, k)
        assert list(found) == list(exact)
        assert_allclose(list(found.values()), list(exact.values()), rtol=1e-9)
    tiny = probabilities(1e-200 * K, 3)  # whose determinants are below the smallest double
    assert_allclose(list(tiny.values()), list(law(K, 3).values()), rtol=1e-9)
    twice = np.ones((3, 3))
    twice[2] = twice[:, 2] = [0.0, 0.0, 1.0]
    assert_allclose(list(probabilities(twice, 2).values()), [0.0, 0.5, 0.5], atol=1e-15)


def test_distinct_rows_in_the_order_of_their_first():
    X = np.array([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0], [2.0, 1.0 + 1e-15], [-0.0, 3.0], [1.0, 1.0]])
    rows, first = distinct(X)
    assert first.tolist() == [0, 1, 3, 5]
    assert_array_equal(rows, X[first])
    assert distinct(np.empty((0, 2)))[1].tolist() == []


def test_errors_say_what_came():
    K, rng = uneven(4), np.random.default_rng(0)
    lopsided, hole = K.copy(), K.copy()
    lopsided[1, 2] += 0.1
    hole[1, 2] = hole[2, 1] = np.nan
    for k in (-1, 5):
        for call in (lambda k=k: sample(K, k, steps=1, rng=rng), lambda k=k: greedy_of(K, k)):
            with pytest.raises(ValueError, match=f"^k: expected a number from 0 to 4, got {k}"):
                call()
    with pytest.raises(ValueError, match=r"^k: expected a number from 0 to 4, got 5"):
        probabilities(K, 5)
    for bad, message in (
        (K[:3], "square kernel matrix, got 3 rows and 4 columns"),
        (lopsided, "symmetric matrix, got .* in row 1 and column 2; "),
        (hole, "finite numbers, got nan in row 1 and column 2; "),
    ):
        for call in (
            lambda bad=bad: sample(bad, 2, steps=1, rng=rng),
            lambda bad=bad: probabilities(bad, 2),
            lambda bad=bad: SwapChain(bad, np.array([0, 1]), 0.0),
        ):
            with pytest.raises(ValueError, match=message):
                call()
    with pytest.raises(ValueError, match=r"kernel_column\(3\): expected finite numbers, got inf in row 0; "):
        pivoted_cholesky(lambda i: np.array([np.inf, 1.0, 1.0, 1.0]), np.diag(K), 2, tolerance=0.0)
    with pytest.raises(ValueError, match=r"diagonal: expected variances from 0 up, got -1\.0 in row 1; "):
        greedy_of(np.diag([1.0, -1.0]), 1)
    with pytest.raises(ValueError, match="tolerance: expected a number from 0 to inf, got -1"):
        greedy_of(K, 2, -1.0)
    with pytest.raises(ValueError, match="steps: expected a number from 0 to inf, got -1"):
        sample(K, 2, steps=-1, rng=rng)
    with pytest.raises(ValueError, match="jitter: expected a number from 0 to inf, got nan"):
        sample(K, 2, steps=1, rng=rng, jitter=float("nan"))
    for wrong in ([0, 0], [0, 4], [-1, 2]):
        with pytest.raises(ValueError, match="chosen: expected different numbers from 0 to 3"):
            SwapChain(K, np.array(wrong), 0.0)
    with pytest.raises(ValueError, match="at most 200,000 subsets, got 2598960"):
        probabilities(np.eye(52), 5)
    with pytest.raises(ValueError, match="expected a positive determinant, got none of 2 points"):
        probabilities(np.ones((3, 3)), 2)


def test_points_that_are_one_have_no_determinant():
    K = np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"det K_S > 0, got none for S = \[0, 1\]; raise the jitter"):
        SwapChain(K, np.array([0, 1]), 0.0)
    chain = SwapChain(K, np.array([0, 2]), 0.0)
    with pytest.raises(ValueError, match=r"got none for S = \[0, 1\]"):
        chain.swap(1, 1)
    SwapChain(K, np.array([0, 1]), 1e-6)
