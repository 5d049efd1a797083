"""Kernels against their textbook formulas, their Fourier transforms and their spectral laws."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from streamgp.bases.kernels import Kernel, Laplace, Matern, SquaredExponential, _inside

SPECTRAL = [SquaredExponential(), Matern(0.5), Matern(1.5), Matern(2.5)]
ALL = [*SPECTRAL, Laplace()]
METHODS = ["monte-carlo", "orthogonal", "quasi-monte-carlo"]


def methods_of(kernel: Kernel) -> list[str]:
    return [m for m in METHODS if m != "orthogonal" or kernel.rotation_invariant]


def textbook(kernel: Kernel, r: np.ndarray) -> np.ndarray:
    """Kernel values from NumPy and SciPy; Matern from its Bessel function (Rasmussen, Williams 4.14)."""
    distance = np.sqrt((r**2).sum(-1))
    if isinstance(kernel, SquaredExponential):
        return np.exp(-(distance**2) / 2)
    if isinstance(kernel, Matern):
        nu, z = kernel.nu, np.sqrt(2 * kernel.nu) * np.maximum(distance, 1e-12)
        return 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)
    if isinstance(kernel, Laplace):
        return np.exp(-np.abs(r)).prod(-1)
    return (1 / (1 + r**2)).prod(-1)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_value_is_the_textbook_formula(kernel):
    r = np.random.default_rng(0).normal(size=(6, 7, 3))
    np.testing.assert_allclose(kernel.value(jnp.asarray(r)), textbook(kernel, r), rtol=1e-12)
    assert kernel.value(jnp.zeros(3)) == 1.0


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_derivatives_are_finite_at_zero_and_far_away(kernel):
    slope = jax.jit(jax.grad(kernel.value))
    for r in (0.0, 1e-170, 1e-8, 1e4, 1e100):
        assert np.isfinite(slope(jnp.full(3, r))).all()
    if kernel != Laplace():  # its slope at zero is a convention
        np.testing.assert_array_equal(slope(jnp.zeros(3)), 0.0)
    curvature = jax.jit(jax.hessian(lambda scale: kernel.value(jnp.zeros(3) / scale)))(jnp.ones(3))
    assert np.isfinite(curvature).all()


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern(1.5), Matern(2.5)], ids=repr)
def test_slope_is_the_derivative_by_the_squared_distance(kernel):
    r = np.random.default_rng(1).normal(size=(5, 4, 3)) * np.geomspace(1e-3, 3.0, 5)[:, None, None]
    by_square = jax.vmap(jax.vmap(jax.grad(lambda s: kernel.value(jnp.sqrt(s)[None]))))
    expected = by_square(jnp.square(jnp.asarray(r)).sum(-1))
    np.testing.assert_allclose(kernel.slope(jnp.asarray(r)), expected, rtol=1e-9)
    in_numpy = kernel.slope(r)
    assert isinstance(in_numpy, np.ndarray)
    np.testing.assert_allclose(in_numpy, expected, rtol=1e-9)
    # At zero, where the derivative of the root has no value, the slope is its own limit.
    at_zero, limit = kernel.slope(np.zeros((1, 3))), (kernel.value(np.array([[1e-4]])) - 1.0) / 1e-8
    np.testing.assert_allclose(at_zero, limit, rtol=1e-3)


@pytest.mark.parametrize("kernel", SPECTRAL, ids=repr)
@pytest.mark.parametrize("w", [0.0, 0.4, 3.0, 11.0])
def test_one_dimensional_density_is_the_fourier_transform(kernel, w):
    lengthscale = 0.7

    def half(r):
        return float(textbook(kernel, np.array([r / lengthscale])))

    expected = 2 * integrate.quad(half, 0, 40, weight="cos", wvar=w, epsabs=1e-12, limit=200)[0]
    root = kernel.sqrt_spectral_density(jnp.array([w]), jnp.array([lengthscale]))
    np.testing.assert_allclose(root**2, expected, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("kernel", SPECTRAL, ids=repr)
def test_two_dimensional_density_is_the_fourier_transform_with_two_lengthscales(kernel):
    lengthscale, step = np.array([0.8, 1.3]), 0.1
    axis = np.arange(-25, 25, step)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    values = np.asarray(kernel.value(jnp.asarray(grid / lengthscale)))
    for w in np.array([[0.0, 0.0], [0.9, -0.3], [1.5, 2.0]]):
        expected = np.cos(w[0] * axis) @ values @ np.cos(w[1] * axis)
        expected -= np.sin(w[0] * axis) @ values @ np.sin(w[1] * axis)
        root = kernel.sqrt_spectral_density(jnp.asarray(w), jnp.asarray(lengthscale))
        # The sum over a grid has an error of about step^2 where the kernel has a kink, at zero.
        np.testing.assert_allclose(root**2, expected * step**2, rtol=2e-3 if kernel == Matern(0.5) else 1e-5)


@pytest.mark.parametrize("kernel", SPECTRAL, ids=repr)
def test_three_dimensional_density_is_the_radial_fourier_transform(kernel):
    for w in (0.3, 2.0):
        expected = integrate.quad(
            lambda r: r * float(textbook(kernel, np.array([r]))), 0, 60, weight="sin", wvar=w, epsabs=1e-13
        )[0]
        root = kernel.sqrt_spectral_density(jnp.array([0.0, w * 0.6, w * 0.8]), jnp.ones(3))
        np.testing.assert_allclose(root**2, 4 * np.pi / w * expected, rtol=1e-7)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("kernel", SPECTRAL, ids=repr)
def test_density_gradients_are_finite_where_the_density_underflows(kernel, dtype):
    w = jnp.asarray([[0.1], [1.0], [30.0], [1e3]], dtype)
    derivatives = jax.jit(jax.value_and_grad(lambda v: kernel.sqrt_spectral_density(w, v).sum()))
    for lengthscale in (1e-3, 1.0, 1e4):
        value, slope = derivatives(jnp.full((1, 1), lengthscale, dtype))
        assert value.dtype == dtype
        assert np.isfinite(value)
        assert np.isfinite(slope).all()


@pytest.mark.parametrize(("kernel", "method"), [(k, m) for k in ALL for m in methods_of(k)], ids=lambda v: str(v))
def test_frequencies_follow_the_spectral_law(kernel, method):
    dim = 3
    law = {SquaredExponential: stats.norm(), Laplace: stats.cauchy()}
    marginal = stats.t(2 * kernel.nu) if isinstance(kernel, Matern) else law[type(kernel)]
    rng = np.random.default_rng(3)
    if method == "quasi-monte-carlo":
        # The first points of separate scrambles are independent.
        draws = np.concatenate([kernel.sample_frequencies(rng, 1, dim, method) for _ in range(600)])
    elif method == "orthogonal":
        # Rows of separate blocks are independent.
        draws = kernel.sample_frequencies(rng, 1500 * dim, dim, method)[::dim]
    else:
        draws = kernel.sample_frequencies(rng, 1500, dim, method)
    for column in draws.T:
        assert stats.kstest(column, marginal.cdf).pvalue > 1e-3
    if kernel.rotation_invariant:
        squared = (draws**2).sum(1)
        length = stats.f(dim, 2 * kernel.nu) if isinstance(kernel, Matern) else stats.f(dim, 1e12)
        assert stats.kstest(squared / dim, length.cdf).pvalue > 1e-3
        # A direction that is uniform on the sphere in R^3 has uniform coordinates.
        assert stats.kstest(draws[:, 0] / np.sqrt(squared), stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_quasi_monte_carlo_fills_the_law_evenly():
    draws = SquaredExponential().sample_frequencies(np.random.default_rng(0), 1000, 3, "quasi-monte-carlo")
    for column in draws.T:
        assert stats.kstest(column, stats.norm.cdf).statistic < 0.01  # independent draws: about 0.027


def test_orthogonal_frequencies_are_orthogonal_within_blocks():
    dim = 5
    w = Matern(1.5).sample_frequencies(np.random.default_rng(0), 12, dim, "orthogonal")
    assert w.shape == (12, dim)
    for start, stop in pairwise([0, 5, 10, 12]):
        block = w[start:stop] / np.linalg.norm(w[start:stop], axis=1, keepdims=True)
        np.testing.assert_allclose(block @ block.T, np.eye(stop - start), atol=1e-12)


def standardised_errors(kernel: Kernel, method: str, dim: int, m: int, repeats: int) -> np.ndarray:
    """Errors of the kernel estimate at one difference, in standard errors of independent draws."""
    r = 0.9 * np.ones(dim) / np.sqrt(dim)
    rng = np.random.default_rng(11)
    estimates = [np.cos(kernel.sample_frequencies(rng, m, dim, method) @ r).mean() for _ in range(repeats)]
    k, k2 = textbook(kernel, r), textbook(kernel, 2 * r)
    return (np.array(estimates) - k) / np.sqrt((1 + k2 - 2 * k**2) / (2 * m))


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_independent_frequencies_err_by_the_stated_standard_error(kernel):
    repeats = 300
    z = standardised_errors(kernel, "monte-carlo", dim=3, m=100, repeats=repeats)
    low, high = stats.chi2(repeats).ppf([1e-4, 1 - 1e-4])
    assert low < (z**2).sum() < high
    assert abs(z.sum()) < 4 * np.sqrt(repeats)


@pytest.mark.parametrize(("method", "dim"), [("quasi-monte-carlo", 3), ("orthogonal", 8)])
@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern(2.5)], ids=repr)
def test_dependent_frequencies_are_unbiased_and_err_less(kernel, method, dim):
    repeats = 100
    z = standardised_errors(kernel, method, dim, m=64, repeats=repeats)
    assert (z**2).mean() < 0.8
    assert abs(z.mean()) < 4 * z.std() / np.sqrt(repeats)


def test_same_generator_state_same_frequencies():
    for method in METHODS:
        first, again, other = (
            Matern(1.5).sample_frequencies(np.random.default_rng(seed), 10, 2, method) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).all()


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_frequencies_are_finite_on_the_faces_of_the_cube(kernel):
    faces = _inside(np.array([[0.0] * 4, [1.0 - 2.0**-53] * 4, [0.5] * 4]))
    assert np.isfinite(kernel._frequencies(faces[:, : kernel._num_uniforms(3)], 3)).all()


def test_errors_say_what_to_do():
    rng = np.random.default_rng(0)
    # Past the type check that only tests switch on.
    with pytest.raises(ValueError, match=r"expected 'monte-carlo', 'orthogonal' or .*got 'sobol'; pass one"):
        SquaredExponential().sample_frequencies.__wrapped__(SquaredExponential(), rng, 4, 2, "sobol")
    with pytest.raises(ValueError, match=r"rotation-invariant kernel .*got Laplace; use 'quasi-monte-carlo'"):
        Laplace().sample_frequencies(rng, 4, 2, "orthogonal")
    with pytest.raises(ValueError, match=r"expected 0.5, 1.5 or 2.5, got 2"):
        Matern(2.0)
    with pytest.raises(ValueError, match=r"expected 1.5 or 2.5 for a kernel with gradients, got 0.5"):
        Matern(0.5).slope(jnp.ones(2))


def test_kernels_are_hashable_and_compare_by_value():
    assert len({SquaredExponential(), SquaredExponential(), Matern(0.5), Matern(0.5), Matern(1.5)}) == 3
