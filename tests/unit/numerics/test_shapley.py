"""Shapley effects beside closed forms."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.numerics.shapley import shapley_effects

N = 2048


def effects(X: np.ndarray, f: np.ndarray, groups: Any = None) -> np.ndarray:
    found = shapley_effects(X, f.reshape(N, -1), groups or [[i] for i in range(X.shape[1])])
    assert (found >= 0.0).all()
    assert_allclose(found.sum(axis=0), 1.0, rtol=1e-9)
    return found[:, 0] if f.ndim == 1 else found


def normal(columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, columns))


def of_a_plane(slopes: Any, cov: np.ndarray) -> np.ndarray:
    """The closed form for a plane of two normal inputs (Owen and Prieur 2017)."""
    (a, b), (va, vb), c = slopes, np.diag(cov), cov[0, 1]
    rho = c / np.sqrt(va * vb)
    one = a * a * va * (1 - rho**2 / 2) + a * b * c + b * b * vb * rho**2 / 2
    total = a * a * va + b * b * vb + 2 * a * b * c
    return np.array([one, total - one]) / total


@pytest.mark.parametrize("slopes", [(2.0, 1.0), (2.0, 0.0), (3.0, -1.0)])
@pytest.mark.parametrize("rho", [0.0, 0.5, -0.8, 0.99])
def test_a_plane_of_two_correlated_inputs(slopes: Any, rho: float):
    z = normal(2)
    X = np.column_stack([z[:, 0], rho * z[:, 0] + np.sqrt(1 - rho**2) * z[:, 1]])
    assert_allclose(effects(X, X @ slopes), of_a_plane(slopes, np.cov(X.T)), atol=0.02)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize("slopes", [(1.0, 1.0, 1.0), (2.0, 1.0, 0.0), (50.0, 1.0, -48.0)])
def test_copies_have_half_each(noise: float, slopes: Any):
    z = normal(3)
    X = np.column_stack([z[:, 0], z[:, 1], z[:, 0] + noise * z[:, 2]])
    assert_allclose(effects(X, X @ slopes), [0.4, 0.2, 0.4], atol=0.03)


def test_an_interaction_is_shared_equally():
    X = normal(4)
    assert_allclose(effects(X, X[:, 0] * X[:, 1]), [0.5, 0.5, 0.0, 0.0], atol=0.02)
    f = X[:, 0] + X[:, 2] + X[:, 0] * X[:, 1]
    assert_allclose(effects(X, f), np.array([1.5, 0.5, 1.0, 0.0]) / 3.0, atol=0.05)
    # What no two inputs say together goes by a forest, which is rough.
    assert_allclose(effects(X, X[:, 0] * X[:, 1] * X[:, 2]), [1 / 3, 1 / 3, 1 / 3, 0.0], atol=0.1)


def test_a_curve_and_a_step():
    X = normal(3)
    f = np.sqrt(2.0) * np.sin(2.0 * X[:, 0]) + np.square(X[:, 1]) / np.sqrt(2.0)
    own = np.array([np.var(np.sqrt(2.0) * np.sin(2.0 * X[:, 0])), np.var(np.square(X[:, 1])) / 2.0, 0.0])
    assert_allclose(effects(X, f), own / own.sum(), atol=0.03)
    assert_allclose(effects(X, 1.0 * (X[:, 1] > 0.3)), [0.0, 1.0, 0.0], atol=0.02)


def test_ishigami():
    """The function of many papers, whose shares are known (Ishigami and Homma 1990; Owen 2014)."""
    X = np.random.default_rng(0).uniform(-np.pi, np.pi, size=(N, 3))
    f = np.sin(X[:, 0]) + 7.0 * np.square(np.sin(X[:, 1])) + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])
    first, second, both = 0.5 * (1.0 + 0.02 * np.pi**4) ** 2, 49.0 / 8.0, 0.01 * np.pi**8 * (1 / 18 - 1 / 50)
    want = np.array([first + both / 2, second, both / 2])
    assert_allclose(effects(X, f), want / want.sum(), atol=0.05)


def test_what_follows_from_an_input_in_a_curve_shares_with_it():
    x = normal(1)[:, 0]
    assert_allclose(effects(np.column_stack([x, np.square(x)]), np.square(x)), [0.5, 0.5], atol=0.05)


def test_many_inputs_that_are_independent_are_not_mistaken_for_each_other():
    X = normal(200)
    found = effects(X, 3.0 * X[:, 0] + X[:, 1])
    assert_allclose(found[:2], [0.9, 0.1], atol=0.03)
    assert found[2:].sum() < 0.03


def test_columns_of_one_input_count_together():
    kinds, x = np.random.default_rng(1).integers(0, 4, N), normal(1)[:, 0]
    X = np.column_stack([*(kinds == k for k in range(4)), x]).astype(float)
    level = np.arange(4.0)[kinds]
    want = np.array([level.var(), x.var()])
    assert_allclose(effects(X, level + x, [[0, 1, 2, 3], [4]]), want / want.sum(), atol=0.03)


def test_units_do_not_matter_and_several_functions_are_told_apart():
    X = normal(3)
    f = np.column_stack([X[:, 0] + X[:, 1], X[:, 2]])
    found = effects(X, f)
    assert_allclose(found, [[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]], atol=0.03)
    assert_allclose(effects(1e6 + 1e-3 * X, 1e9 * f - 5.0), found, atol=1e-6)


def test_of_a_constant_there_is_nothing_to_share():
    X = np.column_stack([normal(1), np.ones(N)])
    assert_allclose(shapley_effects(X, np.full((N, 1), 7.1), [[0], [1]]), 0.0)
    assert_allclose(effects(X, X[:, 0]), [1.0, 0.0])


def test_few_rows_of_many_inputs_still_sum_to_one():
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 40):
        X = rng.normal(size=(n, 60))
        found = shapley_effects(X, X[:, :1], [[i] for i in range(60)])
        assert_allclose(found.sum(), 1.0, rtol=1e-9)
        assert (found >= 0.0).all()
