"""Student's t around the latent value: derivatives, the mixture's integral, and outliers."""

import numpy as np
import pytest
from scipy import stats

from oracles.latent import log_integral
from streamgp.likelihoods import StudentT, laplace_step


def student(dof):
    return StudentT(np.asarray(0.2), np.asarray(0.5), np.asarray(dof))


def predict(likelihood, y, var):
    at = y, np.zeros(1), var[None, None]
    return likelihood.log_predictive(*at), likelihood.cdf(*at)


@pytest.mark.parametrize("residual", [0.0, 0.4, -3.0, 100.0])
def test_derivatives(residual):
    dof, scale = 4.0, 0.5
    at = np.asarray([-0.2 - residual]), np.asarray(0.0)
    np.testing.assert_allclose(student(dof).log_prob(*at), stats.t.logpdf(residual, dof, 0.0, scale), rtol=1e-12)
    _, gradient, precision = student(dof).expand(*at)
    bottom = dof * scale**2 + residual**2
    np.testing.assert_allclose(gradient[0], (dof + 1.0) * residual / bottom, rtol=1e-12)
    want = (dof + 1.0) * (dof * scale**2 - residual**2) / bottom**2
    np.testing.assert_allclose(precision[0, 0], want, rtol=1e-11)


@pytest.mark.parametrize("dof", [2.5, 4.0, 30.0])
def test_predictions_against_brute_force(dof):
    for y in (0.2, 0.5, 3.0, 30.0, 1e4):
        for var in (1e-12, 1e-3, 1.0, 100.0, 1e8):
            log_p, below = predict(student(dof), np.asarray(y), np.asarray(var))
            want = log_integral(lambda f, y=y: stats.t.logpdf(y - f - 0.2, dof, 0.0, 0.5), 0.0, var, y - 0.2)
            np.testing.assert_allclose(log_p, want, rtol=1e-12, atol=1e-12)
            with np.errstate(divide="ignore"):
                want = log_integral(lambda f, y=y: stats.t.logcdf(y - f - 0.2, dof, 0.0, 0.5), 0.0, var, y - 0.2)
            np.testing.assert_allclose(below, np.exp(want), atol=1e-12)


def test_far_outliers_are_ignored():
    step = lambda y: laplace_step(student(4.0), y, np.zeros(1), np.ones((1, 1)))  # noqa: E731
    moved, shrunk = [], []
    for y in (0.5, 3.0, 30.0, 1e3, 1e6):
        shift, shrink = step(np.asarray(y))
        moved.append(float(shift[0]))
        shrunk.append(float(shrink[0, 0]))
    assert moved[0] > 0.1 and shrunk[0] > 0.5
    # A target at distance y pulls like (dof + 1) / y.
    np.testing.assert_allclose(moved[2:], 5.0 / np.array([30.0, 1e3, 1e6]), rtol=0.05)
    assert shrunk[2:] == [0.0, 0.0, 0.0]


def test_moments_and_where_it_begins():
    mean, var = student(5.0).moments(np.asarray([1.0]), np.asarray([[0.7]]))
    np.testing.assert_allclose([mean, var], [1.2, 0.7 + stats.t(5.0, 0.0, 0.5).var()], rtol=1e-12)
    assert np.isinf(student(1.5).moments(np.asarray([1.0]), np.asarray([[0.7]]))[1])
    y = np.append(np.random.default_rng(0).normal(3.0, 2.0, size=999), 1e9)
    likelihood = StudentT.from_targets(y)
    assert abs(float(likelihood.intercept) - 3.0) < 0.4 and abs(float(likelihood.scale) - 2.0) < 0.4
    assert float(StudentT.from_targets(np.zeros(4)).scale) == 1.0
