"""The Nystrom basis against the kernel that it stands for and against dense algebra."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Nystrom
from streamgp.models.fitting.gaussian_evidence import evidence_and_gradient, fit_basis
from streamgp.numerics import keys

KEY = keys.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LENGTHSCALE = np.array([0.8, 1.5, 3.0])

features = eqx.filter_jit(lambda basis, X: basis(X))


def kernel(A: np.ndarray, B: np.ndarray, lengthscale: np.ndarray = LENGTHSCALE) -> np.ndarray:
    """The squared exponential with explicit differences."""
    return np.exp(-0.5 * np.square((A[:, None] - B[None]) / lengthscale).sum(-1))


def basis_at(centres: np.ndarray, lengthscale: np.ndarray = LENGTHSCALE) -> Nystrom:
    return Nystrom(jnp.asarray(centres), jnp.asarray(lengthscale))


def test_gram_matrix_is_the_nystrom_approximation():
    centres = X[:20]
    Phi = features(basis_at(centres), jnp.asarray(X))
    assert Phi.shape == (60, 20)
    across = kernel(X, centres)
    # Against an eigendecomposition: the symmetric root gives the same Gram matrix.
    values, vectors = np.linalg.eigh(kernel(centres, centres) + 1e-6 * np.eye(20))
    symmetric = across @ (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(Phi @ Phi.T, symmetric @ symmetric.T, rtol=1e-9, atol=1e-12)


def test_it_is_the_kernel_at_the_centres_and_never_above_its_variance():
    Phi, at_centres = (features(basis_at(X[:40]), jnp.asarray(rows)) for rows in (X, X[:40]))
    np.testing.assert_allclose(Phi @ at_centres.T, kernel(X, X[:40]), atol=1e-5)
    variance = np.square(Phi).sum(1)
    assert variance.max() <= 1.0
    assert variance[40:].min() < 0.99  # which is a real loss


def test_with_many_centres_it_is_the_kernel_everywhere():
    grid = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    basis = Nystrom.from_data(grid, num_features=80, start=0.4, key=KEY)
    Phi = features(basis, jnp.asarray(grid))
    np.testing.assert_allclose(Phi @ Phi.T, kernel(grid, grid, np.asarray(basis.lengthscale)), atol=2e-3)


def test_precomputed_gives_the_same_features_and_a_fit_returns_it():
    basis = basis_at(X[:20])
    ready = basis.precomputed()
    assert basis.whitening is None and ready.whitening.shape == (20, 20)
    np.testing.assert_allclose(
        features(ready, jnp.asarray(X)), features(basis, jnp.asarray(X)), rtol=1e-9, atol=1e-11
    )
    assert (ready.num_features, ready.num_inputs) == (20, 3)
    fit = fit_basis(basis, jnp.asarray(X), jnp.asarray(np.sin(X[:, :1])))
    now = basis_at(X[:20], np.asarray(fit.basis.lengthscale))
    assert not np.allclose(now.lengthscale, LENGTHSCALE)
    np.testing.assert_allclose(features(fit.basis, jnp.asarray(X)), features(now, jnp.asarray(X)), atol=1e-9)


def test_the_evidence_has_the_gradient_of_finite_differences():
    y, at, h = np.sin(2 * X[:, :1]), np.log(LENGTHSCALE), 1e-4

    def evidence(log_lengthscale):
        Phi, pullback = Nystrom(X[:15], np.exp(log_lengthscale)).features_and_pullback(X)
        value, (by_Phi, *_) = evidence_and_gradient(Phi, y, 1.0, 0.05)
        return value, pullback(by_Phi)["lengthscale"] * np.exp(log_lengthscale)

    gradient = evidence(at)[1]
    for d in range(3):
        step = h * np.eye(3)[d]
        differences = (evidence(at + step)[0] - evidence(at - step)[0]) / (2 * h)
        np.testing.assert_allclose(gradient[d], differences, rtol=1e-5)


@pytest.mark.parametrize("library", [np, jnp])
def test_a_kernel_that_is_no_number_has_no_factor(library):
    basis = Nystrom(library.asarray(X[:5]), library.asarray([1.0, np.nan, 1.0]))
    assert np.isnan(np.diag(basis.precomputed().whitening)).all()


def test_rows_that_lost_half_their_variance_are_outside():
    centre = np.zeros((1, 2))
    basis = basis_at(centre, np.ones(2))
    # With one centre phi'phi = exp(-r^2), which is one half at r = sqrt(ln 2).
    r = np.sqrt(np.log(2.0))
    rows = np.array([[0.0, 0.0], [0.99 * r, 0.0], [0.0, -1.01 * r], [50.0, 0.0]])
    for these in (rows, jnp.asarray(rows)):
        np.testing.assert_array_equal(basis.outside(these), [False, False, True, True])


def test_centres_come_from_k_means_one_for_each_distinct_row_at_most():
    repeated = np.repeat([[0.0, 1.0], [2.0, 1.0], [5.0, 1.0]], 10, axis=0)
    basis = Nystrom.from_data(repeated, num_features=50, start=0.3, key=KEY)
    assert basis.num_features == 3
    np.testing.assert_allclose(np.sort(basis.centres[:, 0]), [0, 2, 5])
    np.testing.assert_allclose(basis.lengthscale, [1.5, 0.3])


@pytest.mark.parametrize("lengthscale", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_coinciding_centres_still_have_a_factor(lengthscale, dtype):
    basis = Nystrom(jnp.asarray(np.repeat(X[:5], 4, axis=0), dtype), jnp.full(3, lengthscale, dtype))
    Phi = features(basis, jnp.asarray(X, dtype))
    assert Phi.dtype == dtype
    assert np.isfinite(Phi).all()
    assert np.square(Phi).sum(1).max() < 1.0 + 100 * jnp.finfo(dtype).eps / 1e-6 * 20
