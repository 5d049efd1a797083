"""Scores of mixtures of Student's t against SciPy and quadrature, and of NumPy's against JAX's."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq

from streamgp.likelihoods import Predictive
from streamgp.numerics import crps

NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
STEPS = np.concatenate([-np.geomspace(1e-2, 1e3, 24)[::-1], [0.0], np.geomspace(1e-2, 1e3, 24)])


def distribution(p: Predictive, row: int, x: np.ndarray, upper: bool = False) -> np.ndarray:
    """Of one output's mixture, or what is left above x, by SciPy."""
    total = np.zeros(np.shape(x))
    for k, weight in enumerate(np.exp(p.log_weights[row])):
        dof = np.inf if p.dof is None else p.dof[row, k]
        t = (x - p.loc[row, k, 0]) / np.sqrt(p.var[row, k, 0] * (1.0 - 2.0 / dof))
        t = -t if upper else t
        total += weight * (special.ndtr(t) if np.isinf(dof) else special.stdtr(dof, t))
    return total


def quadrature(p: Predictive, row: int, y: float | None = None) -> float:
    """The CRPS at y, or half the mean distance of two draws: the integral of (F - [x > y])^2, or of F (1 - F)."""
    sd = np.sqrt(p.var[row, :, 0])
    points = (p.loc[row, :, 0] + sd * STEPS[:, None]).ravel()
    points = np.unique(np.append(points, [] if y is None else [y]))
    half = 0.5 * np.diff(points)
    x = 0.5 * (points[1:] + points[:-1])[:, None] + half[:, None] * NODES
    below, above = distribution(p, row, x), distribution(p, row, x, upper=True)
    inside = below * above if y is None else np.where(x > y, above, below) ** 2
    return float(np.sum(half[:, None] * WEIGHTS * inside))


def one_row(weights: list, loc: list, sd: list, dof: list) -> Predictive:
    column = np.asarray(loc, float)[None, :, None], np.square(np.asarray(sd, float))[None, :, None]
    return Predictive(np.log(np.asarray([weights])), *column, np.asarray([dof], float))


def error(p: Predictive, y: float) -> float:
    """The CRPS over the quadrature, less one."""
    return float(p.crps(np.asarray([[y]]))[0, 0]) / quadrature(p, 0, y) - 1.0


@pytest.mark.parametrize(("dof", "allowed"), [(5.0, 4e-4), (6.0, 2e-4), (10.0, 4e-5), (100.0, 1e-6), (np.inf, 1e-8)])
@pytest.mark.parametrize("y", [0.0, 0.8, -3.0, 12.0])
def test_crps_of_a_single_t(dof, allowed, y):
    p = one_row([1.0], [0.3], [1.7], [dof])
    assert abs(error(p, 0.3 + 1.7 * y)) < allowed


@pytest.mark.parametrize(("dof", "alike", "unlike"), [(5.0, 1e-3, 7e-3), (6.0, 1e-3, 4e-3), (10.0, 5e-4, 7e-4)])
@pytest.mark.parametrize("apart", [0.0, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("heavier", [False, True])
def test_crps_of_two(dof, alike, unlike, apart, heavier):
    other = dof if heavier else np.inf
    for scale, allowed in ((0.01, unlike), (1.0, alike)):
        for weight in (0.1, 0.9):
            p = one_row([weight, 1.0 - weight], [0.0, apart], [1.0, scale], [dof, other])
            assert abs(error(p, apart + 0.5 * scale)) < allowed


def experts(n: int, filters: int, concentration: float) -> Predictive:
    """Four kinds of noise for each of the filters, whose locations they share; few or many carry the weight."""
    rng = np.random.default_rng(filters)
    shape = (n, filters, 4)
    loc = np.broadcast_to(rng.normal(size=(n, filters, 1)), shape)
    var = rng.gamma(3.0, 0.2, size=(n, filters, 1)) * rng.gamma(10.0, 0.1, size=shape)
    dof = np.broadcast_to([np.inf, 1010.0, 100.0, 10.0], shape)
    weights = rng.dirichlet(np.full(4 * filters, concentration), size=n) + 1e-6
    weights /= weights.sum(1, keepdims=True)
    rest = loc.reshape(n, -1, 1).copy(), var.reshape(n, -1, 1), dof.reshape(n, -1).copy()
    return Predictive(np.log(weights), *rest)


@pytest.mark.parametrize("concentration", [0.02, 0.2, 5.0])
def test_crps_of_many_experts(concentration):
    p = experts(3, 12, concentration)
    y = p.mean + p.std * np.linspace(-2.0, 2.0, 3)[:, None]
    want = [quadrature(p, row, y[row, 0]) for row in range(3)]
    np.testing.assert_allclose(p.crps(y)[:, 0], want, rtol=1e-3)
    traced = eqx.filter_jit(lambda p, y: p.crps(y))(jax.tree.map(jnp.asarray, p), jnp.asarray(y))
    assert isinstance(traced, jax.Array)


@pytest.mark.parametrize("concentration", [0.05, 5.0])
def test_what_is_taken_together_changes_little(concentration):
    flat = experts(30, 42, concentration).flat()
    separate = crps.gaussians(flat)
    sizes, _ = crps.merged_gaussians(flat, flat.loc.shape[1])
    assert separate[0].shape[1] == 3 * 42 * 4
    assert max(sizes) < 3 * 42 * 4 / 3
    error = crps.mean_distance(flat) / crps._pairwise_distance(*separate) - 1.0
    assert 0.0 < np.abs(error).max() < 1e-3


def test_distances_are_the_same_whatever_rows_are_beside():
    """Mixtures of few and of many Gaussians are batched by size."""
    flat = experts(400, 42, 0.05).flat()
    together = crps.mean_distance(flat)
    alone = (jax.tree.map(lambda a, i=i: a[i : i + 1], flat) for i in range(400))
    each = [crps.mean_distance(one, flat.loc.shape[1]) for one in alone]
    np.testing.assert_allclose(together, np.concatenate(each), rtol=1e-6)  # in single precision


@pytest.mark.parametrize("filters", [2, 42])
def test_no_rows_have_no_scores(filters):
    none = jax.tree.map(lambda a: a[:0], experts(3, filters, 1.0))
    assert none.crps(np.zeros((0, 1))).shape == (0, 1)


def test_what_is_taken_together_under_jax(monkeypatch):
    p = jax.tree.map(jnp.asarray, experts(30, 42, 0.05))
    whole = crps.mean_distance(jax.tree.map(np.asarray, p).flat())
    np.testing.assert_allclose(jax.jit(crps.mean_distance)(p.flat()), whole, rtol=2e-3)


def test_three_gaussians_keep_the_moments():
    p = experts(5, 6, 1.0)
    weights, loc, sd = crps.gaussians(p.flat())
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose((weights * loc).sum(1), p.mean[:, 0], rtol=1e-6, atol=1e-7)
    spread = np.square(loc - p.mean) + np.square(sd)
    np.testing.assert_allclose((weights * spread).sum(1), p.variance[:, 0], rtol=1e-6)


@pytest.mark.parametrize("probability", [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-4])
@pytest.mark.parametrize("apart", [0.0, 1.5, 300.0])
@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_quantiles(probability, apart, scale):
    for weight in (0.3, 0.951, 0.5):
        p = one_row([weight, 1.0 - weight], [0.0, apart], [1.0, scale], [100.0, np.inf])
        got = float(p.quantile(probability)[0, 0])
        want = brentq(lambda x, p=p: distribution(p, 0, x) - probability, -400.0, 800.0, xtol=1e-13)
        # Where the distribution is flat, no digits of it are left to tell the places apart.
        slope = (distribution(p, 0, got + 1e-3 * scale) - distribution(p, 0, got - 1e-3 * scale)) / (2e-3 * scale)
        if slope > 1e-9:
            assert abs(got - want) < 1e-8 * p.std[0, 0] + 1e-14 / slope
        np.testing.assert_allclose(distribution(p, 0, got), probability, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dof", [5.0, 10.0, 30.0])
def test_quantiles_of_a_t(dof):
    p = one_row([1.0], [2.0], [3.0], [dof])
    for probability in (0.05, 0.5, 0.95):
        want = 2.0 + 3.0 * np.sqrt(1.0 - 2.0 / dof) * stats.t.ppf(probability, dof)
        # Hill's series is what is left of the error.
        assert abs(p.quantile(probability)[0, 0] - want) < (2e-5 if dof < 10.0 else 1e-6)


def test_numpy_and_jax_agree():
    p = experts(6, 5, 1.0)
    traced = jax.tree.map(jnp.asarray, p)
    y = p.mean + 0.3
    for name, rtol in (("crps", 3e-4), ("cdf", 1e-11), ("log_density", 1e-11), ("moment_log_density", 1e-11)):
        ours, theirs = getattr(p, name)(y), eqx.filter_jit(getattr(traced, name))(jnp.asarray(y))
        assert isinstance(ours, np.ndarray)
        assert isinstance(theirs, jax.Array)
        np.testing.assert_allclose(ours, theirs, rtol=rtol)
    several = jax.vmap(traced.quantile)(jnp.asarray([0.05, 0.5, 0.95]))
    for probability, theirs in zip((0.05, 0.5, 0.95), several, strict=True):
        np.testing.assert_allclose(p.quantile(probability), theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("filters", [2, 5, 12])
def test_rows_are_scored_each_by_itself(filters):
    p = experts(40, filters, 0.1)
    y = p.mean + 0.2
    # Quantiles of a few rows are found by the kernel, and to nine digits in either way.
    for function, close in ((lambda p, y: p.crps(y), 1e-12), (lambda p, y: p.quantile(0.9), 1e-9)):
        alone = [function(jax.tree.map(lambda a, i=i: a[i : i + 1], p), y[i : i + 1]) for i in range(40)]
        np.testing.assert_allclose(np.concatenate(alone), function(p, y), rtol=close)


def test_a_far_wide_component_of_little_weight_does_not_cost_the_others_their_digits():
    near = experts(4, 12, 1.0)
    far = Predictive(
        np.concatenate([near.log_weights, np.full((4, 1), -50.0)], axis=1),
        np.concatenate([near.loc, np.full((4, 1, 1), 1e7)], axis=1),
        np.concatenate([near.var, np.full((4, 1, 1), 1e12)], axis=1),
        np.concatenate([near.dof, np.full((4, 1), 10.0)], axis=1),
    )
    y = near.mean
    np.testing.assert_allclose(far.crps(y), near.crps(y), rtol=1e-5)
    np.testing.assert_allclose(far.quantile(0.1), near.quantile(0.1), rtol=1e-8)


def test_quantiles_where_single_precision_has_no_place_for_a_component():
    """The search that begins in single precision cannot see a spread of 1e-50, and must not lose its way."""
    p = one_row([0.6, 0.4], [0.0, 1.0], [1e-50, 1.0], [np.inf, np.inf])
    for probability in (0.3, 0.05, 0.95):
        got = float(p.quantile(probability)[0, 0])
        below = (distribution(p, 0, got - 1e-9), distribution(p, 0, got + 1e-9))
        assert below[0] <= probability <= below[1]


def test_crps_is_a_number_and_not_negative_for_absurd_targets_and_exact_ones():
    rng = np.random.default_rng(5)
    loc = rng.normal(size=(6, 60, 1)) * np.array([1.0, 1e-9, 1e-30, 1e30, 1e15, 0.0])[:, None, None]
    var = np.exp(rng.uniform(-60.0, 3.0, size=(6, 60, 1)))
    log_weights = np.log(rng.dirichlet(np.full(60, 0.3), 6))
    p = Predictive(log_weights, loc, var, np.full((6, 60), 10.0))
    for y in (p.mean, p.quantile(0.5), p.mean + 1e30):
        crps = p.crps(y)
        assert np.isfinite(crps).all()
        assert (crps >= 0.0).all()
