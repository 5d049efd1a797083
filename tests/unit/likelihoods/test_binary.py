"""Labels of two classes: closed-form derivatives, and predictions against brute-force integrals."""

import numpy as np
import pytest
from scipy.special import expit, log_ndtr
from scipy.stats import norm

from oracles.latent import log_integral
from streamgp.likelihoods import Logistic, Probit
from streamgp.likelihoods.quadrature import log_logistic_normal

MEANS = [-1000.0, -100.0, -30.0, -8.0, -2.5, -0.3, 0.0, 1e-6, 0.7, 3.0, 12.0, 1000.0]
VARIANCES = [1e-12, 1e-6, 1e-2, 0.3, 1.0, 3.0, 9.0, 40.0, 300.0, 1e4, 1e8]


def predict(likelihood, loc, cov):
    return likelihood.log_probabilities(loc, cov)


def log_sigmoid(f):
    return -np.logaddexp(0.0, -f)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_derivatives(y):
    f = np.linspace(-6.0, 6.0, 25)
    p = expit(f + 0.4)
    _, gradient, precision = Logistic(np.asarray(0.4)).expand(f[:, None], np.asarray(y))
    np.testing.assert_allclose(gradient[:, 0], y - p, rtol=1e-12)
    np.testing.assert_allclose(precision[:, 0, 0], p * (1.0 - p), rtol=1e-12)
    # Rasmussen and Williams (2006), Eq. 3.16.
    sign = 2.0 * y - 1.0
    hazard = norm.pdf(f + 0.4) / norm.cdf(sign * (f + 0.4))
    _, gradient, precision = Probit(np.asarray(0.4)).expand(f[:, None], np.asarray(y))
    np.testing.assert_allclose(gradient[:, 0], sign * hazard, rtol=1e-11)
    np.testing.assert_allclose(precision[:, 0, 0], hazard * (hazard + sign * (f + 0.4)), rtol=1e-9)


def test_the_logistic_integral_has_13_digits():
    mean, var = (a.ravel() for a in np.meshgrid(MEANS, VARIANCES))
    got = log_logistic_normal(mean, var)
    one = [log_integral(log_sigmoid, a, s) for a, s in zip(mean, var, strict=True)]
    zero = [log_integral(lambda f: log_sigmoid(-f), a, s) for a, s in zip(mean, var, strict=True)]
    # In the logs: 1e-13 of a probability, however small, unless the log itself has no more digits.
    np.testing.assert_allclose(got[:, 1], one, atol=1e-13, rtol=1e-14)
    np.testing.assert_allclose(got[:, 0], zero, atol=1e-13, rtol=1e-14)


def test_the_probit_prediction():
    likelihood = Probit(np.asarray(0.4))
    for loc, var in ((0.3, 1e-9), (-2.0, 1.0), (5.0, 40.0), (-40.0, 3.0)):
        got = predict(likelihood, np.array([loc]), np.array([[var]]))
        want = [log_integral(lambda f, sign=sign: log_ndtr(sign * (f + 0.4)), loc, var) for sign in (-1.0, 1.0)]
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", [Logistic, Probit])
def test_extremes_are_finite(kind):
    likelihood = kind(np.asarray(0.4))
    for loc in (-1e3, 0.0, 1e3):
        for var in (0.0, 1e-12, 1.0, 1e8):
            at = np.array([loc]), np.array([[var]])
            log_p = np.asarray(predict(likelihood, *at))
            assert np.isfinite(log_p).all() and (log_p <= 0.0).all()
            np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-14)


@pytest.mark.parametrize("kind", [Logistic, Probit])
@pytest.mark.parametrize("ones", [0, 3, 10])
def test_the_intercept_begins_at_the_share_of_ones(kind, ones):
    likelihood = kind.from_targets(np.repeat([1.0, 0.0], [ones, 10 - ones]))
    p = np.exp(likelihood.log_prob(np.zeros(1), np.asarray(1.0)))
    np.testing.assert_allclose(p, (ones + 0.5) / 11.0, rtol=1e-12)
