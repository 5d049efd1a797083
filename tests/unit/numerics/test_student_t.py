"""Student's t by its mean and variance, and mixtures of it: SciPy and quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from streamgp.likelihoods import Predictive
from streamgp.numerics import keys, student_t

DOFS = [5.0, 7.3, 10.0, 20.0, 101.0, 1e4, 1e7, np.inf]


def reference(dof: float, var: float = 1.0, loc: float = 0.0):
    if np.isinf(dof):
        return stats.norm(loc, np.sqrt(var))
    return stats.t(dof, loc, np.sqrt(var * (dof - 2.0) / dof))


@pytest.mark.parametrize("dof", DOFS)
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_log_density(dof, array):
    residual, var = np.linspace(-30.0, 30.0, 41), 2.5
    got = student_t.log_density(array(residual), array(np.full(41, var)), array(np.full(41, dof)))
    # SciPy's difference of two log gamma functions loses digits of its own.
    np.testing.assert_allclose(got, reference(dof, var).logpdf(residual), rtol=1e-9 if dof > 1e3 else 1e-11)


@pytest.mark.parametrize("dof", DOFS)
def test_distribution_function(dof):
    z = np.linspace(-10.0, 10.0, 401)
    want = stats.norm.cdf(z) if np.isinf(dof) else stats.t.cdf(z, dof)
    error = np.abs(student_t.cdf(jnp.asarray(z), jnp.asarray(dof)) - want).max()
    assert error < (2e-7 if dof < 10.0 else 5e-10 if dof < 20.0 else 1.1e-11)


@pytest.mark.parametrize("dof", DOFS)
@pytest.mark.parametrize("mean", [0.0, 0.4, -3.0])
def test_expected_distance(dof, mean):
    var = 1.7
    x = reference(dof, var, mean)
    # E|X| is the integral of Pr(X > t) + Pr(X < -t) over t > 0.
    want = integrate.quad(lambda t: x.sf(t) + x.cdf(-t), 0.0, np.inf, epsabs=1e-12)[0]
    scale2 = var if np.isinf(dof) else var * (1.0 - 2.0 / dof)
    # The distance of x from zero.
    at = np.asarray([-mean]), np.asarray([scale2]), None if np.isinf(dof) else np.asarray([dof])
    got = student_t.expected_distance(*at, np.asarray([x.pdf(0.0)]), np.asarray([x.cdf(0.0)]))
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("count", [149, 1481])  # few numbers in NumPy go another way
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_standard_normal(array, count):
    z = np.append(np.linspace(-37.0, 37.0, count), [-np.inf, np.inf])
    got = np.asarray(student_t.ndtr(array(z)))
    np.testing.assert_allclose(got, stats.norm.cdf(z), atol=1e-14)
    # Its tails keep their digits.
    np.testing.assert_allclose(got[z < 0.0], stats.norm.cdf(z[z < 0.0]), rtol=1e-9)
    density, tail = map(np.asarray, student_t.upper_tail(array(np.abs(z))))
    np.testing.assert_allclose(density, stats.norm.pdf(z), rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(tail, stats.norm.sf(np.abs(z)), rtol=1e-9)
    single = np.asarray(student_t.ndtr(array(z.astype(np.float32))))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, stats.norm.cdf(z), atol=3e-7)


@pytest.mark.parametrize("dof", DOFS)
def test_moments_of_the_random_spread(dof):
    power = np.arange(-3, 3)
    if np.isinf(dof):
        want = np.ones(6)
    else:
        # The variance of a t is that of the reciprocal of a Gamma variable.
        gamma = stats.gamma(0.5 * dof)
        size = np.sqrt(0.5 * dof - 1.0)
        want = [size**j * gamma.expect(lambda g, j=j: g ** (-0.5 * j)) if dof < 1e3 else np.nan for j in power]
    finite = np.asarray([min(dof, 1e20)])
    got = np.concatenate(student_t.std_moments(finite, student_t.log_gamma_ratio(0.5 * finite)))
    if np.isfinite(want).all():
        np.testing.assert_allclose(got, want, rtol=1e-8)
    else:
        np.testing.assert_allclose(got, 1.0, atol=10.0 / dof)


LOG_WEIGHTS = np.log([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])
LOC = np.array([[[0.0], [1.0], [-2.0]], [[0.3], [0.1], [5.0]]])
VAR = np.array([[[1.0], [0.3], [2.0]], [[0.5], [0.04], [1.0]]])
DOF = np.array([[6.0, np.inf, 30.0], [10.0, 10.0, 200.0]])


@pytest.fixture
def mixture() -> Predictive:
    return Predictive(LOG_WEIGHTS, LOC, VAR, DOF)


def one_by_one(what: str, y: np.ndarray) -> np.ndarray:
    """A density or distribution function of the mixture, by SciPy, of each row at its own y."""
    each = [
        [getattr(reference(DOF[n, k], VAR[n, k, 0], LOC[n, k, 0]), what)(y[n]) for k in range(3)] for n in range(2)
    ]
    return (np.exp(LOG_WEIGHTS) * np.asarray(each)).sum(1)


def test_a_mixture_of_t_and_gaussians(mixture):
    y = np.array([0.7, -0.2])
    np.testing.assert_allclose(np.exp(mixture.log_density(y[:, None])), one_by_one("pdf", y), rtol=1e-11)
    np.testing.assert_allclose(mixture.cdf(y[:, None])[:, 0], one_by_one("cdf", y), atol=1e-7)
    for moment, got in ((1, mixture.mean), (2, mixture.variance + mixture.mean**2)):
        for n in range(2):
            parts = [reference(DOF[n, k], VAR[n, k, 0], LOC[n, k, 0]).moment(moment) for k in range(3)]
            np.testing.assert_allclose(got[n, 0], np.exp(LOG_WEIGHTS[n]) @ parts, rtol=1e-10)


@pytest.mark.parametrize("probability", [1e-4, 0.05, 0.5, 0.95, 0.9999])
def test_quantiles_solve_the_distribution(mixture, probability):
    got = np.asarray(mixture.quantile(probability))[:, 0]
    np.testing.assert_allclose(one_by_one("cdf", got), probability, atol=1e-7)


def test_samples_follow_the_distribution(mixture):
    draws = np.asarray(mixture.sample(keys.key(0), (20_000,)))[:, :, 0]
    for n in range(2):
        at = np.sort(draws[:, n])[::200]
        parts = [reference(DOF[n, k], VAR[n, k, 0], LOC[n, k, 0]).cdf(at) for k in range(3)]
        empirical = np.searchsorted(np.sort(draws[:, n]), at, side="right") / len(draws)
        assert np.abs(empirical - np.exp(LOG_WEIGHTS[n]) @ parts).max() < 1.63 / np.sqrt(len(draws))  # Kolmogorov, 1%
