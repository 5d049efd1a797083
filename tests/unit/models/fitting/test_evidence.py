"""The evidence against golden numbers, dense densities and autodiff; the fit against known hyperparameters."""

import warnings
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from streamgp.bases import BASES, Fourier, HilbertSpace, Intercept, Linear
from streamgp.models.fitting.gaussian_evidence import (
    MAX_RATIO,
    evidence_and_gradient,
    fit_basis,
    fixed_loss,
    limits,
    log_evidence,
    loss_and_gradient,
    unconstrain,
)
from streamgp.models.fitting.hyperparameters import flatten, search
from streamgp.numerics import keys

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "marglik.npz")


@pytest.mark.parametrize("i", range(3))
def test_golden_evidence_and_gradient(i):
    # In the order of names: lengthscales, noise, prior.
    order = [0, 1, 3, 2]
    basis, y = Fourier(GOLDEN["freqs"], np.ones(2)), GOLDEN["y"][:, None]
    flat = GOLDEN["params_log"][i][order]
    value, gradient = loss_and_gradient(flat, basis, ("lengthscale",), GOLDEN["X"], y)
    np.testing.assert_allclose(-value * y.size, GOLDEN["log_marginal"][i], rtol=1e-10)
    np.testing.assert_allclose(-gradient * y.size, GOLDEN["gradient"][i][order], rtol=1e-9, atol=1e-10)


def naive(Phi, y, v, s2):
    """The density as it is written down, for autodiff to go through."""
    n, E = y.shape
    K = v * Phi @ Phi.T + s2 * jnp.eye(n)
    fit = jnp.sum(y * jnp.linalg.solve(K, y))
    return -0.5 * (fit + E * (jnp.linalg.slogdet(K)[1] + n * jnp.log(2 * jnp.pi)))


@pytest.mark.parametrize("E", [1, 2])
@pytest.mark.parametrize(("n", "F"), [(30, 8), (8, 8), (8, 30)], ids=["n > F", "n = F", "n < F"])
def test_both_forms_are_the_dense_density_and_its_gradient(n, F, E):
    rng = np.random.default_rng(n)
    Phi, y = rng.normal(size=(n, F)), rng.normal(size=(n, E))
    K = 0.7 * Phi @ Phi.T + 0.2 * np.eye(n)
    want = sum(multivariate_normal.logpdf(y[:, e], cov=K) for e in range(E))
    expected = jax.jit(jax.grad(naive, argnums=(0, 1, 2, 3)))(Phi, y, 0.7, 0.2)
    for evaluate in (evidence_and_gradient, jax.jit(evidence_and_gradient)):
        value, gradient = evaluate(Phi, y, 0.7, 0.2)
        np.testing.assert_allclose(value, want, rtol=1e-10)
        for got, wanted in zip(gradient, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    assert log_evidence(Phi, y, 0.7, 0.2) == evidence_and_gradient(Phi, y, 0.7, 0.2)[0]


@pytest.mark.parametrize("E", [1, 2])
@pytest.mark.parametrize(("n", "D"), [(50, 3), (8, 20)], ids=["n > F", "n < F"])
def test_of_fixed_features_the_loss_is_the_same(n, D, E):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    y = X[:, :1] * np.arange(1, E + 1) + 0.1 * rng.normal(size=(n, E))
    basis = Linear(D)
    fixed = fixed_loss(np.asarray(basis(X)), y)
    # The last is beyond `MAX_RATIO`, where rounding tells.
    for log_noise, log_prior, rtol in [(-1.4, 0.0, 1e-9), (-9.2, 5.0, 1e-9), (3.0, -4.0, 1e-9), (-9.0, 17.0, 1e-5)]:
        flat = np.array([log_noise, log_prior])
        value, gradient = loss_and_gradient(flat, basis, (), X, y)
        found, slope = fixed(flat)
        np.testing.assert_allclose(found, value, rtol=rtol)
        np.testing.assert_allclose(slope, gradient, rtol=max(rtol, 1e-6), atol=1e-8)
    assert not np.isfinite(fixed_loss(np.full((n, 2), np.inf), y)(np.zeros(2))[0])


@pytest.mark.parametrize(("n", "F"), [(60, 12), (12, 60)], ids=["n > F", "n < F"])
def test_extreme_hyperparameters_give_finite_numbers(n, F):
    # Rank one, as features become when lengthscales grow without bound.
    rng = np.random.default_rng(0)
    flat = np.ones((n, F)) + 1e-9 * rng.normal(size=(n, F))
    for Phi in (flat, rng.normal(size=(n, F)), np.zeros((n, F))):
        for v in (1e-8, 1.0, 1e8):
            for s2 in (1e-6, 1.0, 1e2):
                value, gradient = evidence_and_gradient(Phi, rng.normal(size=(n, 1)), v, s2)
                assert np.isfinite(value), (v, s2)
                assert all(np.isfinite(g).all() for g in gradient), (v, s2)


@pytest.mark.parametrize(("n", "F"), [(30, 8), (8, 30)], ids=["n > F", "n < F"])
def test_features_that_are_no_numbers_have_no_evidence_and_raise_nothing(n, F):
    basis = Fourier.from_data(np.ones((n, 1)), num_features=F, start=1.0, key=keys.key(0))
    for wrong in (np.nan, np.inf):
        X = np.full((n, 1), wrong)
        with warnings.catch_warnings(action="error"):
            value, gradient = loss_and_gradient(np.zeros(3), basis, ("lengthscale",), X, np.ones((n, 1)))
        assert np.isnan(value) and gradient.shape == (3,)


@pytest.mark.parametrize("start", [0.2, 1.8])
def test_the_fit_recovers_known_hyperparameters(start):
    rng = np.random.default_rng(1)
    n, E, s2 = 300, 20, 0.09
    X = rng.uniform(-3.0, 3.0, (n, 1))
    box = np.array([4.5]), np.array([4.0])
    true = HilbertSpace(np.array([0.6]), *box, 24)
    theta = np.sqrt(1.5) * rng.normal(size=(24, E))
    y = true(X) @ theta + np.sqrt(s2) * rng.normal(size=(n, E))
    fit = fit_basis(HilbertSpace(np.array([start]), *box, 24), X, y)
    assert fit.steps > 0
    # About ten well-determined directions for each of twenty outputs: standard errors of a tenth and less.
    np.testing.assert_allclose(fit.noise_var, s2, rtol=5 * np.sqrt(2.0 / (n * E)))
    np.testing.assert_allclose(fit.basis.lengthscale, [0.6], rtol=0.15)
    np.testing.assert_allclose(fit.prior_var, 1.5, rtol=0.5)
    at_optimum = log_evidence(fit.basis(X), y, fit.prior_var, fit.noise_var)
    np.testing.assert_allclose(fit.log_evidence, at_optimum, rtol=1e-9)
    assert fit.log_evidence >= log_evidence(true(X), y, 1.5, s2)
    scale = np.sqrt(np.mean(y**2, axis=0))
    noise_alone = norm.logpdf(y, 0.0, scale).sum()
    np.testing.assert_allclose(fit.gain, (fit.log_evidence - noise_alone) / (n * E), rtol=1e-9)


def test_pure_noise_gains_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    fit = fit_basis(Linear(2), X, y)
    np.testing.assert_allclose(fit.noise_var, np.mean(y**2), rtol=0.02)
    assert fit.prior_var < 0.05
    assert abs(fit.gain) < 0.02


@pytest.mark.parametrize("rows", [20, 200])
@pytest.mark.parametrize("name", [n for n in BASES if BASES[n].trainable])
def test_every_family_fits_with_fewer_and_with_more_rows_than_features(name, rows):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    y = np.sin(3.0 * X[:, :1]) + 0.1 * rng.normal(size=(rows, 1))
    basis = BASES[name].from_data(X, num_features=50, start=0.3, key=keys.key(0))
    fit = fit_basis(basis, X, y, start=0.3)
    assert np.isfinite([fit.log_evidence, fit.prior_var, fit.noise_var]).all()
    positive = [field for field, kind in fit.basis.trainable.items() if kind == "positive"]
    assert all((np.asarray(getattr(fit.basis, field)) > 0).all() for field in positive)
    assert fit.gain > 0.2
    assert fit.start == 0.3


@pytest.mark.parametrize("name", ["fourier", "rbf"])
def test_more_hyperparameters_find_more_evidence(name):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(4.0 * X[:, :1] * X[:, 1:]) + 0.1 * rng.normal(size=(60, 1))
    settings = {"num_features": 10, "start": 0.3, "key": keys.key(0)}
    drawn, trained = (BASES[family].from_data(X, **settings) for family in (name, f"{name}-optimised"))
    fits = [fit_basis(basis, X, y) for basis in (drawn, trained)]
    assert fits[1].log_evidence > fits[0].log_evidence + 10.0
    field = next(field for field, kind in trained.trainable.items() if kind == "real")
    assert (np.abs(getattr(fits[1].basis, field) - getattr(drawn, field)) > 1e-3).mean() > 0.9
    np.testing.assert_array_equal(getattr(fits[0].basis, field), getattr(drawn, field))
    np.testing.assert_allclose(
        fits[1].log_evidence,
        log_evidence(fits[1].basis(X), y, fits[1].prior_var, fits[1].noise_var),
        rtol=1e-9,
    )


def test_only_what_is_named_is_trained():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (50, 1))
    basis = BASES["rbf"].from_data(X, num_features=5, start=0.3, key=keys.key(0))
    fit = fit_basis(basis, X, np.sin(3 * X), trainable=("lengthscale",))
    np.testing.assert_array_equal(fit.basis.centres, basis.centres)
    assert not np.allclose(fit.basis.lengthscale, basis.lengthscale)


def test_the_prior_never_outdoes_the_noise_by_more_than_a_covariance_can_hold():
    """A straight line by waves of a thousand times the data's width: the evidence asks for all that it can get."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ np.array([[1.0], [2.0]]) / 5.0**0.5
    drawn = Fourier.from_data(X, num_features=20, start=1.0, key=keys.key(0))
    basis = replace(drawn, lengthscale=np.full(2, 1e4))
    start = flatten(unconstrain(basis, (), 1e6, 1e-3))
    s2, v = np.exp(search(lambda flat: loss_and_gradient(flat, basis, (), X, y), start, limits(basis, ()), 50).x)
    ratio = v * float(np.mean(np.sum(basis(X) ** 2, axis=1))) / s2
    assert 0.5 * MAX_RATIO < ratio < 1.2 * MAX_RATIO
    flat = flatten(unconstrain(basis, (), v / 2, s2))
    noise_var, prior_var = np.exp(flat)
    plain = -float(log_evidence(basis(X), y, prior_var, noise_var)) / 60
    assert loss_and_gradient(flat, basis, (), X, y)[0] == pytest.approx(plain, rel=1e-9)  # within, nothing is changed


@pytest.mark.parametrize("name", ["rbf-optimised", "concatenation", "linear", "hilbert"])
@pytest.mark.parametrize("ratio", [1.0, 1e12])
def test_the_loss_has_the_gradient_of_its_differences(name, ratio):
    """Beyond `MAX_RATIO`, too, where the penalty counts for all that can be seen."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sin(2.0 * X) + 0.1 * rng.normal(size=(40, 2))
    basis = Intercept(BASES[name].from_data(X, num_features=10, start=0.5, key=keys.key(0)))
    names, step = tuple(basis.trainable), 1e-4
    flat = flatten(unconstrain(basis, names, ratio * 0.1, 0.1))
    _, gradient = loss_and_gradient(flat, basis, names, X, y)
    differences = [
        (loss_and_gradient(flat + e, basis, names, X, y)[0] - loss_and_gradient(flat - e, basis, names, X, y)[0])
        / (2 * step)
        for e in step * np.eye(flat.size)
    ]
    # Beyond it the matrix has a condition of some 1e13: two digits of the largest entry are left on
    # some processors.
    rtol, of_largest = (1e-5, 1e-6) if ratio == 1.0 else (1e-2, 1e-2)
    np.testing.assert_allclose(gradient, differences, rtol=rtol, atol=of_largest * np.abs(gradient).max())
