"""Laplace sampling: the Hessian against automatic differentiation, the samples against known Gaussians."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import BASES, Basis, Fourier, HilbertSpace, Linear
from streamgp.models.fitting import hyperparameter_samples as laplace
from streamgp.models.fitting.gaussian_evidence import NOISE_FLOOR, Fit, fit_basis, loss_and_gradient, unconstrain
from streamgp.models.fitting.hyperparameter_samples import (
    MAX_VARIANCE,
    PERTURBATION,
    covariance_root,
    evidence_hessian,
    laplace_samples,
)
from streamgp.models.fitting.hyperparameters import constrain, flatten, unflatten
from streamgp.models.gaussian.warmup import fit_ensemble
from streamgp.models.presets import IE_GP_DICTIONARY
from streamgp.models.registry import make_spec
from streamgp.numerics import keys
from streamgp.numerics.checkpoint import load, save
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp.weights import Share

pytestmark = pytest.mark.slow

KEY = keys.key(0)


def rows(n: int, inputs: int = 2, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (n, inputs))
    phase = np.arange(outputs)
    return X, np.sin(3.0 * X[:, :1] + phase) + 0.2 * rng.normal(size=(n, outputs))


def coordinates(fit: Fit) -> np.ndarray:
    """The optimum or sample in logs, as the sampler sees it."""
    return flatten(unconstrain(fit.basis, tuple(fit.basis.trainable), fit.prior_var, fit.noise_var))


def spread_of(samples: list[Fit], optimum: Fit) -> np.ndarray:
    return np.stack([coordinates(sample) for sample in samples]) - coordinates(optimum)


# Gradient and Hessian


def log_evidence_of(basis: Basis, names: tuple[str, ...], X: np.ndarray, y: np.ndarray) -> Callable[..., Any]:
    """The log density of the targets as it is written down, for JAX to differentiate, of flat coordinates."""
    like: dict[str, Any] = unconstrain(basis, names)

    def log_density(flat: jax.Array) -> jax.Array:
        hyper = unflatten(flat, like)
        Phi = constrain(basis, names, hyper)(jnp.asarray(X))
        K = jnp.exp(hyper["log_prior_var"]) * Phi @ Phi.T + jnp.exp(hyper["log_noise_var"]) * jnp.eye(len(X))
        fit = jnp.sum(y * jnp.linalg.solve(K, y))
        return -0.5 * (fit + y.shape[1] * (jnp.linalg.slogdet(K)[1] + len(X) * jnp.log(2 * jnp.pi)))

    return log_density


@pytest.mark.parametrize(
    ("family", "n"),
    [("fourier-optimised", 40), ("fourier", 3), ("nystrom", 30), ("hilbert", 30), ("rbf-optimised", 30)],
)
def test_gradient_and_hessian_are_those_of_automatic_differentiation(family: str, n: int):
    X, y = rows(n, outputs=2)
    basis = BASES[family].from_data(X, num_features=4, start=0.4, key=KEY)
    names = tuple(basis.trainable)
    flat = flatten(unconstrain(basis, names, 0.7, 0.1))
    log_density = log_evidence_of(basis, names, X, y)
    value, gradient = loss_and_gradient(flat, basis, names, X, y)
    wanted, slope = jax.jit(jax.value_and_grad(log_density))(flat)
    np.testing.assert_allclose(-y.size * value, wanted, rtol=1e-10)
    np.testing.assert_allclose(-y.size * gradient, slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    hessian = evidence_hessian(flat, basis, names, X, y)
    expected = -np.asarray(jax.jit(jax.hessian(log_density))(flat))
    np.testing.assert_allclose(hessian, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_array_equal(hessian, hessian.T)
    some = np.array([0, flat.size - 1])
    part = evidence_hessian(flat, basis, names, X, y, some)
    np.testing.assert_allclose(part, hessian[np.ix_(some, some)], rtol=1e-12)


# From a Hessian to samples


def test_flat_and_rising_directions_get_the_largest_variance_and_no_other_is_touched():
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    root = covariance_root((directions * [-30.0, 0.0, 4.0, 100.0]) @ directions.T)
    expected = (directions * [MAX_VARIANCE, MAX_VARIANCE, 1 / 4, 1 / 100]) @ directions.T
    np.testing.assert_allclose(root @ root, expected, rtol=1e-12, atol=1e-14)


def test_a_gaussian_posterior_is_sampled_with_its_own_covariance(monkeypatch: pytest.MonkeyPatch):
    mixing = np.random.default_rng(1).normal(size=(4, 4))
    precision = mixing @ mixing.T + 1.5 * np.eye(4)  # stronger than what counts as flat
    basis = HilbertSpace(np.array([0.5, 2.0]), np.array([2.0, 2.0]), np.array([2.0, 2.0]), 3)
    optimum = Fit(basis, 0.8, 0.3, 0.0, 0.0, 1.0, 1)
    X, y = rows(6)

    middle = coordinates(optimum)

    def toy(flat: np.ndarray, *_: Any) -> tuple[float, np.ndarray]:
        away = flat - middle
        return 0.5 * away @ precision @ away / y.size, precision @ away / y.size

    monkeypatch.setattr(laplace, "loss_and_gradient", toy)
    N = 400
    samples = laplace_samples(optimum, basis, ("lengthscale",), X, y, N, KEY)
    away = spread_of(samples, optimum) @ np.linalg.cholesky(precision)  # standard normal
    assert np.abs(away.mean(0)).max() < 4.5 / np.sqrt(N)
    error = (away.T @ away / N - np.eye(4)) * np.sqrt(N / (1 + np.eye(4)))  # each entry in its standard error
    assert np.abs(error).max() < 4.5
    assert np.abs(error).max() > 0.05
    # And each says by how much it is worse than the optimum.
    np.testing.assert_allclose([sample.log_evidence for sample in samples[:50]], -0.5 * (away[:50] ** 2).sum(1))


def test_samples_of_a_well_determined_optimum_lose_the_evidence_that_a_parabola_would():
    """Twice what is lost follows a chi-squared law with as many degrees of freedom as hyperparameters."""
    X, y = rows(300, inputs=1, outputs=8)
    basis = BASES["hilbert"].from_data(X, num_features=10, start=0.5, key=KEY)
    optimum = fit_basis(basis, X, y)
    N, p = 100, 3
    samples = laplace_samples(optimum, basis, ("lengthscale",), X, y, N, KEY)
    lost = np.asarray([optimum.log_evidence - sample.log_evidence for sample in samples])
    # A tenth for what the parabola leaves out.
    assert abs(2 * lost.mean() - p) < 4.5 * np.sqrt(2 * p / N) + 0.1 * p


def test_an_input_of_no_use_does_not_run_away():
    X, y = rows(100)
    basis = BASES["hilbert"].from_data(X, num_features=12, start=1.0, key=KEY)
    assert isinstance(basis, HilbertSpace)
    basis = replace(basis, lengthscale=np.array([basis.lengthscale[0], 1e3]))  # no part of the function
    optimum = fit_basis(basis, X, y)
    N = 80
    samples = laplace_samples(optimum, basis, ("lengthscale",), X, y, N, KEY)
    relevant, useless = np.sqrt((spread_of(samples, optimum)[:, :2] ** 2).mean(0))
    assert abs(useless / np.sqrt(MAX_VARIANCE) - 1.0) < 4.5 / np.sqrt(2 * N)
    assert relevant < 0.5


def test_what_stands_at_its_bound_stays_there():
    X, _ = rows(50)
    y = X[:, :1] - X[:, 1:]  # without noise
    optimum = fit_basis(Linear(2), X, y)
    assert optimum.noise_var == pytest.approx(NOISE_FLOOR)
    samples = laplace_samples(optimum, Linear(2), (), X, y, 20, KEY)
    assert [sample.noise_var for sample in samples] == pytest.approx([NOISE_FLOOR] * 20)
    assert len({sample.prior_var for sample in samples}) == 20


def test_samples_stay_within_the_bounds_of_the_fit(monkeypatch: pytest.MonkeyPatch):
    X, y = rows(50)
    optimum = replace(fit_basis(Linear(2), X, y), noise_var=1.5 * NOISE_FLOOR)
    monkeypatch.setattr(laplace, "evidence_hessian", lambda *_: np.zeros((2, 2)))
    noise = np.asarray([s.noise_var for s in laplace_samples(optimum, Linear(2), (), X, y, 20, KEY)])
    assert noise.min() == pytest.approx(NOISE_FLOOR)
    assert noise.max() > 2 * NOISE_FLOOR


def test_many_hyperparameters_are_perturbed_instead(monkeypatch: pytest.MonkeyPatch):
    X, y = rows(30, inputs=8)
    basis = BASES["fourier-optimised"].from_data(X, num_features=100, start=1.0, key=KEY)
    monkeypatch.setattr(laplace, "evidence_hessian", None)
    optimum = Fit(basis, 1.0, 0.25, 0.0, 0.0, 1.0, 1)
    samples = laplace_samples(optimum, basis, ("frequencies", "lengthscale"), X, y, 5, KEY)
    names = ("frequencies", "lengthscale")
    at, *moved = (flatten(unconstrain(fit.basis, names, fit.prior_var, fit.noise_var)) for fit in (optimum, *samples))
    steps = np.stack(moved) - at
    assert steps.shape == (5, 50 * 8 + 8 + 2)
    assert abs(steps.mean()) < 4.5 * np.sqrt(PERTURBATION / steps.size)
    assert abs(steps.var() / PERTURBATION - 1.0) < 4.5 * np.sqrt(2 / steps.size)


def test_more_samples_leave_the_first_ones_as_they_are():
    X, y = rows(40)
    basis = BASES["fourier"].from_data(X, num_features=8, start=0.5, key=KEY)
    optimum = fit_basis(basis, X, y)
    few, many, other = (
        spread_of(laplace_samples(optimum, basis, ("lengthscale",), X, y, count, keys.key(seed)), optimum)
        for count, seed in ((2, 0), (4, 0), (2, 1))
    )
    np.testing.assert_array_equal(few, many[:2])
    assert not np.isclose(few, other).any()
    assert len(np.unique(many)) == many.size


# Ensembles


def ensemble_of(n_samples: int, **changes: Any) -> tuple[Any, list[str]]:
    X, y = rows(60)
    options = {"bases": ["fourier", "linear"], "features_per_basis": 6, "dynamics": ["static", "walk 0.01"]} | changes
    model, table = fit_ensemble(make_spec("e-doebe", n_samples=n_samples, **options), X, y, seed=3, time_unit=1.0)
    return model, [expert.basis for expert in table][:: len(options["dynamics"])]


def hyperparameters(model: Any) -> dict[int, tuple[float, ...]]:
    """(v, s2) of the experts, in the order of the table."""
    pairs = np.concatenate(
        [np.stack([g.noise.prior_var, g.noise.noise_var], -1).reshape(-1, 2) for g in model.groups]
    )
    return {position: tuple(pairs[i]) for i, position in enumerate(model.order)}


def test_every_optimum_is_followed_by_its_samples():
    alone, optima = ensemble_of(1)
    more, labels = ensemble_of(3)
    assert labels == [f"{label}{suffix}" for label in optima for suffix in ("", " sample 2", " sample 3")]
    assert optima[-1] == "linear" and len(optima) > 2
    assert isinstance(more.rule, Share)
    # E-DOEBE switches between the two dynamics of each, never between samples.
    np.testing.assert_array_equal(more.rule.groups, np.repeat(np.arange(len(labels)), 2))
    before, after = hyperparameters(alone), hyperparameters(more)
    for i in range(len(optima)):
        assert after[6 * i] == before[2 * i]
        assert len({after[6 * i + 2 * j] for j in range(3)}) == 3


def test_samples_count_for_nothing_when_starts_are_chosen():
    X, y = rows(60)
    spec = replace(make_spec("oebe", bases=["fourier"], features_per_basis=6, n_samples=4), most_features=12)
    _, table = fit_ensemble(spec, X, y, seed=0, time_unit=1.0)
    _, optima = fit_ensemble(replace(spec, n_samples=1), X, y, seed=0, time_unit=1.0)
    assert len(optima) == 2
    assert [expert.name for expert in table[::4]] == [expert.name for expert in optima]


def test_progress_has_a_step_for_the_samples():
    X, y = rows(30)
    said: list[tuple[int, int]] = []
    spec = make_spec("linear", n_samples=2)
    fit_ensemble(spec, X, y, seed=0, time_unit=1.0, progress=lambda *both: said.append(both))
    assert said == [(0, 2), (1, 2), (2, 2)]


def test_a_learner_with_samples_goes_on_bit_for_bit(tmp_path: Path):
    X, y = rows(80)
    spec = replace(make_spec("linear", n_samples=2, lags=1), without_lags=True)
    whole = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=40))
    list(whole.learn(X[:60], y[:60]))
    names = ["linear", "linear sample 2", "linear without lags", "linear sample 2 without lags"]
    assert [expert.name for expert in whole.experts] == names
    save(tmp_path / "saved", whole.to_tree(), {})
    resumed = StreamLearner.from_tree(load(tmp_path / "saved")[0])
    assert resumed.spec.n_samples == 2
    for learner in (whole, resumed):
        list(learner.learn(X[60:], y[60:]))
    np.testing.assert_array_equal(whole.weights, resumed.weights)
    np.testing.assert_array_equal(whole.predict(X[:5]).mean, resumed.predict(X[:5]).mean)


def test_fixed_lengthscales_leave_the_frequencies_to_train():
    X, y = rows(60)
    drawn, trained = (
        fit_ensemble(make_spec("ie-gp", bases=[family], features_per_basis=4), X, y, seed=0, time_unit=1.0)
        for family in ("fourier", "fourier-optimised")
    )
    for model, _ in (drawn, trained):
        basis = model.groups[0].basis
        assert isinstance(basis, Fourier)
        assert set(np.unique(np.asarray(basis.lengthscale))) <= {np.float64(scale) for scale in IE_GP_DICTIONARY}
    assert max(expert.gain for expert in trained[1]) > max(expert.gain for expert in drawn[1])
