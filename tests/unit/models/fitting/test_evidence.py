"""The evidence against golden numbers, dense densities and autodiff; the fit against known hyperparameters."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import multivariate_normal, norm

from streamgp.bases import BASES, Fourier, HilbertSpace, Linear
from streamgp.models.fitting.gaussian_evidence import (
    MAX_RATIO,
    fit_basis,
    fixed_loss,
    limits,
    log_evidence,
    loss,
    unconstrain,
)
from streamgp.models.fitting.hyperparameters import search
from streamgp.numerics import keys

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "marglik.npz")


@jax.jit
def golden_evidence(params: jax.Array) -> jax.Array:
    basis = Fourier(jnp.asarray(GOLDEN["freqs"]), jnp.exp(params[:2]))
    Phi = basis(jnp.asarray(GOLDEN["X"]))
    return log_evidence(Phi, jnp.asarray(GOLDEN["y"][:, None]), jnp.exp(params[2]), jnp.exp(params[3]))


@pytest.mark.parametrize("i", range(3))
def test_golden_evidence_and_gradient(i):
    params = jnp.asarray(GOLDEN["params_log"][i])
    np.testing.assert_allclose(golden_evidence(params), GOLDEN["log_marginal"][i], rtol=1e-10)
    gradient = jax.jit(jax.grad(golden_evidence))(params)
    np.testing.assert_allclose(gradient, GOLDEN["gradient"][i], rtol=1e-9, atol=1e-10)


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
    Phi, y = jnp.asarray(rng.normal(size=(n, F))), jnp.asarray(rng.normal(size=(n, E)))
    v, s2 = jnp.asarray(0.7), jnp.asarray(0.2)
    K = 0.7 * np.asarray(Phi @ Phi.T) + 0.2 * np.eye(n)
    want = sum(multivariate_normal.logpdf(y[:, e], cov=K) for e in range(E))
    value, gradient = jax.jit(jax.value_and_grad(log_evidence, argnums=(0, 1, 2, 3)))(Phi, y, v, s2)
    np.testing.assert_allclose(value, want, rtol=1e-10)
    expected = jax.jit(jax.grad(naive, argnums=(0, 1, 2, 3)))(Phi, y, v, s2)
    for got, wanted in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("E", [1, 2])
@pytest.mark.parametrize(("n", "D"), [(50, 3), (8, 20)], ids=["n > F", "n < F"])
def test_of_fixed_features_the_loss_is_the_same_without_compiling(n, D, E):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    y = X[:, :1] * np.arange(1, E + 1) + 0.1 * rng.normal(size=(n, E))
    basis = Linear(D)
    general = jax.jit(jax.value_and_grad(loss), static_argnums=(2,))
    fixed = fixed_loss(np.asarray(basis(X)), y)
    # The last is beyond `MAX_RATIO`, where rounding tells.
    for log_noise, log_prior, rtol in [(-1.4, 0.0, 1e-9), (-9.2, 5.0, 1e-9), (3.0, -4.0, 1e-9), (-9.0, 17.0, 1e-5)]:
        flat, _ = ravel_pytree({"log_noise_var": jnp.asarray(log_noise), "log_prior_var": jnp.asarray(log_prior)})
        value, gradient = general(flat, basis, (), jnp.asarray(X), jnp.asarray(y))
        found, slope = fixed(np.asarray(flat))
        np.testing.assert_allclose(found, value, rtol=rtol)
        np.testing.assert_allclose(slope, gradient, rtol=max(rtol, 1e-6), atol=1e-8)
    assert not np.isfinite(fixed_loss(np.full((n, 2), np.inf), y)(np.zeros(2))[0])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("n", "F"), [(60, 12), (12, 60)], ids=["n > F", "n < F"])
def test_extreme_hyperparameters_give_finite_numbers(n, F, precision):
    # Rank one, as features become when lengthscales grow without bound.
    rng = np.random.default_rng(0)
    flat = np.ones((n, F)) + 1e-9 * rng.normal(size=(n, F))
    with jax.enable_x64(precision == "float64"):
        evidence = jax.jit(jax.value_and_grad(log_evidence, argnums=(0, 1, 2, 3)))
        for Phi in (flat, rng.normal(size=(n, F)), np.zeros((n, F))):
            for v in (1e-8, 1.0, 1e8):
                for s2 in (1e-6, 1.0, 1e2):
                    arguments = (Phi, rng.normal(size=(n, 1)), v, s2)
                    value, gradient = evidence(*(jnp.asarray(a, precision) for a in arguments))
                    assert np.isfinite(value), (v, s2)
                    assert all(np.isfinite(g).all() for g in gradient), (v, s2)


@pytest.mark.parametrize("start", [0.2, 1.8])
def test_the_fit_recovers_known_hyperparameters(start):
    rng = np.random.default_rng(1)
    n, E, s2 = 300, 20, 0.09
    X = jnp.asarray(rng.uniform(-3.0, 3.0, (n, 1)))
    box = jnp.asarray([4.5]), jnp.asarray([4.0])
    true = HilbertSpace(jnp.asarray([0.6]), *box, 24)
    theta = np.sqrt(1.5) * rng.normal(size=(24, E))
    y = jnp.asarray(np.asarray(true(X)) @ theta + np.sqrt(s2) * rng.normal(size=(n, E)))
    fit = fit_basis(HilbertSpace(jnp.asarray([start]), *box, 24), X, y)
    assert fit.steps > 0
    # About ten well-determined directions for each of twenty outputs: standard errors of a tenth and less.
    np.testing.assert_allclose(fit.noise_var, s2, rtol=5 * np.sqrt(2.0 / (n * E)))
    np.testing.assert_allclose(fit.basis.lengthscale, [0.6], rtol=0.15)
    np.testing.assert_allclose(fit.prior_var, 1.5, rtol=0.5)
    at_optimum = log_evidence(fit.basis(X), y, jnp.asarray(fit.prior_var), jnp.asarray(fit.noise_var))
    np.testing.assert_allclose(fit.log_evidence, at_optimum, rtol=1e-9)
    assert fit.log_evidence >= log_evidence(true(X), y, jnp.asarray(1.5), jnp.asarray(s2))
    scale = np.sqrt(np.mean(y**2, axis=0))
    noise_alone = norm.logpdf(y, 0.0, scale).sum()
    np.testing.assert_allclose(fit.gain, (fit.log_evidence - noise_alone) / (n * E), rtol=1e-9)


def test_pure_noise_gains_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    fit = fit_basis(Linear(2), jnp.asarray(X), jnp.asarray(y))
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
    fit = fit_basis(basis, jnp.asarray(X), jnp.asarray(y), start=0.3)
    assert np.isfinite([fit.log_evidence, fit.prior_var, fit.noise_var]).all()
    positive = [field for field, kind in fit.basis.trainable.items() if kind == "positive"]
    assert all((np.asarray(getattr(fit.basis, field)) > 0).all() for field in positive)
    assert fit.gain > 0.2
    assert fit.start == 0.3


@pytest.mark.parametrize("name", ["fourier", "rbf"])
def test_more_hyperparameters_find_more_evidence(name):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = jnp.asarray(np.sin(4.0 * X[:, :1] * X[:, 1:]) + 0.1 * rng.normal(size=(60, 1)))
    settings = {"num_features": 10, "start": 0.3, "key": keys.key(0)}
    drawn, trained = (BASES[family].from_data(X, **settings) for family in (name, f"{name}-optimised"))
    fits = [fit_basis(basis, jnp.asarray(X), y) for basis in (drawn, trained)]
    assert fits[1].log_evidence > fits[0].log_evidence + 10.0
    field = next(field for field, kind in trained.trainable.items() if kind == "real")
    assert (np.abs(getattr(fits[1].basis, field) - getattr(drawn, field)) > 1e-3).mean() > 0.9
    np.testing.assert_array_equal(getattr(fits[0].basis, field), getattr(drawn, field))
    np.testing.assert_allclose(
        fits[1].log_evidence,
        log_evidence(
            fits[1].basis(jnp.asarray(X)), y, jnp.asarray(fits[1].prior_var), jnp.asarray(fits[1].noise_var)
        ),
        rtol=1e-9,
    )


def test_only_what_is_named_is_trained():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (50, 1))
    basis = BASES["rbf"].from_data(X, num_features=5, start=0.3, key=keys.key(0))
    fit = fit_basis(basis, jnp.asarray(X), jnp.asarray(np.sin(3 * X)), trainable=("lengthscale",))
    np.testing.assert_array_equal(fit.basis.centres, basis.centres)
    assert not np.allclose(fit.basis.lengthscale, basis.lengthscale)


def test_the_prior_never_outdoes_the_noise_by_more_than_a_covariance_can_hold():
    """A straight line by waves of a thousand times the data's width: the evidence asks for all that it can get."""
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.normal(size=(60, 2)))
    y = X @ jnp.array([[1.0], [2.0]]) / 5.0**0.5
    drawn = Fourier.from_data(X, num_features=20, start=1.0, key=keys.key(0))
    basis = replace(drawn, lengthscale=jnp.full(2, 1e4))
    both = jax.value_and_grad(lambda flat: loss(flat, basis, (), X, y))
    start = ravel_pytree(unconstrain(basis, (), 1e6, 1e-3))[0]
    s2, v = np.exp(search(lambda flat: both(jnp.asarray(flat)), start, limits(basis, ()), 50).x)
    ratio = v * float(jnp.mean(jnp.sum(basis(X) ** 2, axis=1))) / s2
    assert 0.5 * MAX_RATIO < ratio < 1.2 * MAX_RATIO
    plain = -float(log_evidence(basis(X), y, jnp.asarray(v / 2), jnp.asarray(s2))) / 60
    flat = ravel_pytree(unconstrain(basis, (), v / 2, s2))[0]
    assert float(loss(flat, basis, (), X, y)) == pytest.approx(plain, rel=1e-9)  # within, nothing is changed
