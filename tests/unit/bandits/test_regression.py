"""Gaussian-process regression against the textbook's, with inverses and determinants, and against autodiff."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

from streamgp.bandits.problems import MovingBump
from streamgp.bandits.regression import (
    KERNELS,
    Hyperparameters,
    Posterior,
    default_hyperparameters,
    fit,
    gram,
    log_evidence,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Many fits: other tests call the same functions with checks of types and shapes."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def correlation(name: str, U: Any, V: Any, lengthscales: np.ndarray, xp: Any = np) -> Any:
    """Rasmussen and Williams (2006), Eqs. 4.9 and 4.17, in NumPy or JAX."""
    squared = xp.sum(xp.square((U[:, None, :] - V[None, :, :]) / lengthscales[None, None]), axis=-1)
    if name == "squared-exponential":
        return xp.exp(-squared / 2)
    r = xp.where(squared > 0, xp.sqrt(xp.where(squared > 0, squared, 1.0)), 0.0)
    if name == "matern-3/2":
        return (1 + np.sqrt(3) * r) * xp.exp(-np.sqrt(3) * r)
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * xp.exp(-np.sqrt(5) * r)


class Dense:
    """Eqs. 11 and 12 of the paper with an explicit inverse; an unknown mean by ordinary kriging's equations."""

    def __init__(self, name: str, data: dict[str, Any], mean: float | None, xp: Any = np) -> None:
        self.name, self.data, self.mean, self.xp = name, data, mean, xp
        self.C = self.covariance(data["U"], data["U"]) * data["decay"] + np.diag(data["noise_vars"])
        self.inverse = np.linalg.inv(self.C)

    def covariance(self, U: Any, V: Any) -> Any:
        return VARIANCE * correlation(self.name, U, V, LENGTHSCALES, self.xp)

    def cross(self, V: Any) -> Any:
        return self.covariance(self.data["U"], V) * self.data["now"][:, None]

    def at(self, V: Any) -> tuple[Any, Any]:
        """Means and covariance at points."""
        k, y = self.cross(V), self.data["y"]
        covariance = self.covariance(V, V) - k.T @ self.inverse @ k
        if self.mean is not None:
            return self.mean + k.T @ self.inverse @ (y - self.mean), covariance
        # Weights that sum to one and a Lagrange multiplier (Cressie 1993, Eqs. 3.2.12 to 3.2.15).
        n = len(y)
        bordered = np.block([[self.C, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        right = self.xp.concatenate([k, np.ones((1, k.shape[1]))])
        return (np.linalg.inv(bordered) @ right)[:n].T @ y, covariance


VARIANCE, LENGTHSCALES = 1.7, np.array([0.3, 0.7])
CASES = [(name, moving, mean) for name in KERNELS for moving in (False, True) for mean in (None, 0.4)]


def some_data(n: int = 14, moving: bool = False, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ages = np.arange(n, 0, -1.0)
    return {
        "U": rng.uniform(size=(n, 2)),
        "y": 3.0 + rng.normal(size=n),
        "noise_vars": 10.0 ** rng.uniform(-3, 0, n),
        "decay": 0.9 ** np.abs(ages[:, None] - ages) if moving else np.ones((n, n)),
        "now": 0.9**ages if moving else np.ones(n),
    }


def posterior_of(name: str, data: dict[str, Any], moving: bool, mean: float | None) -> Posterior:
    times = {"decay": data["decay"], "now": data["now"]} if moving else {}
    hyper = Hyperparameters(LENGTHSCALES, VARIANCE, 0.01, mean)
    return Posterior(KERNELS[name], hyper, data["U"], data["y"], data["noise_vars"], **times)


@pytest.mark.parametrize(("name", "moving", "mean"), CASES)
def test_posterior_is_the_textbooks(name, moving, mean):
    data = some_data(moving=moving)
    posterior, dense = posterior_of(name, data, moving, mean), Dense(name, data, mean)
    V = np.concatenate([np.random.default_rng(1).uniform(-0.5, 1.5, (9, 2)), data["U"][:3]])
    expected, covariance = dense.at(V)
    found, std = posterior.at(V)
    assert_allclose(found, expected, rtol=1e-9)
    assert_allclose(np.square(std), np.diag(covariance), rtol=1e-9)
    column = posterior.columns(V)
    assert_allclose([column(i) for i in range(len(V))], covariance, rtol=1e-9, atol=1e-12)
    root = np.sqrt(data["noise_vars"])
    K = dense.C - np.diag(root**2)
    assert_allclose(posterior.log_gain, np.linalg.slogdet(np.eye(len(K)) + K / np.outer(root, root))[1], rtol=1e-9)
    one = np.ones(len(K))
    level = one @ dense.inverse @ data["y"] / (one @ dense.inverse @ one) if mean is None else mean
    assert_allclose(posterior.mean_level, level, rtol=1e-9)


def test_many_points_are_gone_through_in_parts(monkeypatch):
    data = some_data(moving=True)
    posterior = posterior_of("matern-3/2", data, True, None)
    V = np.random.default_rng(1).uniform(size=(11, 2))
    whole = posterior.at(V)
    for at_once in (1, 3 * 28, 11 * 28):  # fewer differences than a point has, three points, all
        monkeypatch.setattr("streamgp.bandits.regression._MAX_DIFFERENCES", at_once)
        assert_allclose(posterior.at(V), whole, rtol=1e-13)
    assert [len(each) for each in posterior.at(np.zeros((0, 2)))] == [0, 0]


@pytest.mark.parametrize("mean", [None, 0.4])
@pytest.mark.parametrize("moving", [False, True])
def test_observations_of_one_point_count_as_they_are(moving, mean):
    data = some_data(moving=moving)
    data["U"] = data["U"][[0, 1, 2, 0, 3, 2, 2, 4, 5, 0, 6, 7, 6, 1]]
    posterior, dense = posterior_of("matern-5/2", data, moving, mean), Dense("matern-5/2", data, mean)
    V = np.concatenate([np.random.default_rng(1).uniform(size=(9, 2)), data["U"][:3]])
    expected, covariance = dense.at(V)
    found, std = posterior.at(V)
    assert_allclose(found, expected, rtol=1e-9)
    assert_allclose(np.square(std), np.diag(covariance), rtol=1e-9)
    assert_allclose(posterior.columns(V)(4), covariance[4], rtol=1e-9, atol=1e-12)
    gain = np.linalg.slogdet(dense.C)[1] - np.log(data["noise_vars"]).sum()
    assert_allclose(posterior.log_gain, gain, rtol=1e-9)
    h = 1e-5
    means, covariance = dense.at(np.concatenate([V[0] + h * np.eye(2), V[0] - h * np.eye(2)]))
    for derivative, ends in zip(posterior.gradients(V[0])[2:], (means, np.sqrt(np.diag(covariance))), strict=True):
        assert_allclose(derivative, (ends[:2] - ends[2:]) / (2.0 * h), rtol=1e-6)


def test_observations_of_one_point_do_not_spoil_the_factor():
    rng = np.random.default_rng(2)
    U = np.repeat(np.linspace(0.0, 1.0, 4)[:, None] * [1.0, 1.0], 500, axis=0)
    y = np.repeat([1.0, -1.0, 2.0, 0.5], 500) + 1e-6 * rng.normal(size=2000)
    hyper = Hyperparameters(LENGTHSCALES, VARIANCE, 1e-12)
    mean, std = Posterior(KERNELS["squared-exponential"], hyper, U, y, np.full(2000, 1e-12)).at(U[::500])
    assert_allclose(mean, y.reshape(4, 500).mean(axis=1), rtol=1e-9)
    assert_allclose(std, np.sqrt(1e-12 / 500), rtol=0.5)


@pytest.mark.parametrize("mean", [None, 0.4])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_without_observations_there_is_the_prior(name, moving, mean):
    posterior = posterior_of(name, some_data(0, moving), moving, mean)
    V = np.random.default_rng(0).uniform(size=(5, 2))
    level = mean or 0.0
    found, std = posterior.at(V)
    assert_array_equal(found, np.full(5, level))
    assert_array_equal(std, np.full(5, np.sqrt(VARIANCE)))
    assert_allclose(posterior.columns(V)(2), VARIANCE * correlation(name, V, V[2:3], LENGTHSCALES)[:, 0], rtol=1e-12)
    assert posterior.log_gain == 0.0
    at, spread, by_mean, by_std = posterior.gradients(V[0])
    assert (at, spread) == (level, np.sqrt(VARIANCE))
    assert_array_equal(by_mean, np.zeros(2))
    assert_array_equal(by_std, np.zeros(2))


def autodiff(dense: Dense) -> Any:
    """The gradients of mean and standard deviation of the dense formula, at each of some points."""
    traced = Dense(dense.name, dense.data, dense.mean, jnp)

    def at(v: Any) -> Any:
        mean, covariance = traced.at(v[None])
        return mean[0], jnp.sqrt(covariance[0, 0])

    return jax.jit(jax.vmap(jax.jacrev(at)))


@pytest.mark.parametrize(("name", "moving", "mean"), CASES[3::4] + CASES[:1])
def test_gradients_are_those_of_autodiff(name, moving, mean):
    data = some_data(moving=moving)
    posterior = posterior_of(name, data, moving, mean)
    # At observed points too, where distances are zero.
    V = np.concatenate([np.random.default_rng(1).uniform(-0.5, 1.5, (5, 2)), data["U"][:4]])
    means, stds = posterior.at(V)
    by_mean, by_std = autodiff(Dense(name, data, mean))(V)
    for i, v in enumerate(V):
        found = posterior.gradients(v)
        assert_allclose(found[:2], [means[i], stds[i]], rtol=1e-9)
        assert_allclose(found[2], by_mean[i], rtol=1e-7, atol=1e-9)
        assert_allclose(found[3], by_std[i], rtol=1e-7, atol=1e-9)


def test_gradients_are_finite_where_nothing_is_left_to_learn():
    U = np.linspace(0.0, 1.0, 60)[:, None]
    hyper = Hyperparameters(np.array([0.5]), 2.0, 1e-13)
    posterior = Posterior(KERNELS["squared-exponential"], hyper, U, np.sin(6.0 * U[:, 0]), np.full(60, 1e-13))
    mean, std = posterior.at(U)
    assert_allclose(mean, np.sin(6.0 * U[:, 0]), atol=1e-5)
    assert np.all((std >= 0.0) & (std < 1e-5))
    for u in U[::7]:
        mean, std, by_mean, by_std = posterior.gradients(u)
        assert_allclose(by_mean, 6.0 * np.cos(6.0 * u), atol=1e-2)
        assert 0.0 < std < 1e-5
        assert np.isfinite(by_std).all()
    posterior._L *= 1.0 - 1e-9  # as much as rounding may take, so that variances come out below zero
    assert posterior.at(U[30:31])[1] == 0.0
    _, std, _, by_std = posterior.gradients(U[30])
    assert 0.0 < std < 1e-5
    assert np.isfinite(by_std).all()


def by_scipy(name: str, logs: np.ndarray, data: dict[str, Any], mean: float | None) -> float:
    """The density of the rewards, at the logs of lengthscales, variance and noise variance."""
    C = np.exp(logs[2]) * correlation(name, data["U"], data["U"], np.exp(logs[:2])) * data["decay"]
    C += np.diag(np.exp(logs[3]) * data["factors"] + data["known_vars"])
    if mean is None:
        weights = np.linalg.inv(C).sum(axis=0)
        mean = weights @ data["y"] / weights.sum()
    return float(stats.multivariate_normal.logpdf(data["y"], np.full(len(C), mean), C))


@pytest.mark.parametrize(("name", "moving", "mean"), CASES)
def test_log_evidence_and_its_derivatives(name, moving, mean):
    data, rng = some_data(moving=moving, seed=3), np.random.default_rng(4)
    # The noise of some is known altogether, of others in part.
    data["known_vars"] = np.where(np.arange(14) < 6, rng.uniform(0.01, 0.1, 14), 0.0) if moving else np.zeros(14)
    data["factors"] = np.square(rng.integers(0, 4, 14)) + 1.0 - (data["known_vars"] > 0.0)
    logs = np.log([*LENGTHSCALES, VARIANCE, 0.03])
    hyper = Hyperparameters(LENGTHSCALES, VARIANCE, 0.03, mean)
    more = {"decay": data["decay"], "known_vars": data["known_vars"]} if moving else {}
    value, by_lengthscales, by_variance, by_noise = log_evidence(
        KERNELS[name], hyper, data["U"], data["y"], data["factors"], **more
    )
    assert_allclose(value, by_scipy(name, logs, data, mean), rtol=1e-9)
    h = 1e-4
    steps = [h * row for row in np.eye(4)]
    differences = [
        (by_scipy(name, logs + s, data, mean) - by_scipy(name, logs - s, data, mean)) / (2.0 * h) for s in steps
    ]
    assert_allclose([*by_lengthscales, by_variance, by_noise], differences, rtol=1e-5)


def drawn(
    seed: int, name: str, U: np.ndarray, lengthscales: np.ndarray, variance: float, noise_vars: np.ndarray
) -> np.ndarray:
    """A sample of a Gaussian process with noise."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(variance * correlation(name, U, U, lengthscales))
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(U)))
    return f + np.sqrt(noise_vars) * rng.normal(size=len(U))


def standard_errors(
    name: str, U: np.ndarray, lengthscales: np.ndarray, variance: float, noise_vars: np.ndarray
) -> np.ndarray:
    """Of the logs of a common factor of the lengthscales, of the variance and of the noise: Fisher's information."""

    def covariance(logs: np.ndarray) -> np.ndarray:
        factor, signal, noise = np.exp(logs)
        return signal * variance * correlation(name, U, U, factor * lengthscales) + np.diag(noise * noise_vars)

    inverse, h = np.linalg.inv(covariance(np.zeros(3))), 1e-4
    slopes = [inverse @ (covariance(h * e) - covariance(-h * e)) / (2.0 * h) for e in np.eye(3)]
    information = np.array([[0.5 * np.sum(a * b.T) for a in slopes] for b in slopes])
    return np.sqrt(np.diag(np.linalg.inv(information)))


def log_posterior(name: str, logs: np.ndarray, U: np.ndarray, y: np.ndarray, groups: np.ndarray) -> float:
    """Evidence, and the priors that `fit` states, on the scale of the rewards."""
    p, scale = len(logs) - 2, y.var()
    C = np.exp(logs[p]) * correlation(name, U, U, np.exp(logs[groups])) + np.exp(logs[-1]) * np.eye(len(y))
    inverse = np.linalg.inv(C)
    r = y - inverse.sum(axis=0) @ y / inverse.sum()
    modes = np.log([*np.full(p, 0.2 * np.sqrt(p)), scale, 0.02 * scale])
    away = (logs - modes) / np.array([*np.ones(p), 1.0, 2.0])
    return float(-0.5 * (r @ inverse @ r + np.linalg.slogdet(C)[1]) - 0.5 * away @ away)


@pytest.mark.parametrize(
    ("name", "lengthscale", "noise"), [("squared-exponential", 0.06, 0.05), ("matern-5/2", 0.05, 0.1)]
)
def test_fit_finds_what_the_data_were_drawn_with(name, lengthscale, noise, unchecked):
    n, lengths, seeds = 120, np.array([lengthscale]), range(8)
    rng = np.random.default_rng(1)
    U, factors = rng.uniform(0.0, 1.3, size=(n, 1)), rng.choice([1.0, 5.0], n)
    ratios = []
    for seed in seeds:
        y = 4.0 + drawn(seed, name, U, lengths, 1.5, noise * factors)
        hyper = fit(KERNELS[name], U, y, factors, np.zeros(1, int), {})
        assert hyper.mean is None
        ratios.append([hyper.lengthscales[0] / lengthscale, hyper.variance / 1.5, hyper.noise_var / noise])
    ratios = np.array(ratios)
    assert np.all((ratios[:, 0] > 1 / 1.5) & (ratios[:, 0] < 1.5))
    assert np.all((ratios[:, 2] > 1 / 2) & (ratios[:, 2] < 2))
    z = np.log(ratios) / standard_errors(name, U, lengths, 1.5, noise * factors)
    assert np.all(np.abs(z.sum(axis=0)) < 4.0 * np.sqrt(len(seeds)))
    low, high = stats.chi2(len(seeds)).ppf([1e-4, 1 - 1e-4])
    assert np.all((low < np.square(z).sum(axis=0)) & (np.square(z).sum(axis=0) < high))


def test_fit_tells_parameters_apart(unchecked):
    """Two numbers of unlike lengthscales, and three categories that share one."""
    n, groups, lengths = 110, np.array([0, 1, 2, 2, 2]), np.array([0.2, 0.8, 0.9, 0.9, 0.9])
    rng = np.random.default_rng(2)
    U = np.c_[rng.uniform(size=(n, 2)), np.sqrt(0.5) * np.eye(3)[rng.integers(3, size=n)]]
    y = drawn(3, "matern-5/2", U, lengths, 1.0, np.full(n, 0.01))
    hyper = fit(KERNELS["matern-5/2"], U, y, np.ones(n), groups, {})
    assert_allclose(hyper.lengthscales[[2, 2]], hyper.lengthscales[[3, 4]], rtol=1e-12)
    assert np.all(np.abs(np.log(hyper.lengthscales[:2] / lengths[:2])) < np.log(1.5))
    assert abs(np.log(hyper.noise_var / 0.01)) < np.log(2.0)
    best = np.log([*hyper.lengthscales[:3], hyper.variance, hyper.noise_var])
    top = log_posterior("matern-5/2", best, U, y, groups)
    for direction in np.concatenate([np.eye(5), -np.eye(5)]):
        assert log_posterior("matern-5/2", best + 0.05 * direction, U, y, groups) < top


def test_fit_knows_of_noise_that_is_known(unchecked):
    """Of every other observation it is a hundred times as much as of those whose noise is to be found."""
    n, rng = 120, np.random.default_rng(3)
    U, known = rng.uniform(size=(n, 1)), np.tile([0.0, 2.0], n // 2)
    y = drawn(6, "matern-5/2", U, np.array([0.2]), 1.0, 0.02 + known)
    for units in (1e-3, 1e3):
        hyper = fit(
            KERNELS["matern-5/2"], U, units * y, np.ones(n), np.zeros(1, int), {}, known_vars=units**2 * known
        )
        assert 0.01 < hyper.noise_var / units**2 < 0.04
        assert 0.1 < hyper.lengthscales[0] < 0.4
    without = fit(KERNELS["matern-5/2"], U, y, np.ones(n), np.zeros(1, int), {})
    assert without.noise_var > 0.4


def few(seed: int = 5, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    U = np.random.default_rng(seed).uniform(size=(n, 1))
    return U, 2.0 + drawn(seed, "matern-3/2", U, np.array([0.2]), 1.0, np.full(n, 0.04))


def fitted(U: np.ndarray, y: np.ndarray, fixed: dict[str, Any] | None = None) -> Hyperparameters:
    return fit(KERNELS["matern-3/2"], U, y, np.ones(len(y)), np.zeros(U.shape[1], int), fixed or {})


def test_fit_keeps_what_is_fixed():
    U, y = few()
    free = fitted(U, y)
    known = {"lengthscales": np.array([0.05]), "variance": 7.0, "noise_var": 0.3, "mean": 1.0}
    for name, value in known.items():
        hyper = fitted(U, y, {name: value})
        assert_allclose(getattr(hyper, name), value, rtol=1e-12)
        others = [other for other in known if other not in (name, "mean")]
        assert all(getattr(hyper, other) != pytest.approx(getattr(free, other), rel=1e-3) for other in others)
    hyper = fitted(U, y, known)
    for name, value in known.items():
        assert_allclose(getattr(hyper, name), value, rtol=1e-12)
    # The constant that is given counts: far off, only variance can explain the rewards.
    assert fitted(U, y, {"mean": 50.0}).variance > 100.0 * free.variance


@pytest.mark.parametrize(
    ("seed", "n", "lengthscale", "noise_var"),
    [(5, 40, 0.2, 0.04), (3, 20, 0.03, 0.3), (20, 20, 0.03, 0.3), (34, 15, 0.05, 0.3), (17, 10, 0.1, 0.3)],
)
def test_fit_finds_the_most_likely(seed, n, lengthscale, noise_var, unchecked):
    """Also where a longer lengthscale with more noise, or a shorter one with less, is a lesser optimum."""
    U = np.random.default_rng(seed).uniform(size=(n, 1))
    y = 2.0 + drawn(seed, "matern-3/2", U, np.array([lengthscale]), 1.0, np.full(n, noise_var))
    hyper = fitted(U, y)
    best = np.log([hyper.lengthscales[0], hyper.variance, hyper.noise_var])

    def less(logs: np.ndarray) -> float:
        return -log_posterior("matern-3/2", logs, U, y, np.zeros(1, int))

    scale = y.var()
    for start in (0.03, 0.15, 0.8):
        for noise in (0.01, 0.5):
            first = np.log([start, scale, noise * scale])
            rival = optimize.minimize(less, first, method="Nelder-Mead", options={"maxfev": 150})
            assert rival.fun > less(best) - 1e-3


def test_fit_does_not_depend_on_the_units_of_the_reward():
    U, y = few()
    fixed = {"noise_var": 0.05, "mean": 1.5}
    in_units = {"noise_var": 0.05e6, "mean": 1.5e3 + 1e4}
    for one, other in (
        (fitted(U, y), fitted(U, 1e3 * y + 1e4)),
        (fitted(U, y, fixed), fitted(U, 1e3 * y + 1e4, in_units)),
    ):
        assert_allclose(other.lengthscales, one.lengthscales, rtol=1e-4)
        assert_allclose([other.variance, other.noise_var], [1e6 * one.variance, 1e6 * one.noise_var], rtol=1e-4)


@pytest.mark.parametrize("level", [0.0, 0.1, -1e6 - 0.1])
def test_fit_survives_rewards_that_are_all_equal(level):
    U = np.random.default_rng(0).uniform(size=(7, 2))
    hyper = fitted(U, np.full(7, level))
    zero = fitted(U, np.zeros(7))
    assert_allclose(hyper.lengthscales, zero.lengthscales, rtol=1e-5)
    assert_allclose([hyper.variance, hyper.noise_var], [zero.variance, zero.noise_var], rtol=1e-5)
    assert 1e-3 < hyper.variance < 10.0


def test_fit_survives_few_rows():
    for n in (1, 2, 5):
        U, y = few(n=n)
        hyper = fitted(U, y)
        assert np.isfinite([*hyper.lengthscales, hyper.variance, hyper.noise_var]).all()
        assert 0.02 < hyper.lengthscales[0] < 2.0  # the prior has its say


def test_defaults_are_the_modes_of_the_priors():
    y = np.array([1.0, 3.0, 5.0])
    # Distances grow with the root of the number of parameters, however many coordinates a category takes.
    hyper = default_hyperparameters(y, np.array([0, 1, 1, 1, 2, 3]))
    assert_allclose(hyper.lengthscales, np.full(6, 0.2 * 2.0))
    assert_allclose([hyper.variance, hyper.noise_var], [y.var(), 0.02 * y.var()])
    assert hyper.mean is None
    for few_or_equal in (np.zeros(0), np.array([7.0]), np.full(7, 0.1)):
        hyper = default_hyperparameters(few_or_equal, np.zeros(1, int))
        assert_allclose([hyper.variance, hyper.noise_var], [1.0, 0.02])


def test_constants_of_the_papers_function(unchecked):
    """What the reproduction takes as known, from snapshots of the function at random times."""
    problem, rng = MovingBump(), np.random.default_rng(0)
    unit, snapshot = problem.space.unit, np.repeat(np.arange(10), 40)
    inputs = [unit[rng.choice(len(unit), 40, replace=False)] for _ in range(10)]
    y = np.concatenate([problem.value(U, int(rng.integers(1, 501))) for U in inputs]) + 0.1 * rng.normal(size=400)
    same = (snapshot[:, None] == snapshot).astype(float)
    kernel = KERNELS["squared-exponential"]
    hyper = fit(kernel, np.concatenate(inputs), y, np.ones(400), np.zeros(1, int), {"mean": 1.548}, same)
    assert 0.05 < hyper.lengthscales[0] < 0.075
    assert 0.15 < hyper.variance < 0.45
    assert 0.008 < hyper.noise_var < 0.0125
    assert hyper.mean == 1.548


def test_kernels_go_by_the_names_of_their_formulas():
    U, V = np.random.default_rng(0).uniform(size=(2, 6, 2))
    for name, kernel in KERNELS.items():
        found = gram(kernel, Hyperparameters(LENGTHSCALES, VARIANCE, 0.1), U, V[:4])
        assert_allclose(found, VARIANCE * correlation(name, U, V[:4], LENGTHSCALES), rtol=1e-12)
