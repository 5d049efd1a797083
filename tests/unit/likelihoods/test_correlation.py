"""Correlated errors: the sums by brute force, densities and conditioning by dense Gaussians and Monte Carlo."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from streamgp.likelihoods import Predictive
from streamgp.likelihoods.conditional import Conditional
from streamgp.likelihoods.correlation import (
    LEAST_EIGENVALUE,
    MEMORY,
    PRIOR_ROWS,
    Comoments,
    condition,
    correlation_matrices,
    log_copula,
    positive_definite,
    scores_of,
)
from streamgp.likelihoods.recalibration_by_spread import PRIOR
from streamgp.numerics import keys
from streamgp.numerics.precision import float64

RNG = np.random.default_rng(0)
N, E = 6, 3


@pytest.fixture(autouse=True)
def _in_float64():
    with float64():
        yield


def matrices(n: int, e: int = E) -> np.ndarray:
    root = RNG.normal(size=(n, e, e))
    cov = root @ np.swapaxes(root, 1, 2) + 0.3 * np.eye(e)
    scale = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    return cov / (scale[:, :, None] * scale[:, None, :])


def mixed(n: int = N, e: int = 2) -> Predictive:
    """Return mixtures of a Gaussian and two t's, recalibrated."""
    log_weights = np.log(RNG.dirichlet(np.full(3, 5.0), n))
    counts = np.abs(RNG.normal(size=(n, e, 6))) + PRIOR
    shares = counts / counts.sum(-1, keepdims=True)
    dof = np.tile([np.inf, 8.0, 12.0], (n, 1))
    return Predictive(
        log_weights,
        RNG.normal(size=(n, 3, e)),
        RNG.uniform(0.3, 2.0, size=(n, 3, e)),
        dof,
        recalibration=shares,
        correlation=matrices(n, e),
    )


# What is learnt


def test_sums_are_those_of_the_rows_in_which_both_targets_were_seen():
    z = np.where(RNG.random((40, E)) < 0.3, np.nan, RNG.normal(size=(40, E)))
    now, before = Comoments.none(E).learn_rows(z)
    for at, found in ((40, now), (17, before[17]), (0, before[0])):
        for i in range(E):
            for j in range(E):
                pairs = [(a, b) for a, b in z[:at, [i, j]] if np.isfinite(a) and np.isfinite(b)]
                ages = MEMORY ** np.arange(len(pairs))[::-1]
                first, second = np.reshape(pairs, (-1, 2)).T
                prior = PRIOR_ROWS * MEMORY ** len(pairs)
                expected = ages.sum(), (ages * first**2).sum() + prior, (ages * first * second).sum()
                np.testing.assert_allclose([a[i, j] for a in found], expected, rtol=1e-12, atol=1e-12)


def test_a_row_with_one_target_seen_teaches_no_pair():
    known = Comoments.none(2).learn_rows(RNG.normal(size=(30, 2)))[0]
    after = known.learn(np.array([3.0, np.nan]))
    for name in ("rows", "products"):
        assert getattr(after, name)[0, 1] == getattr(known, name)[0, 1]
    np.testing.assert_array_equal(*(correlation_matrices([each]) for each in (known, after)))


@pytest.mark.parametrize("r", [0.0, 0.4, -0.9, 0.99])
def test_the_correlation_of_scores_is_found(r: float):
    z = RNG.multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]], size=3000)
    now, before = Comoments.none(2).learn_rows(z)
    effective = (1.0 + MEMORY) / (1.0 - MEMORY)
    error = (1.0 - r * r) / np.sqrt(effective)
    assert abs(correlation_matrices([now])[0, 0, 1] - r) < 5.0 * error
    gained = log_copula(correlation_matrices(before), z)
    best = log_copula(np.tile(np.array([[1.0, r], [r, 1.0]]), (len(z), 1, 1)), z)
    assert (best - gained)[1000:].mean() < 2e-3 + 4.0 * (best - gained)[1000:].std() / np.sqrt(2000)


def test_few_rows_say_little():
    for z in ([[2.0, 2.0]], [[1.0, -1.0], [1.0, -1.0]]):
        now, _ = Comoments.none(2).learn_rows(np.array(z))
        assert abs(correlation_matrices([now])[0, 0, 1]) < 0.15


def test_matrices_of_pairs_that_contradict_each_other_become_positive_definite():
    odd = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    good = matrices(1)[0]
    mended, kept = positive_definite(np.stack([odd, good]))
    assert np.linalg.eigvalsh(mended)[0] > 0.5 * LEAST_EIGENVALUE
    np.testing.assert_array_equal(np.diagonal(mended), 1.0)
    np.testing.assert_allclose(mended, mended.T, rtol=0)
    assert (np.sign(mended) == np.sign(odd)).all()
    np.testing.assert_array_equal(kept, good)


# Densities


def test_the_copula_is_the_ratio_of_dense_gaussians():
    r, z = matrices(N), RNG.normal(size=(N, E))
    dense = [multivariate_normal.logpdf(z[i], cov=r[i]) - norm.logpdf(z[i]).sum() for i in range(N)]
    np.testing.assert_allclose(log_copula(r, z), dense, rtol=1e-10, atol=1e-12)


def test_the_joint_density_integrates_to_one_and_keeps_the_marginals():
    p = mixed(2)
    grid = np.linspace(-15.0, 15.0, 301)
    each = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    one = jax.tree.map(lambda a: np.repeat(a[:1], len(each), axis=0), p)
    joint = np.exp(one.joint_log_density(each)).reshape(len(grid), -1)
    step = grid[1] - grid[0]
    assert abs(joint.sum() * step**2 - 1.0) < 1e-3
    alone = jax.tree.map(lambda a: np.repeat(a[:1], len(grid), axis=0), p)
    own = np.exp(alone.marginal_log_density(np.stack([grid, grid], axis=1)))
    np.testing.assert_allclose(joint.sum(1) * step, own[:, 0], atol=2e-3 * own.max())
    np.testing.assert_allclose(joint.sum(0) * step, own[:, 1], atol=2e-3 * own.max())


def test_a_marginal_density_is_that_of_its_output_alone():
    p = mixed()
    y = RNG.normal(size=(N, 2))
    for e in range(2):
        only = slice(e, e + 1)
        alone = Predictive(
            p.log_weights, p.loc[..., only], p.var[..., only], p.dof, recalibration=p.recalibration[:, only]
        )
        np.testing.assert_allclose(
            p.marginal_log_density(y)[:, e], alone.log_density(y[:, only]), rtol=1e-11, atol=1e-12
        )


# Conditioning


def test_conditioning_is_that_of_a_dense_gaussian():
    r = matrices(N)
    mean, std = 5.0 * RNG.normal(size=(N, E)), RNG.uniform(0.1, 3.0, size=(N, E))
    p = Predictive(np.zeros((N, 1)), mean[:, None], np.square(std)[:, None], correlation=r)
    y = mean + std * RNG.uniform(-2.0, 2.0, size=(N, E))
    known = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 1]], bool)
    found = Conditional(p, np.where(known, y, np.nan))
    parts = found.mean, found.std, found.quantile(0.05), found.cdf(y)
    for i, k in enumerate(known):
        cov = r[i] * np.outer(std[i], std[i])
        f = ~k
        gain = cov[np.ix_(f, k)] @ np.linalg.inv(cov[np.ix_(k, k)])
        m, v = mean[i, f] + gain @ (y[i] - mean[i])[k], cov[np.ix_(f, f)] - gain @ cov[np.ix_(k, f)]
        s = np.sqrt(np.diag(v))
        dense = m, s, norm.ppf(0.05, m, s), norm.cdf(y[i, f], m, s)
        for part, expected in zip(parts, dense, strict=True):
            np.testing.assert_allclose(part[i, f], expected, rtol=1e-9, atol=1e-9)
        joint = multivariate_normal.logpdf(y[i, f], m, v) if f.any() else 0.0
        np.testing.assert_allclose(found.log_density(y)[i], joint, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(found.mean[i, k], y[i, k])
        np.testing.assert_array_equal(found.std[i, k], 0.0)


def test_conditioning_a_mixture_is_what_draws_near_the_known_value_show():
    p = mixed(1)
    p = Predictive(
        *jax.tree.leaves(p)[:4], recalibration=p.recalibration, correlation=np.array([[[1, 0.7], [0.7, 1]]])
    )
    given = np.array([[p.mean[0, 0] + 0.8, np.nan]])
    found = Conditional(p, given)
    # Draws of the whole joint distribution, by its definition; those near the known value stand for the conditional.
    z = RNG.normal(size=(400_000, 1, 2)) @ np.linalg.cholesky(p.correlation[0]).T
    width = 0.02
    u = norm.cdf(z[:, 0, 0])
    low, high = (float(p.cdf(given + each)[0, 0]) for each in (-width, width))
    near = z[(u > low) & (u < high)][:, :, 1]
    padded = np.stack([np.zeros_like(near), near], axis=-1)
    draws = p.at_scores(padded)[:, 0, 1]
    error = draws.std() / np.sqrt(len(draws))
    assert len(draws) > 2000
    assert abs(found.mean[0, 1] - draws.mean()) < 4.0 * error + 0.5 * width
    assert abs(found.std[0, 1] / draws.std() - 1.0) < 0.08
    for q in (0.1, 0.5, 0.9):
        assert abs((draws < found.quantile(q)[0, 1]).mean() - q) < 4.0 * np.sqrt(q * (1 - q) / len(draws)) + 0.01
    np.testing.assert_allclose(found.cdf(found.quantile(0.3))[0, 1], 0.3, atol=1e-8)


def test_the_density_of_the_missing_is_the_joint_over_that_of_the_known():
    p = mixed()
    y = RNG.normal(size=(N, 2))
    known = np.tile([True, False], (N, 1))
    chained = p.marginal_log_density(y)[:, 0] + Conditional(p, np.where(known, y, np.nan)).log_density(y)
    np.testing.assert_allclose(chained, p.joint_log_density(y), rtol=1e-9, atol=1e-9)


def test_without_a_known_target_all_is_as_before():
    p = mixed()
    nothing = Conditional(p, np.full((N, 2), np.nan))
    np.testing.assert_array_equal(nothing.mean, p.mean)
    np.testing.assert_allclose(nothing.std, p.std, rtol=1e-15)
    np.testing.assert_allclose(nothing.quantile(0.2), p.quantile(0.2), rtol=1e-9)
    mean, cov = condition(p.correlation, np.zeros((N, 2)), np.zeros((N, 2), bool))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(cov, p.correlation)


def test_draws_are_correlated_and_keep_what_is_known():
    p = mixed()
    draws = np.asarray(p.sample(keys.key(1), (1000,)))
    np.testing.assert_allclose(draws.mean(0), p.mean, atol=5.0 * p.std.max() / np.sqrt(1000))
    many = jax.tree.map(lambda a: np.concatenate([a] * 1000), p)
    z = norm.ppf(many.cdf(draws.reshape(-1, 2))).reshape(draws.shape)
    for i in range(N):
        assert abs(np.corrcoef(z[:, i].T)[0, 1] - p.correlation[i, 0, 1]) < 5.0 / np.sqrt(1000)
    given = np.stack([p.mean[:, 0], np.full(N, np.nan)], axis=1)
    found = Conditional(p, given)
    some = np.asarray(found.sample(keys.key(2), (1000,)))
    np.testing.assert_array_equal(some[:, :, 0], np.tile(given[:, 0], (1000, 1)))
    np.testing.assert_allclose(some[:, :, 1].mean(0), found.mean[:, 1], atol=5.0 * found.std.max() / np.sqrt(1000))


def test_scores_are_bounded_and_nan_stays():
    found = scores_of(np.array([[0.0, 1.0, 0.5, np.nan]]))
    np.testing.assert_array_equal(found, [[-4.0, 4.0, 0.0, np.nan]])
