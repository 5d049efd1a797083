"""The map of levels is a distribution function whatever the shares; it is learnt from past rows alone."""

import jax
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.regression_scores import QUANTILES, moments_and_quantiles, score_regression
from streamgp.likelihoods import Predictive
from streamgp.likelihoods import recalibration as r
from streamgp.likelihoods.recalibration_by_spread import RecalibrationBySpread
from streamgp.models.registry import make_spec

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
SHARES = [np.eye(6)[3], np.array([0.05, 0.1, 0.25, 0.4, 0.12, 0.08]), RNG.dirichlet(np.ones(6))]


def by_words(v, u):
    """G(u) within the edges, from SciPy."""
    return sum(share * stats.norm.cdf(stats.norm.ppf(u) / s) for share, s in zip(v, r.STD_FACTORS, strict=True))


@pytest.mark.parametrize("v", SHARES)
def test_the_map_is_a_distribution_function_with_that_density_and_inverse(v):
    edge, v = stats.norm.cdf(-r.EDGE), v[None]
    u = np.array([1e-12, 1e-6, edge, 1e-3, 0.2, 0.5, 0.77, 0.999, 1.0 - 1e-6])
    inner = (u >= edge) & (u <= 1.0 - edge)
    np.testing.assert_allclose(r.below(v, u)[inner], by_words(v[0], u[inner]), rtol=1e-10)
    np.testing.assert_allclose(r.below(v, np.array([0.0, 1.0])), [0.0, 1.0], atol=1e-15)
    np.testing.assert_allclose(r.level(v, r.below(v, u)), u, rtol=1e-7)
    total, _ = integrate.quad(
        lambda a: np.exp(r.log_density(v, np.array([a])))[0],
        0,
        1,
        points=[edge, 0.01, 0.5, 0.99, 1 - edge],
        limit=400,
    )
    assert total == pytest.approx(1.0, abs=1e-7)
    step = 1e-6
    middle = np.array([0.003, 0.1, 0.5, 0.6, 0.98])
    slope = (r.below(v, middle + step) - r.below(v, middle - step)) / (2.0 * step)
    np.testing.assert_allclose(np.exp(r.log_density(v, middle)), slope, rtol=1e-6)


@pytest.mark.parametrize("v", [*SHARES, np.eye(6)[0], np.eye(6)[5], np.array([0.999, 0.0, 0.0, 0.0, 0.0, 0.001])])
def test_levels_are_found_whatever_the_shares(v):
    p = np.array([0.001, 0.05, 0.3, 0.5, 0.95])
    score = [optimize.brentq(lambda z, p=p: v @ stats.norm.cdf(z / r.STD_FACTORS) - p, -9.0, 9.0) for p in p]
    there = np.abs(score) <= r.EDGE
    np.testing.assert_allclose(r.level(v[None], p)[there], stats.norm.cdf(score)[there], rtol=1e-9)
    assert there.sum() >= 2


@pytest.mark.parametrize("n", [1, 300])  # of few rows other functions of the normal distribution are used
def test_moments_and_quantiles_of_few_and_of_many_rows(n: int):
    p = mixtures(n, SHARES[2], np.random.default_rng(n))
    found = moments_and_quantiles(p)
    weights, sd = np.exp(p.log_weights), np.sqrt(p.var[:, :, 0])
    mean = (weights * p.loc[:, :, 0]).sum(1)
    second = (weights * (p.var[:, :, 0] + p.loc[:, :, 0] ** 2)).sum(1) - mean**2
    np.testing.assert_allclose(found["mean"][:, 0], mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found["std"][:, 0] ** 2, second * (SHARES[2] @ r.STD_FACTORS**2), rtol=1e-10)
    for name, level in zip(("q05", "q50", "q95"), QUANTILES, strict=True):
        dof = np.where(np.isinf(p.dof), 1e9, p.dof)
        scale = sd * np.sqrt(1.0 - 2.0 / dof)
        below = (weights * stats.t.cdf((found[name] - p.loc[:, :, 0]) / scale, dof)).sum(1)
        np.testing.assert_allclose(by_words(SHARES[2], below), level, atol=1e-6)  # Hill's series of the t
    apart = [moments_and_quantiles(jax.tree.map(lambda a, i=i: a[i : i + 1], p)) for i in range(n)]
    for name, column in found.items():
        whole = np.concatenate([each[name] for each in apart])
        np.testing.assert_allclose(column, whole, rtol=1e-9, atol=1e-10)


def mixtures(n: int, v, rng: np.random.Generator = RNG):
    loc = rng.normal(size=(n, 6, 1)) * 0.4
    weights = np.log(rng.dirichlet(np.ones(6), n))
    dof = rng.choice([8.0, 100.0, np.inf], size=(n, 6))
    shares = None if v is None else np.tile(v, (n, 1, 1))
    return Predictive(weights, loc, rng.uniform(0.3, 2.0, size=(n, 6, 1)), dof, recalibration=shares)


def test_density_quantiles_scores_and_spread_are_of_the_recalibrated_distribution():
    p, y = mixtures(5, SHARES[1]), np.array([[0.1], [-0.9], [2.0], [0.6], [6.0]])
    found = score_regression(p, y)
    x = np.linspace(-60.0, 60.0, 120_001)
    for i in range(5):
        one = jax.tree.map(lambda a, i=i: np.repeat(a[i : i + 1], len(x), axis=0), p)
        F = one.cdf(x[:, None])[:, 0]
        density = np.exp(one.log_density(x[:, None]))
        np.testing.assert_allclose(integrate.trapezoid(density, x), 1.0, rtol=1e-5)
        np.testing.assert_allclose(np.interp(y[i, 0], x, F), found.pit[i, 0], atol=1e-6)
        np.testing.assert_allclose(np.log(np.interp(y[i, 0], x, density)), found.log_density[i], atol=1e-4)
        want = [np.interp(q, F, x) for q in (0.05, 0.5, 0.95)]
        np.testing.assert_allclose([found.q05[i, 0], found.q50[i, 0], found.q95[i, 0]], want, atol=1e-5)
        np.testing.assert_allclose(p.quantile(0.05)[i, 0], want[0], atol=1e-5)
        crps = integrate.trapezoid((F - (x >= y[i, 0])) ** 2, x)
        np.testing.assert_allclose(found.crps[i, 0], crps, rtol=0.01)
        np.testing.assert_allclose(p.crps(y)[i, 0], crps, rtol=0.01)
        mean = integrate.trapezoid(x * density, x)
        std = np.sqrt(integrate.trapezoid((x - mean) ** 2 * density, x))
        np.testing.assert_allclose(found.std[i, 0], std, rtol=0.15)
    plain = mixtures(5, SHARES[0])
    for name in ("pit", "q05", "crps", "log_density", "std"):
        without = Predictive(plain.log_weights, plain.loc, plain.var, plain.dof)
        np.testing.assert_allclose(
            getattr(score_regression(plain, y), name),
            getattr(score_regression(without, y), name),
            rtol=1e-6,
            atol=1e-9,
        )


def test_the_shares_are_found():
    """Levels drawn from a map are levels at which it puts as much."""
    rng = np.random.default_rng(1)
    z = rng.choice(r.STD_FACTORS, size=4_000, p=SHARES[1]) * rng.normal(size=4_000)
    u, spread = stats.norm.cdf(z)[:, None], rng.normal(size=(4_000, 1))
    _, known = RecalibrationBySpread.start(1).learn_rows(u, spread, np.ones(4_000, bool))
    told = r.below(known.shares(spread), u)[500:, 0]
    for level in (0.5, 0.9, 0.95):
        held = np.mean(np.abs(told - 0.5) < level / 2)
        assert abs(held - level) < 4.0 * np.sqrt(level * (1 - level) / len(told)), (level, held)


def peaked(n: int, seed: int = 0):
    """Errors with a sharp peak and long tails: one row in five has three times the noise, and nothing says which."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    noise = np.where(rng.random(n) < 0.2, 0.3, 0.1) * rng.normal(size=n)
    return X, X @ [1.0, 0.5] + noise


def learners(**options):
    settings = {"bases": ["linear", "fourier"], "features_per_basis": 20, "warmup": 300}
    return StreamingGPRegressor(**(settings | options))


def test_bands_hold_what_they_promise_where_no_expert_knows_the_shape():
    X, y = peaked(3_000)
    result = evaluate(learners(), X, y)
    rows = np.arange(len(y)) >= 300
    for level, allowed in ((50, 0.03), (90, 0.02), (95, 0.02)):
        assert abs(result.metrics["coverage"][str(level)] - level / 100) < allowed, (
            level,
            result.metrics["coverage"],
        )
    z = (result.mean - y)[rows] / result.std[rows]
    assert 0.8 < np.mean(z**2) < 1.25


def test_without_it_the_mean_is_the_same_and_the_middle_too_wide():
    X, y = peaked(1_500)
    with_it, without = (evaluate(learners(recalibrate=on), X, y) for on in (True, False))
    np.testing.assert_array_equal(with_it.mean, without.mean)
    assert without.metrics["coverage"]["50"] > 0.55 > with_it.metrics["coverage"]["50"]
    with pytest.raises(ValueError, match="recalibrate: expected it with the task 'regression'"):
        make_spec("default", task="count", recalibrate=True)
