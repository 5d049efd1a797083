"""Labels of several classes: contrasts, closed-form derivatives, predictions against Monte Carlo and quadrature."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from oracles.latent import log_integral
from streamgp.likelihoods import Categorical, Logistic
from streamgp.likelihoods.categorical import contrasts


def draws(rng, mean, cov, count):
    z = rng.normal(size=(count // 2, len(cov)))
    return mean + np.concatenate([z, -z]) @ np.linalg.cholesky(cov).T


def predict(likelihood, loc, cov):
    return likelihood.log_probabilities(loc, cov)


def log_probs(likelihood, g):
    return likelihood.log_prob(g, np.arange(float(likelihood.num_classes)))


def random_covariance(rng, size, scale):
    B = rng.normal(size=(size, size))
    return scale * (B @ B.T / size + 0.1 * np.eye(size))


@pytest.mark.parametrize("count", [2, 3, 7])
def test_contrasts_are_orthonormal_and_nested(count):
    H = contrasts(count)
    np.testing.assert_allclose(H @ H.T, np.eye(count - 1), atol=1e-15)
    np.testing.assert_allclose(H.sum(1), 0.0, atol=1e-14)
    np.testing.assert_array_equal(contrasts(count + 1)[:-1], np.pad(H, ((0, 0), (0, 1))))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_derivatives(count):
    rng = np.random.default_rng(0)
    g, intercept, H = rng.normal(size=count - 1), rng.normal(size=count), contrasts(count)
    p = softmax(g @ H + intercept)
    likelihood = Categorical(count, np.asarray(intercept))
    for y in range(count):
        _, gradient, precision = likelihood.expand(g, np.asarray(float(y)))
        # Rasmussen and Williams (2006), Eqs. 3.32 and 3.38.
        np.testing.assert_allclose(gradient, H @ (np.eye(count)[y] - p), atol=1e-14)
        np.testing.assert_allclose(precision, H @ (np.diag(p) - np.outer(p, p)) @ H.T, atol=1e-14)


def test_two_classes_are_a_logistic_of_slope_root_two():
    likelihood = Categorical(2, np.asarray([0.3, -0.4]))
    binary = Logistic(np.asarray(-0.7))
    for loc, var in ((0.2, 0.5), (-3.0, 20.0), (500.0, 1e-6)):
        got = predict(likelihood, np.asarray([loc]), np.asarray([[var]]))
        # The first class is the positive end of the contrast.
        want = predict(binary, np.asarray([-np.sqrt(2.0) * loc]), np.asarray([[2.0 * var]]))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)
        log_g = lambda f: log_softmax(np.stack([f, -f]) / np.sqrt(2.0) + [[0.3], [-0.4]], axis=0)[1]  # noqa: E731
        np.testing.assert_allclose(got[1], log_integral(log_g, loc, var), rtol=1e-12)


# The errors that are stated, and four standard errors of Monte Carlo, 0.0045 of a probability and 0.09 of a log.
@pytest.mark.parametrize(
    ("scale", "error", "log_error"), [(0.1, 4e-5, 2e-4), (1.0, 2e-3, 0.03), (10.0, 2e-2, 0.3), (1e4, 5e-2, 0.9)]
)
@pytest.mark.parametrize("count", [3, 5, 10, 20])
def test_several_classes_against_monte_carlo(count, scale, error, log_error):
    rng = np.random.default_rng(count)
    H, cov = contrasts(count), random_covariance(rng, count - 1, scale)
    loc, intercept = np.sqrt(1.0 + scale) * rng.normal(size=count - 1), rng.normal(size=count)
    p = softmax(draws(rng, loc, cov, 200_000) @ H + intercept, axis=1).mean(0)
    likelihood = Categorical(count, np.asarray(intercept))
    got = np.exp(predict(likelihood, np.asarray(loc), np.asarray(cov)))
    np.testing.assert_allclose(got.sum(), 1.0, rtol=1e-14)
    assert np.abs(got - p).max() < error + 0.0045
    assert np.abs(np.log(got / p))[p > 0.01].max() < log_error + 0.09


def test_extremes_are_finite():
    for count in (2, 3, 6):
        likelihood = Categorical(count, np.zeros(count))
        for var in (0.0, 1e-12, 1.0, 1e8):
            for size in (0.0, -1e3, 1e3):
                loc = np.full(count - 1, size)
                log_p = np.asarray(predict(likelihood, loc, var * np.eye(count - 1)))
                assert np.isfinite(log_p).all()
                np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-14)


def test_intercepts_begin_at_the_shares_of_the_classes():
    likelihood = Categorical.from_targets(np.array([0.0, 1.0, 1.0, 3.0]))
    assert likelihood.num_classes == 4 and likelihood.num_latents == 3
    p = np.exp(log_probs(likelihood, np.zeros(3)))
    np.testing.assert_allclose(p, [1.5 / 6, 2.5 / 6, 0.5 / 6, 1.5 / 6], rtol=1e-12)
    np.testing.assert_allclose(likelihood.intercept.sum(), 0.0, atol=1e-14)
    assert Categorical.from_targets(np.zeros(3)).num_classes == 2
    assert Categorical.from_targets(np.zeros(3), 5).num_classes == 5


def test_one_class_more_changes_no_odds_between_the_others():
    likelihood = Categorical(3, np.asarray([0.5, 0.2, -0.7]))
    more = Categorical(len(likelihood.intercept) + 1, np.append(likelihood.intercept, -5.0))
    assert more.num_classes == 4 and more.num_latents == 3
    g = np.array([0.4, -1.1])
    before = log_probs(likelihood, np.asarray(g))
    # Whatever the new latent value is, it moves the others together.
    for new in (0.0, 2.0):
        after = log_probs(more, np.append(np.asarray(g), new))
        np.testing.assert_allclose(np.diff(after[:3]), np.diff(before), atol=1e-14)
