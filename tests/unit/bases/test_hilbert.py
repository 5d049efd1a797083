"""Hilbert-space features against independently computed numbers and the kernels that they stand for."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import HilbertSpace, HilbertSpaceProduct
from streamgp.bases.kernels import Matern, SquaredExponential
from streamgp.numerics import keys

KEY = keys.key(0)

features = eqx.filter_jit(lambda basis, X: basis(X))

# From an independent NumPy computation: one row of three inputs, six terms each, columns grouped by input.
X = np.array([[-0.8287016657127513, -0.5263789868078006, 0.6025489304127938]])
BOX = np.array([1.5, 1.8, 2.2])
LENGTHSCALE = np.array([0.4, 0.9, 2.0])
SQUARED_EXPONENTIAL = np.array(
    [
        0.50587659930039353,
        0.67670820554784128,
        0.47303933521830027,
        0.13119042236032319,
        -0.099589886481699169,
        -0.14835562775393379,
        0.86006050383328414,
        0.48017772398462011,
        -0.053523578780331323,
        -0.091586089834020917,
        -0.015731250244493868,
        0.0016336874871553226,
        0.82404697785845993,
        -0.14893234919486525,
        -0.0042454396198759190,
        0.00042808528410444134,
        -2.4145265447011435e-06,
        -8.5875387594274683e-09,
    ]
)
MATERN32 = np.array(
    [
        0.4793075293683927,
        0.627351717062413,
        0.4414608604684978,
        0.13123642525730436,
        -0.1162412403071168,
        -0.22242591269184928,
        0.7989104660383797,
        0.46864254536550193,
        -0.07220779432872951,
        -0.24164008090889388,
        -0.11617472202360477,
        0.04808753856467469,
        0.7840054836799877,
        -0.29538031880514565,
        -0.056286399471696634,
        0.12063919346853576,
        -0.04415135798952496,
        -0.0302317186598236,
    ]
)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(SquaredExponential(), SQUARED_EXPONENTIAL), (Matern(1.5), MATERN32)],
    ids=["se", "matern"],
)
def test_additive_features_match_independent_numbers(kernel, expected):
    basis = HilbertSpace(jnp.asarray(LENGTHSCALE), jnp.asarray(BOX), jnp.asarray(BOX), 6, kernel)
    assert basis.num_features == 18
    np.testing.assert_allclose(features(basis, jnp.asarray(X))[0], expected, rtol=1e-10, atol=1e-20)


def one_input(lengthscale: float, terms: int, kernel) -> HilbertSpace:
    """The box that `from_data` makes for inputs in [-1, 1]."""
    return HilbertSpace(jnp.array([lengthscale]), jnp.array([1.5]), jnp.array([1.25]), terms, kernel)


def largest_error(basis, kernel, X: np.ndarray) -> float:
    phi = features(basis, jnp.asarray(X))
    exact = kernel.value((X[:, None] - X[None]) / basis.lengthscale[None, None])
    return float(jnp.abs(phi @ phi.T - exact).max())


@pytest.mark.parametrize("terms", [10, 20, 50])
def test_squared_exponential_is_met_as_the_docstring_says(terms):
    kernel, x = SquaredExponential(), np.linspace(-1, 1, 61)[:, None]
    for low, high, bound in ((1.6, 0.25, 0.03), (2.0, 0.2, 0.005)):
        for lengthscale in np.linspace(low * 1.5 / terms, high * 1.5, 4):
            assert largest_error(one_input(lengthscale, terms, kernel), kernel, x) < bound
    # Beyond what it promises the approximation is indeed poor, on either side.
    assert largest_error(one_input(0.5 * 1.5 / terms, terms, kernel), kernel, x) > 0.1
    assert largest_error(one_input(0.5 * 1.5, terms, kernel), kernel, x) > 0.1


def test_matern_is_met_as_the_docstring_says():
    x = np.linspace(-1, 1, 61)[:, None]
    assert 0.01 < largest_error(one_input(0.3, 20, Matern(1.5)), Matern(1.5), x) < 0.03


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_converges_like_a_power_of_the_terms(nu):
    # In a box so wide that only the truncation errs.
    x, kernel = np.linspace(-1, 1, 21)[:, None], Matern(nu)

    def error(terms):
        basis = HilbertSpace(jnp.array([0.5]), jnp.array([5.0]), jnp.array([4.0]), terms, kernel)
        return largest_error(basis, kernel, x)

    rate = np.log2(error(50) / error(100))
    assert abs(rate - 2 * nu) < 0.35


def test_product_meets_its_kernel_in_two_and_three_dimensions():
    rng = np.random.default_rng(0)
    for dim, terms in ((2, 16), (3, 12)):
        X = rng.uniform(-1, 1, size=(30, dim)) * np.arange(1, dim + 1)
        box = jnp.asarray(1.5 * np.arange(1.0, dim + 1))
        for kernel, bound in ((SquaredExponential(), 0.015), (Matern(2.5), 0.08)):
            basis = HilbertSpaceProduct(0.2 * box, box, box, terms, kernel)
            assert basis.num_features == terms**dim
            assert largest_error(basis, kernel, X) < bound


def test_product_columns_are_products_of_one_dimensional_features():
    dim, terms = 3, 4
    X = np.random.default_rng(1).uniform(-1, 1, size=(5, dim))
    box, lengthscale = np.array([1.5, 2.0, 2.5]), np.array([0.5, 0.7, 0.9])
    args = (jnp.asarray(lengthscale), jnp.asarray(box), jnp.asarray(box), terms)
    additive = np.asarray(features(HilbertSpace(*args), jnp.asarray(X))).reshape(5, dim, terms)
    # The squared-exponential spectral density is a product over inputs, so the whole feature is.
    expected = np.einsum("ni,nj,nk->nijk", additive[:, 0], additive[:, 1], additive[:, 2]).reshape(5, -1)
    np.testing.assert_allclose(features(HilbertSpaceProduct(*args), jnp.asarray(X)), expected, rtol=1e-10, atol=1e-15)


def test_one_input_additive_and_product_agree():
    X = np.random.default_rng(1).uniform(-1, 1, size=(9, 1))
    args = {"num_features": 7, "start": 0.3, "key": KEY, "kernel": Matern(0.5)}
    additive, product = HilbertSpace.from_data(X, **args), HilbertSpaceProduct.from_data(X, **args)
    X = jnp.asarray(X)
    np.testing.assert_allclose(features(additive, X), features(product, X), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("family", [HilbertSpace, HilbertSpaceProduct])
def test_rows_beyond_the_edge_are_moved_to_it_and_flagged(family):
    warm_up = np.array([[-2.0, 0.5], [1.0, -1.0]])
    basis = family.from_data(warm_up, num_features=16, start=0.3, key=KEY)
    np.testing.assert_allclose(basis.box, [3.0, 1.5])
    np.testing.assert_allclose(basis.edge, [2.5, 1.25])
    np.testing.assert_allclose(basis.lengthscale, [0.9, 0.45])
    rows = jnp.array([[2.5, -1.25], [2.6, 0.0], [0.0, -1.3], [9.0, 9.0]])
    np.testing.assert_array_equal(basis.outside(rows), [False, True, True, True])
    at_edge = jnp.array([[2.5, -1.25], [2.5, 0.0], [0.0, -1.25], [2.5, 1.25]])
    np.testing.assert_array_equal(features(basis, rows), features(basis, at_edge))
    # Inside, the features do move.
    assert (features(basis, 0.9 * at_edge) != features(basis, at_edge)).any(axis=1).all()


def test_constant_columns_get_a_box_of_their_own():
    warm_up = np.array([[0.0, 5.0, 1e-13], [0.0, 5.0, 1e-13]])
    basis = HilbertSpace.from_data(warm_up, num_features=12, start=0.3, key=KEY)
    np.testing.assert_allclose(basis.box, [1.5, 7.5, 1.5])
    np.testing.assert_allclose(basis.edge, [1.25, 6.25, 1.25])
    np.testing.assert_allclose(basis.lengthscale, 0.3)


def test_number_of_terms():
    def terms(family, dim, num_features):
        return family.from_data(np.eye(4, dim), num_features=num_features, start=0.3, key=KEY).terms

    assert [terms(HilbertSpace, 3, f) for f in (1, 8, 9, 100)] == [2, 2, 3, 33]
    assert [terms(HilbertSpaceProduct, 3, f) for f in (1, 26, 27, 64, 999, 1000)] == [2, 2, 3, 4, 9, 10]
    assert [terms(HilbertSpaceProduct, 2, f) for f in (99, 100)] == [9, 10]


def test_product_refuses_more_than_three_inputs():
    with pytest.raises(ValueError, match=r"at most 3 columns .*, got 4; use the additive HilbertSpace"):
        HilbertSpaceProduct.from_data(np.ones((5, 4)), num_features=10, start=0.3, key=KEY)
