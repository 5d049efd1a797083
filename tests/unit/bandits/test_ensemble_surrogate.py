"""The ensemble as a model of a moving function: against dense Gaussian processes, in any unit, of one size."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
import pytest
from jaxtyping import config
from numpy.testing import assert_allclose, assert_array_equal

from oracles.ensemble_loop import weigh
from streamgp.bandits.ensemble_surrogate import DYNAMICS, LENGTHSCALES, NOISE_VARS, SCALE_ROWS, EnsembleSurrogate
from streamgp.bases import HilbertSpace
from streamgp.numerics import keys

GRID = np.linspace(0.0, 1.0, 41)[:, None]


@pytest.fixture(autouse=True)
def unchecked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Eighty experts, hundreds of rows: one test has checks of types and shapes."""
    config.update("jaxtyping_disable", "unknown" not in request.node.name)
    yield
    config.update("jaxtyping_disable", False)


class Rows(NamedTuple):
    U: np.ndarray
    y: np.ndarray
    times: np.ndarray


def moving(n: int, seed: int = 0, pace: float = 0.02, most: int = 9) -> Rows:
    """A sine that moves, at times of which each has one to so many rows."""
    rng = np.random.default_rng(seed)
    times = np.repeat(np.cumsum(rng.choice([0.5, 1.0, 2.0], n)), rng.integers(1, most + 1, n))[:n]
    U = rng.uniform(size=(n, 1))
    y = 40.0 + 5.0 * np.sin(6.0 * U[:, 0] + pace * times) + 0.7 * rng.normal(size=n)
    return Rows(U, y, times)


def learnt(rows: Rows) -> EnsembleSurrogate:
    """What knows these rows: those of one time came at once."""
    model = EnsembleSurrogate(np.arange(rows.U.shape[1]), 0)
    ends = np.append(np.flatnonzero(np.diff(rows.times)) + 1, len(rows.y))
    for begin, end in zip([0, *ends], ends, strict=False):
        model.learn(rows.U[begin:end], rows.y[begin:end], float(rows.times[begin]))
    return model


def settled_after(rows: Rows) -> int:
    """How many rows the scale of the rewards was taken from: all, when there were first 1, 2, 4, ... 128."""
    counts = np.append(np.flatnonzero(np.diff(rows.times)) + 1, len(rows.y)).tolist()
    beyond = max(2**k for k in range(8) if 2**k <= len(rows.y))
    return next(count for count in counts if count >= beyond)


def by_hand(rows: Rows, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, mean and standard deviation of a mixture of dense Gaussian processes with temporal kernels."""
    first = rows.y[: settled_after(rows)]
    z = (rows.y - first.mean()) / first.std()
    log_density, means, variances = [], [], []
    for lengthscale in LENGTHSCALES:
        # On [-1, 1] a range is two long.
        basis = HilbertSpace.from_data(np.array([[-1.0], [1.0]]), num_features=40, start=lengthscale, key=keys.key(0))
        Phi, at = (np.asarray(basis(2.0 * U - 1.0)) for U in (rows.U, GRID))
        # Long lengthscales feel the walls of the box.
        kernel, inner = np.exp(-0.5 * np.square((GRID - GRID.T) / lengthscale)), slice(10, 31)
        assert_allclose((at @ at.T)[inner, inner], kernel[inner, inner], atol=0.05)
        for dynamics in DYNAMICS:
            decay = 1.0 if dynamics == "static" else float(dynamics.split()[1])
            K = Phi @ Phi.T * decay ** np.abs(rows.times[:, None] - rows.times)
            k = Phi @ at.T * (decay ** (time - rows.times))[:, None]
            for noise_var in NOISE_VARS:
                L = np.linalg.cholesky(K + noise_var * np.eye(len(z)))
                errors, half = np.linalg.solve(L, z), np.linalg.solve(L, k)
                log_density.append(-0.5 * errors**2 - np.log(np.diag(L)) - 0.5 * np.log(2.0 * np.pi))
                means.append(half.T @ errors)
                variances.append(np.sum(at**2, axis=1) - np.sum(half**2, axis=0))
    size, experts = len(DYNAMICS) * len(NOISE_VARS), len(means)
    switch = 0.01 / (size - 1)
    same = np.kron(np.eye(len(LENGTHSCALES)), np.full((size, size), switch) + (0.99 - switch) * np.eye(size))
    Q = 0.998 * same + 0.002 / experts
    weights = Q @ np.exp(weigh(np.array(log_density).T, transition=Q).after[-1])
    mean = weights @ np.array(means)
    var = weights @ (np.array(variances) + np.square(np.array(means) - mean))
    return weights, first.mean() + first.std() * mean, first.std() * np.sqrt(var)


@pytest.mark.parametrize("n", [3, 29, 170])
def test_it_is_a_mixture_of_gaussian_processes(n):
    rows = moving(n)
    model = learnt(rows)
    for later in (0.0, 3.5):
        weights, mean, std = by_hand(rows, rows.times[-1] + later)
        found = model.at(GRID, float(rows.times[-1]) + later)
        assert_allclose(found[0], mean, rtol=1e-6)
        assert_allclose(found[1], std, rtol=1e-5)
    assert_allclose(list(model.weights.values()), weights, atol=1e-7)


def test_the_first_reward_is_the_mean_of_all():
    model = EnsembleSurrogate(np.array([0]), 0)
    model.learn(np.array([[0.3]]), np.array([-7.0]), 12.0)
    mean, std = model.at(np.array([[0.3], [0.9]]), 12.0)
    assert_allclose(mean[0], -7.0, rtol=1e-12)
    assert 0.1 < std[0] < 0.4 < 0.9 < std[1]  # in units that are not known yet


def test_nothing_is_known_of_what_is_unknown():
    model = EnsembleSurrogate(np.array([0]), 0)
    model.learn(np.zeros((0, 1)), np.zeros(0), 3.0)
    mean, std = model.at(GRID, 1.0)
    assert_array_equal(mean, np.zeros(41))
    assert_allclose(std, 1.0, atol=0.07)
    assert len(model.at(GRID[:0], 1.0)[0]) == 0
    names = list(model.weights)
    assert len(set(names)) == len(names) == 80
    assert names[0] == "lengthscale 0.05, static, noise 0.0001"
    assert_allclose(sum(model.weights.values()), 1.0)


def test_several_parameters_share_a_kernel():
    U = np.random.default_rng(1).uniform(size=(30, 3))
    model = EnsembleSurrogate(np.array([0, 1, 1]), 4)._model
    bases = {}
    for group in model.groups:
        for i in range(len(group.basis.lengthscale)):
            basis = jax.tree.map(lambda a, i=i: a[i], group.basis)
            bases[float(basis.lengthscale[0])] = np.asarray(basis(2.0 * U - 1.0))
    # Two parameters: each lengthscale is sqrt(2) times as long, in ranges that are two long.
    assert_allclose(sorted(bases), 2.0 * np.sqrt(2.0) * np.array(LENGTHSCALES))
    apart = np.sum(np.square(U[:, None] - U[None]), axis=2)
    for lengthscale, phi in zip(LENGTHSCALES, (bases[key] for key in sorted(bases)), strict=True):
        error = phi @ phi.T - np.exp(-0.25 * apart / lengthscale**2)
        assert np.abs(np.diag(error)).max() < 1e-9
        assert np.sqrt(np.mean(error**2)) < 1.3 * np.sqrt(0.5 / 64)  # of 64 frequencies


def test_units_of_the_reward_make_no_difference():
    rows = moving(150, seed=2)
    mean, std = learnt(rows).at(GRID, 500.0)
    other = learnt(rows._replace(y=1e-3 * rows.y - 7.0)).at(GRID, 500.0)
    assert_allclose(other[0], 1e-3 * mean - 7.0, rtol=1e-9)
    assert_allclose(other[1], 1e-3 * std, rtol=1e-6)


@pytest.mark.parametrize("width", [1, 2])
def test_what_it_says_of_a_smooth_function_is_true(width):
    n, inside, error, spread, prior = 160, [], [], [], []
    at = np.random.default_rng(9).uniform(size=(300, width))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        phase, pace = rng.uniform(0.0, 6.0), rng.uniform(3.0, 7.0)
        U = rng.uniform(size=(n, width))
        f, truth = (10.0 * np.sin(pace * V[:, 0] + phase) * np.cos(2.0 * V[:, -1]) for V in (U, at))
        rows = Rows(U, f + rng.normal(size=n), np.repeat(np.arange(n // 8, dtype=float), 8))
        mean, std = learnt(rows).at(at, n / 8.0)
        inside.append(np.abs(mean - truth) <= 2.0 * std)
        error.append(mean - truth)
        spread.append(std)
        prior.append(truth - f.mean())
    assert np.sqrt(np.mean(np.square(error))) < 0.15 * np.sqrt(np.mean(np.square(prior)))
    assert 0.85 <= np.mean(inside) <= 1.0
    assert 0.2 < np.sqrt(np.mean(np.square(error)) / np.mean(np.square(spread))) < 1.2


def test_weights_go_to_the_pace_at_which_the_function_moves():
    for pace, static in ((0.0, (0.25, 1.0)), (0.3, (0.0, 0.05))):
        weights = learnt(moving(300, pace=pace, most=29)).weights
        assert_allclose(sum(weights.values()), 1.0)
        share = sum(weight for name, weight in weights.items() if "static" in name)
        assert static[0] < share < static[1]


def test_the_state_does_not_grow_once_it_has_settled():
    rows = moving(420)
    model, sizes = EnsembleSurrogate(np.array([0]), 0), []
    for begin in range(0, 420, 42):
        model.learn(rows.U[begin : begin + 42], rows.y[begin : begin + 42], float(begin))
        leaves = jax.tree.leaves(model.to_tree())
        sizes.append([np.size(leaf) for leaf in leaves])
    at = SCALE_ROWS // 42
    assert all(size == sizes[at] for size in sizes[at:])
    assert sum(sizes[at - 1]) > sum(sizes[at])  # up to there the rows were kept as well
