"""Laplace's approximation of the evidence, its gradient, and the fit, each against something that is not it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from oracles.latent_targets import Bernoulli, Counts, Gaussian, Grades, HeavyTails, Softmax
from streamgp.bases import Fourier, Intercept
from streamgp.evidence import fit_basis
from streamgp.laplace_evidence import MOST_LATENT_STD, fit_likelihood, laplace_log_evidence

evaluate = jax.jit(laplace_log_evidence)


def targets(kind, f, rng):
    """Targets of latent values, and the likelihood that they came from."""
    if kind == "gaussian":
        return f + 0.4 * rng.normal(size=f.shape), Gaussian(jnp.asarray(0.16))
    if kind == "logistic":
        return (rng.uniform(size=f.shape) < 1 / (1 + np.exp(-f - 0.3))).astype(float), Bernoulli(jnp.asarray(0.3))
    if kind == "poisson":
        return rng.poisson(np.exp(f + 0.5)).astype(float), Counts(jnp.asarray(0.5))
    if kind == "ordinal":
        edges = np.array([-1.5, 0.0, 1.0])
        grades = np.digitize(f + rng.logistic(size=f.shape), edges).astype(float)
        return grades, Grades(jnp.asarray(-1.5), jnp.asarray(np.diff(edges)))
    if kind == "softmax":
        scores = np.stack([f, -0.5 * f + 0.2, np.zeros_like(f)], axis=1)
        classes = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
        return classes, Softmax(jnp.array([0.1, -0.2]))
    return f + 0.3 * rng.standard_t(2.5, size=f.shape), HeavyTails(jnp.asarray(0.3), jnp.asarray(2.5))


def problem(kind, n, F, seed=0):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, F)) / np.sqrt(F)
    y, likelihood = targets(kind, 1.5 * Phi @ rng.normal(size=F), rng)
    start = jnp.zeros((likelihood.num_latents, F))
    return jnp.asarray(Phi), jnp.asarray(y), likelihood, start


@pytest.mark.parametrize(("n", "F"), [(30, 6), (6, 30)], ids=["n > F", "n < F"])
def test_with_gaussian_noise_it_is_the_exact_evidence(n, F):
    Phi, y, likelihood, start = problem("gaussian", n, F)
    v = jnp.asarray(0.8)
    value, mode = evaluate(likelihood, Phi, y, v, start)
    K = 0.8 * np.asarray(Phi @ Phi.T) + 0.16 * np.eye(n)
    np.testing.assert_allclose(value, multivariate_normal.logpdf(y, cov=K), rtol=1e-9)
    np.testing.assert_allclose(mode[0], 0.8 * Phi.T @ np.linalg.solve(K, y), rtol=1e-9, atol=1e-12)


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

    return lambda f: np.sum(np.log(p(f)[one_hot])), lambda f: (one_hot - p(f))[:2].ravel(), curvature


def function_space(K, log_prob, gradient, curvature):
    """Rasmussen and Williams (2006), Eqs. 3.18, 3.32 and 3.44, with the dense covariance of all latent values."""
    f, eye = np.zeros(len(K)), np.eye(len(K))
    for _ in range(100):
        W = curvature(f)
        f = K @ np.linalg.solve(eye + W @ K, W @ f + gradient(f))
    # K^-1 f is the gradient at the mode.
    return log_prob(f) - 0.5 * f @ gradient(f) - 0.5 * np.linalg.slogdet(eye + K @ curvature(f))[1]


@pytest.mark.parametrize("form", [logistic, poisson, softmax])
def test_it_is_the_formula_in_function_space(form):
    for n, F in ((20, 5), (5, 20)):
        Phi, y, likelihood, start = problem(form.__name__, n, F)
        K = np.kron(np.eye(likelihood.num_latents), 1.3 * np.asarray(Phi @ Phi.T))
        value, _ = evaluate(likelihood, Phi, y, jnp.asarray(1.3), start)
        np.testing.assert_allclose(value, function_space(K, *form(np.asarray(y))), rtol=1e-9)


@pytest.mark.parametrize("kind", ["logistic", "poisson", "ordinal", "softmax", "student"])
def test_the_gradient_is_that_of_finite_differences(kind):
    _, y, likelihood, start = problem(kind, 15, 6)
    X = jnp.asarray(np.random.default_rng(0).normal(size=(15, 2)))
    basis = Fourier.from_data(np.asarray(X), num_features=6, start=0.3, key=jax.random.key(1))

    @jax.jit
    @jax.value_and_grad
    def value_and_gradient(hyper):
        likelihood, lengthscale, log_v = hyper
        Phi = Fourier(basis.frequencies, lengthscale)(X)
        return laplace_log_evidence(likelihood, Phi, y, jnp.exp(log_v), start)[0]

    at = likelihood, basis.lengthscale, jnp.asarray(1.2)
    _, gradient = value_and_gradient(at)
    leaves, tree = jax.tree.flatten(at)
    for i, leaf in enumerate(leaves):
        for j in np.ndindex(leaf.shape):
            ends = []
            for h in (1e-4, -1e-4):
                moved = [*leaves[:i], leaf.at[j].add(h), *leaves[i + 1 :]]
                ends.append(value_and_gradient(jax.tree.unflatten(tree, moved))[0])
            got = jax.tree.leaves(gradient)[i][j]
            np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-4, rtol=1e-6, atol=1e-6)


RAW = np.random.default_rng(3).uniform(-2.0, 2.0, (120, 2))


def rows_and_basis():
    basis = Intercept(Fourier.from_data(RAW, num_features=10, start=0.5, key=jax.random.key(0)))
    return jnp.asarray(RAW), basis


def test_with_gaussian_noise_it_is_the_fit_of_regression():
    X, basis = rows_and_basis()
    y = jnp.asarray(np.sin(2.0 * RAW[:, 0]) + 0.3 * np.random.default_rng(4).normal(size=120))
    fit = fit_likelihood(basis, Gaussian(jnp.asarray(0.25)), X, y, start=0.5)
    want = fit_basis(basis, X, y[:, None], start=0.5)
    assert fit.steps > 5
    assert fit.start == 0.5
    np.testing.assert_allclose(fit.log_evidence, want.log_evidence, atol=1e-2)
    np.testing.assert_allclose(fit.gain, want.gain, atol=1e-4)
    np.testing.assert_allclose(fit.likelihood.noise_var, want.noise_var, rtol=0.02)
    np.testing.assert_allclose(fit.prior_var, want.prior_var, rtol=0.1)
    np.testing.assert_allclose(fit.basis.lengthscale[0], want.basis.lengthscale[0], rtol=0.05)


def labels(kind, rng):
    if kind == "function":
        return rng.uniform(size=120) < 1 / (1 + np.exp(-4.0 * np.sin(2.0 * RAW[:, 0]) - 1.0))
    if kind == "noise":
        return rng.uniform(size=120) < 0.8
    return np.ones(120) if kind == "one class" else RAW[:, 0] > 0.1


def test_labels_of_every_sort_have_a_fit():
    X, basis = rows_and_basis()
    found = {}
    for kind in ("function", "noise", "one class", "separable"):
        y = jnp.asarray(labels(kind, np.random.default_rng(5)).astype(float))
        log_odds = jnp.log((jnp.sum(y) + 0.5) / (jnp.sum(1.0 - y) + 0.5))
        fit = found[kind] = fit_likelihood(basis, Bernoulli(log_odds), X, y)
        assert np.isfinite([fit.log_evidence, fit.gain, fit.prior_var, fit.likelihood.intercept]).all()
        assert fit.prior_var * float(jnp.mean(jnp.sum(fit.basis(X) ** 2, axis=1))) <= 1.001 * MOST_LATENT_STD**2
        value, _ = evaluate(fit.likelihood, fit.basis(X), y, jnp.asarray(fit.prior_var), jnp.zeros((1, 11)))
        np.testing.assert_allclose(fit.log_evidence, value, rtol=1e-8)
        # Without a function the best that one can say is the share of ones.
        share = np.mean(y)
        null = -sum(p * np.log(p) for p in (share, 1 - share) if p > 0)
        np.testing.assert_allclose(fit.gain, fit.log_evidence / 120 + null, atol=3e-3)
    assert found["function"].gain > 0.15
    assert abs(found["noise"].gain) < 0.01
    assert abs(found["one class"].gain) < 0.01
    assert 4.0 < found["one class"].likelihood.intercept < 10.0
    assert found["separable"].gain > 0.5
