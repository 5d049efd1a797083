"""Linear, polynomial and user-made bases against their definitions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Linear, Polynomial, UserFunction
from streamgp.numerics import keys

X = jnp.array([[2.0, -3.0], [0.5, 0.0]])
KEY = keys.key(0)


def test_linear_is_one_and_the_inputs():
    np.testing.assert_array_equal(Linear(2)(X), [[1, 2, -3], [1, 0.5, 0]])


def test_polynomial_is_the_powers_of_each_input():
    expected = [[1, 2, -3, 4, 9, 8, -27, 16, 81], [1, 0.5, 0, 0.25, 0, 0.125, 0, 0.0625, 0]]
    for order in (2, 3, 4):
        basis = Polynomial.from_data(np.asarray(X), num_features=5, start=1.0, key=KEY, order=order)
        assert basis.num_features == 1 + 2 * order
        np.testing.assert_allclose(basis(X), np.array(expected)[:, : basis.num_features], rtol=1e-15)
    assert Polynomial.from_data(np.asarray(X), num_features=5, start=1.0, key=KEY).order == 3


def test_polynomial_has_a_finite_slope_at_zero():
    slope = jax.jit(jax.jacobian(Polynomial(2, 4)))(jnp.zeros((1, 2)))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("order", [0, 1, 5])
def test_polynomial_refuses_other_orders(order):
    with pytest.raises(ValueError, match=f"order: expected 2, 3 or 4, got {order}"):
        Polynomial(2, order)


@pytest.mark.parametrize("library", [np, jnp])
def test_user_function_finds_its_number_of_features(library):
    def products(X):
        return library.stack([X[:, 0] * X[:, 1], library.sin(X[:, 0]), X[:, 1] ** 2], axis=1)

    basis = UserFunction(products, 2)
    assert (basis.num_features, basis.num_inputs) == (3, 2)
    rows = np.asarray(X, float)
    Phi = basis(rows)
    assert isinstance(Phi, np.ndarray) and Phi.dtype == np.float64
    np.testing.assert_allclose(Phi, np.stack([rows[:, 0] * rows[:, 1], np.sin(rows[:, 0]), rows[:, 1] ** 2], axis=1))


def test_a_function_in_jax_numpy_serves_an_accelerator():
    basis = UserFunction(lambda X: jnp.sin(X) + 1.0, 2)
    found = jax.jit(lambda X: basis(X) * basis.num_features)(X)
    np.testing.assert_allclose(found, 2.0 * (np.sin(X) + 1.0))


def test_user_function_gets_numpys_rows_and_may_count():
    def steps(X):
        assert isinstance(X, np.ndarray)
        return np.log(np.abs(X)) < X

    with warnings.catch_warnings(action="error"):
        basis = UserFunction(steps, 2)
        assert basis.num_features == 2
    np.testing.assert_array_equal(basis(np.array([[2.0, 3.0], [-1e-9, -5.0]])), [[1.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("function", [lambda X: X[:, 0], lambda X: X.T, lambda X: X[None]])
def test_user_function_of_another_shape_is_refused(function):
    with pytest.raises(ValueError, match=r"expected features of shape \(n, F\) .*return one row of features"):
        UserFunction(function, 2)


def test_user_function_cannot_come_from_data():
    with pytest.raises(TypeError, match=r"build it as UserFunction\(function, inputs\)"):
        UserFunction.from_data(np.asarray(X), num_features=3, start=1.0, key=KEY)
