"""Laplace's approximation of the evidence, its gradient, and the fit, each against something that is not it."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import multivariate_normal, t

from oracles.latent_targets import Bernoulli, Counts, Gaussian, Grades, HeavyTails, Softmax
from streamgp.bases import Fourier, Intercept
from streamgp.models.fitting.gaussian_evidence import fit_basis
from streamgp.models.fitting.laplace_evidence import (
    MAX_LATENT_STD,
    evidence_and_gradient,
    fit_likelihood,
)
from streamgp.numerics import keys, tree

pytestmark = pytest.mark.slow

V = 1.3


def targets(kind, f, rng):
    """Targets of latent values, and the likelihood that they came from."""
    if kind == "gaussian":
        return f + 0.4 * rng.normal(size=f.shape), Gaussian(np.asarray(0.16))
    if kind == "logistic":
        return (rng.uniform(size=f.shape) < 1 / (1 + np.exp(-f - 0.3))).astype(float), Bernoulli(np.asarray(0.3))
    if kind == "poisson":
        return rng.poisson(np.exp(f + 0.5)).astype(float), Counts(np.asarray(0.5))
    if kind == "ordinal":
        edges = np.array([-1.5, 0.0, 1.0])
        grades = np.digitize(f + rng.logistic(size=f.shape), edges).astype(float)
        return grades, Grades(np.asarray(-1.5), np.asarray(np.diff(edges)))
    if kind == "softmax":
        scores = np.stack([f, -0.5 * f + 0.2, np.zeros_like(f)], axis=1)
        classes = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
        return classes, Softmax(np.array([0.1, -0.2]))
    return f + 0.3 * rng.standard_t(2.5, size=f.shape), HeavyTails(np.asarray(0.3), np.asarray(2.5))


def problem(kind, n, F):
    """Hyperparameters by name, and a function of them and of where Newton's method starts: value, mode, gradient."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    basis = Fourier.from_data(X, num_features=F, start=0.3, key=keys.key(1))
    Phi = np.asarray(basis(X))
    y, likelihood = targets(kind, 3.0 * Phi @ rng.normal(size=F), rng)

    def evaluate(hyper, start):
        own = type(likelihood)(*(hyper[name] for name in likelihood.trainable))
        features, pullback = Fourier(basis.frequencies, hyper["lengthscale"]).features_and_pullback(X)
        value, mode, by = evidence_and_gradient(own, features, y, np.exp(hyper["log_v"]), start)
        return value, mode, by.likelihood | pullback(by.Phi) | {"log_v": np.asarray(by.log_prior_var)}

    hyper = {name: getattr(likelihood, name) for name in likelihood.trainable}
    hyper |= {"lengthscale": np.asarray(basis.lengthscale), "log_v": np.asarray(np.log(V))}
    return Phi, y, hyper, evaluate, np.zeros((likelihood.num_latents, F))


def test_with_gaussian_noise_it_is_the_exact_evidence():
    Phi, y, hyper, evaluate, start = problem("gaussian", 8, 12)
    value, mode, _ = evaluate(hyper, start)
    K = V * Phi @ Phi.T + 0.16 * np.eye(8)
    np.testing.assert_allclose(value, multivariate_normal.logpdf(y, cov=K), rtol=1e-9)
    np.testing.assert_allclose(mode[0], V * Phi.T @ np.linalg.solve(K, y), rtol=1e-9, atol=1e-12)


def logistic(y):
    """log p, its gradient and minus its Hessian in the latent values of all rows, written out."""

    def p(f):
        return 1 / (1 + np.exp(-f - 0.3))

    return (
        lambda f: np.sum(y * np.log(p(f)) + (1 - y) * np.log(1 - p(f))),
        lambda f: y - p(f),
        lambda f: np.diag(p(f) * (1 - p(f))),
    )


def poisson(y):
    return (
        lambda f: np.sum(y * (f + 0.5) - np.exp(f + 0.5) - gammaln(y + 1)),
        lambda f: y - np.exp(f + 0.5),
        lambda f: np.diag(np.exp(f + 0.5)),
    )


def softmax(y):
    # Latent values of one class after the other; the third class has none.
    one_hot = y == np.arange(3)[:, None]

    def p(f):
        scores = np.exp(np.stack([f[: len(y)] + 0.1, f[len(y) :] - 0.2, np.zeros(len(y))]))
        return scores / scores.sum(axis=0)

    def curvature(f):
        q = p(f)[:2]
        return np.diag(q.ravel()) - np.block([[np.diag(q[i] * q[j]) for j in (0, 1)] for i in (0, 1)])

    return lambda f: np.sum(np.log(p(f).T[one_hot.T])), lambda f: (one_hot - p(f))[:2].ravel(), curvature


def function_space(K, log_prob, gradient, curvature):
    """Rasmussen and Williams (2006), Eqs. 3.18, 3.32 and 3.44, with the dense covariance of all latent values."""
    f, eye = np.zeros(len(K)), np.eye(len(K))
    for _ in range(100):
        W = curvature(f)
        f = K @ np.linalg.solve(eye + W @ K, W @ f + gradient(f))
    # K^-1 f is the gradient at the mode.
    return log_prob(f) - 0.5 * f @ gradient(f) - 0.5 * np.linalg.slogdet(eye + K @ curvature(f))[1]


def heavy_tails_at(mode, Phi, y):
    """The value at a mode, outliers bending no determinant."""
    f, dof, scale2 = Phi @ mode, 2.5, 0.09
    r = y - f
    slope = (dof + 1) * r / (dof * scale2 + r**2)
    np.testing.assert_allclose(Phi.T @ slope, mode / V, rtol=1e-6, atol=1e-6)
    W = (dof + 1) * (dof * scale2 - r**2) / (dof * scale2 + r**2) ** 2
    assert (W < -0.5).any()
    A = np.eye(len(mode)) + V * Phi.T @ np.diag(np.maximum(W, 0.0)) @ Phi
    return t.logpdf(y, dof, f, 0.3).sum() - 0.5 * mode @ mode / V - 0.5 * np.linalg.slogdet(A)[1]


FORMS = {"logistic": logistic, "poisson": poisson, "softmax": softmax}


@pytest.mark.parametrize(
    ("kind", "n", "F"),
    [("logistic", 20, 6), ("poisson", 6, 20), ("ordinal", 15, 6), ("softmax", 15, 6), ("t", 15, 6)],
)
def test_value_in_function_space_and_gradient_by_finite_differences(kind, n, F):
    Phi, y, hyper, evaluate, start = problem(kind, n, F)
    value, mode, gradient = evaluate(hyper, start)
    if kind in FORMS:
        K = np.kron(np.eye(len(mode)), V * Phi @ Phi.T)
        np.testing.assert_allclose(value, function_space(K, *FORMS[kind](y)), rtol=1e-9)
    if kind == "t":
        np.testing.assert_allclose(value, heavy_tails_at(np.asarray(mode[0]), Phi, y), rtol=1e-9)
    # Where Newton's method sets out from makes no difference, be it far beyond anything sensible.
    for first in (mode, mode + 0.3, 1e4 * np.ones_like(mode), np.full_like(mode, np.nan)):
        np.testing.assert_allclose(evaluate(hyper, first)[0], value, rtol=1e-9)
    for name, values in hyper.items():
        for j in np.ndindex(values.shape):
            ends = []
            for h in (1e-4, -1e-4):
                moved = values.copy()
                moved[j] += h
                ends.append(evaluate(hyper | {name: moved}, start)[0])
            np.testing.assert_allclose(gradient[name][j], (ends[0] - ends[1]) / 2e-4, rtol=1e-6, atol=1e-6)


def test_the_integral_over_one_weight_is_missed_by_what_the_third_and_fourth_derivatives_say():
    rng = np.random.default_rng(2)
    phi = rng.normal(size=30)
    y = (rng.uniform(size=30) < 1 / (1 + np.exp(-phi - 0.3))).astype(float)
    arguments = Bernoulli(np.asarray(0.3)), np.asarray(phi[:, None]), np.asarray(y), np.asarray(V)
    value, mode, _ = evidence_and_gradient(*arguments, np.zeros((1, 1)))
    value, mode = float(value), float(mode[0, 0])

    def density(theta):
        signs = 2 * y - 1
        log_p = -np.log1p(np.exp(-signs * (phi * theta + 0.3))).sum()
        return np.exp(log_p - 0.5 * theta**2 / V - 0.5 * np.log(2 * np.pi * V) - value)

    missed = np.log(quad(density, mode - 8.0, mode + 8.0, epsabs=0.0, epsrel=1e-11)[0])
    # Tierney and Kadane (1986): the next term of the expansion.
    p = 1 / (1 + np.exp(-phi * mode - 0.3))
    w = p * (1 - p)
    h2, h3, h4 = 1 / V + w @ phi**2, (w * (1 - 2 * p)) @ phi**3, (w * (1 - 6 * w)) @ phi**4
    next_term = 5 * h3**2 / (24 * h2**3) - h4 / (8 * h2**2)
    assert 1e-3 < abs(next_term) < 0.1
    np.testing.assert_allclose(missed, next_term, rtol=0.3)


RAW = np.random.default_rng(3).uniform(-2.0, 2.0, (120, 2))


def rows_and_basis(n=120):
    basis = Intercept(Fourier.from_data(RAW, num_features=10, start=0.5, key=keys.key(0)))
    return np.asarray(RAW[:n]), basis


def test_with_gaussian_noise_it_is_the_fit_of_regression():
    X, basis = rows_and_basis()
    y = np.asarray(np.sin(2.0 * RAW[:, 0]) + 0.3 * np.random.default_rng(4).normal(size=120))
    fit = fit_likelihood(basis, Gaussian(np.asarray(0.25)), X, y, start=0.5)
    want = fit_basis(basis, X, y[:, None], start=0.5)
    assert fit.steps > 5
    assert fit.start == 0.5
    np.testing.assert_allclose(fit.log_evidence, want.log_evidence, atol=1e-2)
    np.testing.assert_allclose(fit.gain, want.gain, atol=1e-4)
    np.testing.assert_allclose(fit.likelihood.noise_var, want.noise_var, rtol=0.02)
    np.testing.assert_allclose(fit.prior_var, want.prior_var, rtol=0.1)
    np.testing.assert_allclose(fit.basis.lengthscale[0], want.basis.lengthscale[0], rtol=0.05)


def labels(kind):
    rng = np.random.default_rng(5)
    if kind == "function":
        return rng.uniform(size=120) < 1 / (1 + np.exp(-4.0 * np.sin(2.0 * RAW[:, 0]) - 1.0))
    if kind == "noise":
        return rng.uniform(size=120) < 0.8
    return np.ones(120) if kind == "one class" else RAW[:, 0] > 0.1


def finite(fit):
    leaves = [np.ravel(leaf) for leaf in tree.leaves((fit.basis, fit.likelihood))]
    return np.isfinite(np.concatenate([*leaves, [fit.prior_var, fit.log_evidence, fit.gain]])).all()


def test_labels_of_every_sort_have_a_fit():
    X, basis = rows_and_basis()
    found = {}
    for kind in ("function", "noise", "one class", "separable"):
        y = np.asarray(labels(kind).astype(float))
        log_odds = np.log((np.sum(y) + 0.5) / (np.sum(1.0 - y) + 0.5))
        fit = found[kind] = fit_likelihood(basis, Bernoulli(log_odds), X, y)
        assert finite(fit)
        assert fit.prior_var * float(np.mean(np.sum(fit.basis(X) ** 2, axis=1))) <= 1.001 * MAX_LATENT_STD**2
        # Without a function the best that one can say is the share of ones.
        share = np.mean(y)
        null = -sum(p * np.log(p) for p in (share, 1 - share) if p > 0)
        np.testing.assert_allclose(fit.gain, fit.log_evidence / 120 + null, atol=3e-3)
    assert found["function"].gain > 0.15
    assert abs(found["noise"].gain) < 0.01
    assert abs(found["one class"].gain) < 0.01
    assert 4.0 < found["one class"].likelihood.intercept < 10.0
    assert found["separable"].gain > 0.5


# No event, and the first of three classes alone.
@pytest.mark.parametrize("kind", ["counts", "classes"])
def test_few_rows_that_say_nothing_have_a_fit(kind):
    n = 1 if kind == "classes" else 3
    X, basis = rows_and_basis(n)
    counts, classes = Counts(np.log(np.asarray(0.5 / n))), Softmax(np.log(np.array([2.0 * n + 1.0, 1.0])))
    likelihood = counts if kind == "counts" else classes
    fit = fit_likelihood(basis, likelihood, X, np.zeros(n))
    assert finite(fit)
    assert abs(fit.gain) < 0.3
    (moved,), (start,) = tree.leaves(fit.likelihood), tree.leaves(likelihood)
    assert np.abs(moved - start).max() < 8.0
