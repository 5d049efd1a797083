"""Grades: the cumulative probit against closed forms and brute-force integrals."""

import numpy as np
import pytest
from scipy import stats

from oracles.latent import log_integral
from streamgp.likelihoods import Ordinal

THRESHOLDS = np.array([-1.0, -0.3, 1.2])


def ordinal():
    return Ordinal(np.asarray(THRESHOLDS[0]), np.asarray(np.diff(THRESHOLDS)))


def predict(likelihood, loc, cov):
    return likelihood.log_probabilities(loc, cov)


@pytest.mark.parametrize("f", [-3.0, 0.1, 2.0])
def test_probabilities_and_derivatives(f):
    ends = np.concatenate([[-np.inf], THRESHOLDS, [np.inf]]) - f
    p, density = np.diff(stats.norm.cdf(ends)), np.diff(stats.norm.pdf(ends))
    bend = np.diff(np.nan_to_num(ends) * stats.norm.pdf(ends))
    for y in range(4):
        at = np.array([f]), np.asarray(float(y))
        np.testing.assert_allclose(np.exp(ordinal().log_prob(*at)), p[y], rtol=1e-10)
        _, gradient, precision = ordinal().expand(*at)
        np.testing.assert_allclose(gradient[0], -density[y] / p[y], rtol=1e-9)
        np.testing.assert_allclose(precision[0, 0], bend[y] / p[y] + (density[y] / p[y]) ** 2, rtol=1e-8)


@pytest.mark.parametrize("var", [1e-9, 1.0, 30.0])
def test_predictions_are_exact(var):
    got = predict(ordinal(), np.asarray([0.4]), np.asarray([[var]]))
    for y, (low, high) in enumerate(zip([-np.inf, *THRESHOLDS], [*THRESHOLDS, np.inf], strict=True)):
        with np.errstate(divide="ignore"):
            want = log_integral(
                lambda f, a=low, b=high: np.log(stats.norm.cdf(b - f) - stats.norm.cdf(a - f)), 0.4, var
            )
        np.testing.assert_allclose(got[y], want, rtol=1e-9)


def test_tails_keep_their_digits():
    # Far below and above, the ratio of neighbouring grades is that of the tails, by the first term of Mills' ratio.
    for sign in (-1.0, 1.0):
        log_p = np.asarray(predict(ordinal(), np.asarray([sign * 40.0]), np.zeros((1, 1))))
        ends = np.concatenate([[-np.inf], THRESHOLDS, [np.inf]]) - sign * 40.0
        inner = ends[1:-1]
        tail = stats.norm.logsf(np.abs(inner))
        near, far = (tail[1:], tail[:-1]) if sign > 0.0 else (tail[:-1], tail[1:])
        np.testing.assert_allclose(log_p[1:-1], near + np.log1p(-np.exp(far - near)), rtol=1e-12)
    for loc in (-1e3, 1e3):
        for var in (0.0, 1e-12, 1.0, 1e8):
            log_p = np.asarray(predict(ordinal(), np.asarray([loc]), np.asarray([[var]])))
            assert np.isfinite(log_p).all()
            np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-12)


def test_thresholds_begin_at_the_shares_of_the_grades():
    likelihood = Ordinal.from_targets(np.array([0.0, 1.0, 1.0, 3.0]))
    p = np.exp(predict(likelihood, np.zeros(1), np.zeros((1, 1))))
    np.testing.assert_allclose(p, [1.5 / 6, 2.5 / 6, 0.5 / 6, 1.5 / 6], rtol=1e-10)
    assert len(Ordinal.from_targets(np.zeros(3)).gaps) == 0
    assert len(Ordinal.from_targets(np.zeros(3), 5).gaps) == 3
