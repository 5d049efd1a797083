"""The synthetic streams against their definitions."""

import numpy as np
import pytest

from streamgp.table import drifting_linear, friedman, sum_of_sines, switching_gaussian_processes, switching_sines


def test_switching_sines_changes_where_it_says() -> None:
    X, y = switching_sines(300, np.random.default_rng(0), change_points=[200, 100], noise=0.0)
    assert X.shape == (300, 1)
    assert (np.abs(X) <= 3.0).all()
    slow, fast = np.sin(X[:, 0]), np.sin(3.0 * X[:, 0])
    np.testing.assert_allclose(y, np.r_[slow[:100], fast[100:200], slow[200:]], rtol=1e-12)


def test_friedman_reverses_its_inputs_at_the_change_point() -> None:
    X, y = friedman(40, np.random.default_rng(0), change_points=[20], noise=0.0)
    assert X.shape == (40, 10)
    for i in (0, 19, 20, 39):
        a, b, c, d, e = X[i, :5] if i < 20 else X[i, [4, 3, 2, 1, 0]]
        assert y[i] == pytest.approx(10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e, rel=1e-12)


def test_friedman_without_changes_is_scikit_learns() -> None:
    from sklearn.datasets import make_friedman1

    X, y = friedman(5000, np.random.default_rng(0))
    _, reference = make_friedman1(5000, noise=1.0, random_state=1)
    error = np.sqrt((y.var() + reference.var()) / 5000)
    assert abs(y.mean() - reference.mean()) < 4.5 * error
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    assert abs((y - mean).var() - 1.0) < 4.5 * np.sqrt(2 / 5000)


def test_drifting_linear_stands_still_or_walks() -> None:
    X, y = drifting_linear(500, np.random.default_rng(0), num_inputs=3, drift=0.0, noise=0.0)
    _, residual, *_ = np.linalg.lstsq(X, y, rcond=None)
    assert residual[0] < 1e-20 * len(y)

    # One input shows the coefficient itself: its steps are normal with the stated deviation.
    X, y = drifting_linear(5000, np.random.default_rng(1), num_inputs=1, drift=0.2, noise=0.0)
    steps = np.diff(y / X[:, 0])
    assert abs(np.mean(np.square(steps)) / 0.04 - 1.0) < 4.5 * np.sqrt(2 / 5000)


def test_sum_of_sines() -> None:
    X, y = sum_of_sines(2000, np.random.default_rng(0), std=10.0, noise=0.0)
    np.testing.assert_allclose(y, np.sin(2 * X[:, 0]) + np.sin(3 * X[:, 0]), rtol=1e-12)
    assert abs(np.var(X) / 100.0 - 1.0) < 4.5 * np.sqrt(2 / 2000)


def test_switching_gaussian_processes_have_their_kernels() -> None:
    X, y = switching_gaussian_processes(1000, np.random.default_rng(0), lengthscales=(0.5, 0.01), noise=0.3)
    for x, part, lengthscale in ((X[:500], y[:500], 0.5), (X[500:], y[500:], 0.01)):
        K = np.exp(-0.5 * (x - x.T) ** 2 / lengthscale**2) + 0.09 * np.eye(500)
        white = np.linalg.solve(np.linalg.cholesky(K), part)
        assert abs(np.mean(white**2) - 1.0) < 4.5 * np.sqrt(2 / 500)
        assert abs(np.mean(white[1:] * white[:-1])) < 4.5 / np.sqrt(500)


def test_noise_has_the_stated_deviation() -> None:
    for make in (switching_sines, drifting_linear, sum_of_sines):
        _, quiet = make(5000, np.random.default_rng(3), noise=0.0)
        _, noisy = make(5000, np.random.default_rng(3), noise=0.5)
        assert abs(np.var(noisy - quiet) / 0.25 - 1.0) < 4.5 * np.sqrt(2 / 5000)


@pytest.mark.parametrize(
    "make", [switching_sines, drifting_linear, friedman, sum_of_sines, switching_gaussian_processes]
)
def test_same_seed_same_stream(make) -> None:
    (X, y), (again_X, again_y) = make(10, np.random.default_rng(5)), make(10, np.random.default_rng(5))
    assert y.shape == (10,)
    np.testing.assert_array_equal(X, again_X)
    np.testing.assert_array_equal(y, again_y)
