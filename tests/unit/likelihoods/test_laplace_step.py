"""The Laplace step of one target: golden numbers, dense quadrature, and guards."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr, log_softmax

from oracles.latent import posterior, posterior_of_two
from streamgp.likelihoods import (
    Categorical,
    Logistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    laplace_step,
)
from streamgp.likelihoods.categorical import contrasts
from streamgp.likelihoods.quadrature import log_logistic_normal

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "logistic.npz")


def moments(likelihood, y, loc, cov):
    """Mean and covariance of the latent values after a target."""
    step = laplace_step(likelihood, y, loc, cov)
    return loc + (cov @ step.shift[..., None])[..., 0], cov - cov @ step.shrink @ cov


@pytest.mark.parametrize("i", [0, 1])
def test_golden_logistic(i):
    likelihood = Logistic(np.asarray(0.0))
    step = lambda y, a, s: laplace_step(likelihood, y, np.array([a]), np.array([[s]]))  # noqa: E731
    Phi, y = GOLDEN["Phi"], GOLDEN["y"]
    mean, cov = np.zeros(Phi.shape[1]), float(GOLDEN["prior_var"]) * np.eye(Phi.shape[1])
    log_score = []
    for t, phi in enumerate(Phi):
        cov = cov + GOLDEN["rw_vars"][i] * np.eye(len(cov))
        a, V = phi @ mean, cov @ phi
        s = phi @ V
        np.testing.assert_allclose(a, GOLDEN[f"latent_mean_{i}"][t], atol=1e-8)
        np.testing.assert_allclose(s, GOLDEN[f"latent_var_{i}"][t], atol=1e-8)
        logit = a / np.sqrt(1.0 + np.pi / 8.0 * s)  # MacKay (1992)
        np.testing.assert_allclose(1.0 / (1.0 + np.exp(-logit)), GOLDEN[f"prob_mackay_{i}"][t], atol=1e-8)
        exact = np.exp(log_logistic_normal(a, s))[1]
        np.testing.assert_allclose(exact, GOLDEN[f"prob_exact_{i}"][t], atol=1e-8)
        log_score.append(-np.logaddexp(0.0, -(2.0 * y[t] - 1.0) * logit))
        shift, shrink = step(np.asarray(float(y[t])), a, s)
        np.testing.assert_allclose(a + s * shift[0], GOLDEN[f"f_mode_{i}"][t], atol=1e-8)
        mean = mean + V * float(shift[0])
        cov = cov - np.outer(V, V) * float(shrink[0, 0])
        np.testing.assert_allclose(mean, GOLDEN[f"mu_steps_{i}"][t], atol=1e-8)
        np.testing.assert_allclose(cov, GOLDEN[f"Sigma_steps_{i}"][t], atol=1e-8)
    np.testing.assert_allclose(log_score, GOLDEN[f"log_score_{i}"], atol=1e-8)


def log_sigmoid(f):
    return -np.logaddexp(0.0, -f)


# Of each: the likelihood, targets, their log likelihood written down again, and the errors that `laplace_step` states
# for prior variances of 0.01, 0.1, 1 and 10: of the mean in deviations, and of the variance.
BINARY = [0.0, 1.0]
COUNTS = [0.0, 1.0, 5.0, 100.0, 1e4]
POSTERIORS = {
    "logistic": (
        lambda: Logistic(np.asarray(0.0)),
        BINARY,
        lambda y: lambda f: log_sigmoid((2.0 * y - 1.0) * f),
        ([1e-4, 0.002, 0.04, 0.3], [2e-5, 1e-3, 0.03, 0.3]),
    ),
    "probit": (
        lambda: Probit(np.asarray(0.0)),
        BINARY,
        lambda y: lambda f: log_ndtr((2.0 * y - 1.0) * f),
        ([2e-4, 0.005, 0.1, 0.5], [2e-5, 1e-3, 0.04, 0.5]),
    ),
    "poisson": (
        lambda: Poisson(np.asarray(0.0)),
        COUNTS,
        lambda y: lambda f: y * f - np.exp(np.minimum(f, 700.0)),
        ([0.02, 0.07, 0.2, 0.5], [5e-4, 0.005, 0.06, 0.3]),
    ),
    "negative binomial": (
        lambda: NegativeBinomial(np.asarray(0.0), np.asarray(2.0)),
        COUNTS,
        lambda y: lambda f: y * f - (y + 2.0) * np.logaddexp(f - np.log(2.0), 0.0),
        ([0.02, 0.07, 0.2, 0.5], [5e-4, 0.005, 0.06, 0.3]),
    ),
    "ordinal": (  # the end grades; grades in between are checked by their derivatives
        lambda: Ordinal(np.asarray(0.0), np.asarray([1.5])),
        [0.0, 2.0],
        lambda y: (lambda f: log_ndtr(-f)) if y == 0.0 else (lambda f: log_ndtr(f - 1.5)),
        ([2e-4, 0.005, 0.1, 0.5], [2e-5, 1e-3, 0.04, 0.5]),
    ),
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors_of_one_value_within_the_stated_error(name):
    make, targets, log_g, stated = POSTERIORS[name]
    likelihood, worst = make(), np.zeros((2, 4))
    for k, var in enumerate((0.01, 0.1, 1.0, 10.0)):
        for y in targets:
            base = np.log(y + 0.5) if targets is COUNTS else 0.0
            for loc in base + np.array([-3.0, -1.0, 0.0, 1.0, 3.0]):
                mean, cov = moments(likelihood, np.asarray(y), np.asarray([loc]), np.asarray([[var]]))
                exact_mean, exact_var = posterior(log_g(y), loc, var, base)
                errors = abs(mean[0] - exact_mean) / np.sqrt(exact_var), abs(cov[0, 0] / exact_var - 1.0)
                worst[:, k] = np.maximum(worst[:, k], errors)
    assert (worst <= stated).all(), worst
    assert (worst[0] > 0.3 * np.asarray(stated[0])).all(), worst  # what is stated is no mere bound


@pytest.mark.parametrize(("scale", "mean_error", "var_error"), [(0.1, 0.02, 0.01), (1.0, 0.25, 0.2)])
def test_posteriors_of_two_values_within_the_stated_error(scale, mean_error, var_error):
    rng = np.random.default_rng(0)
    intercept, H = np.array([0.3, 0.1, -0.4]), contrasts(3)
    likelihood = Categorical(3, np.asarray(intercept))
    for y in range(3):
        B = rng.normal(size=(2, 2))
        cov, loc = scale * (B @ B.T / 2.0 + 0.1 * np.eye(2)), rng.normal(size=2)
        mean, after = moments(likelihood, np.asarray(float(y)), np.asarray(loc), np.asarray(cov))
        exact_mean, exact = posterior_of_two(lambda f, y=y: log_softmax(f @ H + intercept, axis=-1)[..., y], loc, cov)
        whiten = np.linalg.inv(np.linalg.cholesky(exact))
        assert np.abs(whiten @ (mean - exact_mean)).max() < mean_error
        assert np.abs(whiten @ np.asarray(after) @ whiten.T - np.eye(2)).max() < var_error


def everything():
    yield Logistic(np.asarray(0.0)), [0.0, 1.0]
    yield Probit(np.asarray(0.0)), [0.0, 1.0]
    yield Poisson(np.asarray(0.0)), [0.0, 5.0, 1e6]
    yield NegativeBinomial(np.asarray(0.0), np.asarray(2.0)), [0.0, 5.0, 1e6]
    yield Ordinal(np.asarray(0.0), np.asarray([1.5])), [0.0, 1.0, 2.0]
    yield StudentT(np.asarray(0.0), np.asarray(0.5), np.asarray(4.0)), [0.0, 1e6]
    yield Categorical(2, np.zeros(2)), [0.0, 1.0]
    yield Categorical(4, np.zeros(4)), [0.0, 3.0]


def moments_and_prediction(likelihood, y, loc, cov):
    return *moments(likelihood, y, loc, cov), likelihood.log_predictive(y, loc, cov)


def test_extremes_are_finite_and_the_covariance_never_grows():
    for likelihood, targets in everything():
        c = likelihood.num_latents
        y, loc, var = (a.ravel() for a in np.meshgrid(targets, [-1e3, 0.0, 1e3], [0.0, 1e-12, 1.0, 1e8]))
        prior = loc[:, None] * np.ones(c), var[:, None, None] * np.eye(c)
        mean, cov, log_p = moments_and_prediction(likelihood, y, *prior)
        assert np.isfinite(mean).all() and np.isfinite(cov).all() and np.isfinite(log_p).all(), likelihood
        eigenvalues = np.linalg.eigvalsh(cov)
        assert (eigenvalues >= -1e-6 * var[:, None]).all(), likelihood
        assert (eigenvalues <= (1.0 + 1e-6) * var[:, None]).all(), likelihood


@pytest.mark.parametrize(("y", "loc", "var"), [(1000.0, -10.0, 100.0), (0.0, 60.0, 1.0), (5.0, 1000.0, 1.0)])
def test_a_full_newton_step_would_overshoot(y, loc, var):
    # From the prior mean, the first step is to exp(1000) or so, or there would be hundreds of steps of one each.
    mean, cov = moments(Poisson(np.asarray(0.0)), np.asarray(y), np.asarray([loc]), np.asarray([[var]]))
    rate = np.exp(float(mean[0]))
    np.testing.assert_allclose(mean[0], loc + var * (y - rate), rtol=1e-6, atol=1e-6 * var * max(y, rate))
    np.testing.assert_allclose(cov[0, 0], 1.0 / (1.0 / var + rate), rtol=1e-6)
