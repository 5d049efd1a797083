"""Bets are fair by quadrature, sums of them are those of the definition, and e-BH is that of its paper."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from streamgp.evaluation.change_tests import (
    Detector,
    e_bh,
    log_mean,
    mean_bets,
    odds_bets,
    scale_bets,
    share_bets,
)

GRID = np.linspace(-120.0, 120.0, 400_001)


def expectation(log_bets: np.ndarray, mean: float = 0.0, deviation: float = 1.0) -> np.ndarray:
    """Integrate bets on the grid over a normal density, in logs so that large bets meet small densities."""
    density = norm.logpdf(GRID, mean, deviation)[:, None]
    return np.trapezoid(np.exp(log_bets + density), GRID, axis=0)


@pytest.mark.parametrize(("low", "high", "spread"), [(-0.125, 0.125, 1.15), (-0.125, 1.6, 1.15), (-0.5, 0.2, 2.0)])
def test_bets_on_means_are_fair_of_all_that_is_tolerated(low, high, spread):
    bets = mean_bets(GRID, low, high, spread)
    for mean in np.linspace(low, high, 5):
        for deviation in (0.5 * spread, 1.0, spread):
            assert (expectation(bets, mean, deviation) <= 1.0 + 1e-9).all()
    assert_allclose(expectation(bets, high, spread)[:4], 1.0, rtol=1e-7)  # and nothing is given away at the ends
    assert_allclose(expectation(bets, low, spread)[4:], 1.0, rtol=1e-7)
    assert (expectation(bets, high + 0.5, spread)[:4].max()) > 1.2


@pytest.mark.parametrize(("low", "high"), [(1 / 1.15, 1.15), (1 / 1.15, 3.0), (0.4, 1.15)])
def test_bets_on_scales_are_fair_of_all_that_is_tolerated(low, high):
    bets = scale_bets(GRID, low, high)
    for deviation in np.linspace(low, high, 5):
        assert (expectation(bets, 0.0, deviation) <= 1.0 + 1e-9).all()
    assert_allclose(expectation(bets, 0.0, high)[:4], 1.0, rtol=1e-7)
    assert_allclose(expectation(bets, 0.0, low)[4:], 1.0, rtol=1e-7)


@pytest.mark.parametrize(("low", "high"), [(0.45, 0.55), (0.45, 0.9), (0.02, 0.55)])
def test_bets_on_shares_are_fair_of_all_that_is_tolerated(low, high):
    lost, won = np.exp(share_bets(np.array([0.0, 1.0]), low, high))
    for p in np.linspace(low, high, 7):
        assert (p * won + (1.0 - p) * lost <= 1.0 + 1e-12).all()
    assert_allclose((high * won + (1.0 - high) * lost)[:4], 1.0)
    assert_allclose((low * won + (1.0 - low) * lost)[4:], 1.0)


def test_bets_on_odds_are_likelihood_ratios():
    found = np.exp(odds_bets(np.array([1.0, 0.0]), 0.2, np.array([4.0])))
    assert_allclose(found[:, 0], [0.5 / 0.2, 0.5 / 0.8])  # odds of 1/4, and of 1


def by_the_definition(log_e, rows, statistics):
    """Shiryaev-Roberts sums, and the best start of each product, row by row."""
    n, bets = log_e.shape
    e = np.exp(log_e)
    sums, M = np.zeros((n, bets)), np.zeros(bets)
    for t in range(n):
        M = e[t] * (M + 1.0)
        sums[t] = M
    best = []
    for a in range(bets):
        total = np.concatenate([[0.0], np.cumsum(np.log(e[:, a]))])
        wealth = total[-1] - total[:-1]  # of products that begin at each row
        start = n if wealth.max() <= 0.0 else n - 1 - int(np.argmax(wealth[::-1]))
        best.append((rows[start] if start < n else np.nan, n - start, statistics[start:].sum(0)))
    return np.log(sums), best


def test_sums_and_starts_are_those_of_the_definition_however_rows_are_cut():
    rng = np.random.default_rng(0)
    log_e = rng.normal(-0.1, 0.7, size=(400, 3)) + np.array([0.0, 0.25, -0.6])
    rows, statistics = 7.0 + 2.0 * np.arange(400), rng.normal(size=(400, 2))
    sums, best = by_the_definition(log_e, rows, statistics)
    for cuts in ([], [1, 2, 50, 51, 399], list(range(1, 400))):
        detector, paths = Detector.start(3, 2), []
        for part in np.split(np.arange(400), cuts):
            detector, path = detector.update(log_e[part], rows[part], statistics[part])
            paths.append(path)
        assert_allclose(np.vstack(paths), sums, rtol=1e-9)
        assert_allclose(detector.starts, [each[0] for each in best])
        assert_allclose(detector.counts, [each[1] for each in best])
        assert_allclose(detector.totals, [each[2] for each in best], rtol=1e-9, atol=1e-9)


def test_sums_less_the_number_of_rows_are_a_martingale_of_fair_bets():
    rng = np.random.default_rng(1)
    n, streams = 20, 20_000
    z = rng.normal(0.125, 1.15, size=(streams, n))
    log_e = mean_bets(z.ravel(), -0.125, 0.125, 1.15)[:, 1].reshape(streams, n)
    _, path = Detector.start(streams).update(log_e.T, np.arange(n) * 1.0)
    M = np.exp(path[-1])
    assert abs(M.mean() - n) < 4.0 * M.std() / np.sqrt(streams)


def test_false_alarms_are_as_many_as_stated_where_the_model_is_at_the_edge_of_what_is_tolerated():
    rng = np.random.default_rng(2)
    n, limit = 60_000, 50.0
    log_e = mean_bets(rng.normal(0.125, 1.15, size=n), -0.125, 0.125, 1.15)[:, :2]
    detector, at, alarms = Detector.start(2), 0, 0
    while at < n:
        block = slice(at, at + 4_000)
        after, path = detector.update(log_e[block], np.arange(n)[block] * 1.0)
        reached = np.flatnonzero(log_mean(path) >= np.log(limit))
        if len(reached):
            alarms, at, detector = alarms + 1, at + int(reached[0]) + 1, Detector.start(2)
        else:
            at, detector = at + 4_000, after
    stated = n / limit
    assert alarms < stated + 4.0 * np.sqrt(stated)
    assert alarms > 0.25 * stated  # they are far from idle: what a sum overshoots the limit by is lost


def brute_force(e_values, rate):
    """The largest set all of whose e-values are at least n / (size rate)."""
    n = len(e_values)
    for size in range(n, 0, -1):
        for found in combinations(range(n), size):
            if min(e_values[i] for i in found) >= n / (size * rate):
                return set(found)
    return set()


def test_e_bh_finds_the_largest_set_that_is_consistent():
    rng = np.random.default_rng(3)
    for _ in range(60):
        e_values = np.exp(rng.normal(2.0, 3.0, size=7))
        assert set(np.flatnonzero(e_bh(e_values, 0.2))) == brute_force(e_values, 0.2)
    assert_array_equal(e_bh(np.array([]), 0.1), [])


def test_e_bh_keeps_its_share_of_false_discoveries():
    rng = np.random.default_rng(4)
    shares, found_of_true = [], []
    for _ in range(400):
        shift = np.where(np.arange(100) < 10, 4.0, 0.0)
        e_values = np.exp(3.0 * rng.normal(shift) - 4.5)  # likelihood ratios of shift 3
        found = e_bh(e_values, 0.2)
        shares.append(found[10:].sum() / max(found.sum(), 1))
        found_of_true.append(found[:10].mean())
    assert np.mean(shares) < 0.2 + 4.0 * np.std(shares) / 20.0
    assert np.mean(found_of_true) > 0.5


@pytest.mark.parametrize(
    ("e_values", "rate", "said"),
    [
        ([1.0, -1.0], 0.1, "not negative"),
        ([1.0, np.nan], 0.1, "not negative"),
        ([[1.0]], 0.1, "shape"),
        ([1.0], 1.0, "between 0 and 1"),
    ],
)
def test_e_bh_says_what_it_expects(e_values, rate, said):
    with pytest.raises(ValueError, match=said):
        e_bh(e_values, rate)
