"""The mixture predictive against scipy, quadrature and Monte Carlo."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from streamgp.likelihoods import Predictive
from streamgp.numerics import keys

N, K, E = 4, 3, 2
WEIGHTS = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.25, 0.75], [1 / 3, 1 / 3, 1 / 3]])
LOC = np.random.default_rng(0).normal(0.0, 2.0, (N, K, E))
VAR = np.random.default_rng(1).uniform(0.01, 2.0, (N, K, E))
Y = np.random.default_rng(2).normal(0.0, 2.0, (N, E))
CELLS = [(i, e) for i in range(N) for e in range(E)]


@pytest.fixture
def predictive() -> Predictive:
    with np.errstate(divide="ignore"):
        return Predictive(jnp.asarray(np.log(WEIGHTS)), jnp.asarray(LOC), jnp.asarray(VAR))


@eqx.filter_jit
def everything(p: Predictive, y: jax.Array, probability: float) -> list[jax.Array]:
    parts = [p.mean, p.variance, p.log_density(y), p.cdf(y), p.quantile(probability), p.crps(y)]
    return [part.ravel() for part in parts]


def density(i: int, e: int, y: float) -> float:
    return float(WEIGHTS[i] @ norm.pdf(y, LOC[i, :, e], np.sqrt(VAR[i, :, e])))


def distribution(i: int, e: int, y: float) -> float:
    return float(WEIGHTS[i] @ norm.cdf(y, LOC[i, :, e], np.sqrt(VAR[i, :, e])))


def integral(i: int, e: int, function) -> float:
    """Of function times density over the real line, with the components' neighbourhoods as break points."""
    sd = np.sqrt(VAR[i, :, e])
    points = np.sort(np.concatenate([LOC[i, :, e] + c * sd for c in (-10.0, -3.0, 0.0, 3.0, 10.0)]))
    parts = [quad(lambda y: function(y) * density(i, e, y), a, b, epsabs=1e-12)[0] for a, b in pairwise(points)]
    return float(np.sum(parts))


def test_moments_by_quadrature(predictive):
    for i, e in CELLS:
        mean = integral(i, e, lambda y: y)
        variance = integral(i, e, lambda y, mean=mean: (y - mean) ** 2)
        np.testing.assert_allclose(predictive.mean[i, e], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(predictive.variance[i, e], variance, rtol=1e-9)
        np.testing.assert_allclose(predictive.std[i, e], np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(predictive.weights, WEIGHTS, rtol=1e-14)


def test_log_densities_are_joint_over_the_outputs(predictive):
    each = norm.logpdf(Y[:, None, :], LOC, np.sqrt(VAR)).sum(-1)
    np.testing.assert_allclose(predictive.component_log_density(Y), each, rtol=1e-12)
    np.testing.assert_allclose(predictive.log_density(Y), logsumexp(each, b=WEIGHTS, axis=1), rtol=1e-12)
    moment = norm.logpdf(Y, predictive.mean, predictive.std).sum(-1)
    np.testing.assert_allclose(predictive.moment_log_density(Y), moment, rtol=1e-12)


def test_far_away_targets_have_a_finite_log_density(predictive):
    far = jnp.full((N, E), 1e4)
    assert np.isfinite(predictive.log_density(far)).all()
    assert (predictive.log_density(far) < -1e6).all()


def test_cdf(predictive):
    want = [[distribution(i, e, Y[i, e]) for e in range(E)] for i in range(N)]
    np.testing.assert_allclose(predictive.cdf(Y), want, rtol=1e-12)


@pytest.mark.parametrize("probability", [1e-6, 0.025, 0.5, 0.9, 1.0 - 1e-6])
def test_quantiles_solve_the_distribution(predictive, probability):
    got = predictive.quantile(probability)
    for i, e in CELLS:
        want = brentq(lambda y, i=i, e=e: distribution(i, e, y) - probability, -30, 30, xtol=1e-13)
        np.testing.assert_allclose(got[i, e], want, rtol=1e-9, atol=1e-9)


def test_quantiles_in_the_gap_between_two_far_components():
    # The density between the components is zero to machine precision: Newton's method alone would fly off.
    p = Predictive(jnp.log(jnp.asarray([[0.3, 0.7]])), jnp.asarray([[[-1e3], [1e3]]]), jnp.full((1, 2, 1), 1e-2))
    for probability in (0.1, 0.299, 0.301, 0.9):
        part = probability / 0.3 if probability < 0.3 else (probability - 0.3) / 0.7
        want = (-1e3 if probability < 0.3 else 1e3) + 0.1 * norm.ppf(part)
        np.testing.assert_allclose(p.quantile(probability), [[want]], rtol=1e-9)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_everything_keeps_the_precision_it_is_given(predictive, precision):
    with jax.enable_x64(precision == "float64"):
        p = jax.tree.map(lambda a: a.astype(precision), predictive)
        for value in everything(p, jnp.asarray(Y, precision), 0.3):
            assert value.dtype == precision
            assert np.isfinite(value).all()


def test_crps_by_quadrature(predictive):
    got = predictive.crps(Y)
    for i, e in CELLS:
        low = quad(lambda x, i=i, e=e: distribution(i, e, x) ** 2, -30, Y[i, e], limit=400, epsabs=1e-11)[0]
        high = quad(lambda x, i=i, e=e: (1 - distribution(i, e, x)) ** 2, Y[i, e], 30, limit=400, epsabs=1e-11)[0]
        np.testing.assert_allclose(got[i, e], low + high, rtol=1e-7)


def test_samples_follow_the_distribution(predictive):
    draws = np.asarray(predictive.sample(keys.key(3), (4000,)))
    assert draws.shape == (4000, N, E)
    assert predictive.sample(keys.key(3)).shape == (N, E)
    for i, e in CELLS:
        result = kstest(draws[:, i, e], np.vectorize(lambda y, i=i, e=e: distribution(i, e, y)))
        assert result.pvalue > 1e-4
    error = draws.mean(0) - np.asarray(predictive.mean)
    assert (np.abs(error) < 5 * np.asarray(predictive.std) / np.sqrt(4000)).all()


def test_both_outputs_of_a_draw_come_from_one_component():
    loc = jnp.asarray([[[-50.0, -50.0], [50.0, 50.0]]])
    p = Predictive(jnp.log(jnp.full((1, 2), 0.5)), loc, jnp.ones((1, 2, 2)))
    draws = np.sign(p.sample(keys.key(0), (200,)))
    np.testing.assert_array_equal(draws[..., 0], draws[..., 1])
    assert 50 < (draws[..., 0] > 0).sum() < 150


def test_a_component_that_is_switched_off_takes_no_part():
    log_weights, loc = jnp.asarray([[0.0, -jnp.inf]]), jnp.asarray([[[1.5], [-1e9]]])
    off = Predictive(log_weights, loc, jnp.asarray([[[0.3], [1e9]]]))
    z = (2.0 - 1.5) / np.sqrt(0.3)
    # The closed form of one Gaussian (Gneiting and Raftery 2007, Eq. 21).
    crps = np.sqrt(0.3) * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    want = [1.5, 0.3, norm.logpdf(2.0, 1.5, np.sqrt(0.3)), norm.cdf(z), norm.ppf(0.2, 1.5, np.sqrt(0.3)), crps]
    np.testing.assert_allclose(np.ravel(everything(off, jnp.asarray([[2.0]]), 0.2)), want, rtol=1e-10)


def test_numpy_arrays_will_do(predictive):
    p = jax.tree.map(np.asarray, predictive)
    for ours, traced in zip(
        everything.__wrapped__(p, Y, 0.4), everything(predictive, jnp.asarray(Y), 0.4), strict=True
    ):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, traced, rtol=1e-10, atol=1e-12)
