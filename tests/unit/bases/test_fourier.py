"""Fourier features against independently computed numbers and the kernels that they stand for."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Fourier
from streamgp.bases.kernels import Laplace, Matern, SquaredExponential
from streamgp.numerics import keys

features = eqx.filter_jit(lambda basis, X: basis(X))

# From an independent NumPy computation: inputs, frequencies, lengthscales, and [cos, sin] features.
X = np.array([[-0.6517911526116896, -0.17471729232577715, 1.6637239913911968]])
FREQUENCIES = np.array(
    [
        [1.0620757877855616, -0.8294887233474758, -0.24878002125463117],
        [-1.6885293534763577, -1.908939358835272, -0.9764345880627332],
        [-0.07803901853109632, 0.7979857101860429, 2.426220501220823],
        [-1.0318629950946103, 1.0090402997688306, -0.6043409584858992],
        [-0.15252930610285104, -1.4811916182972398, -1.4789857368704227],
        [-0.7784606028005082, -1.1931106223006203, -0.0035543906764923003],
        [-0.7025144637985207, 1.2506970737478889, 0.153019711281495],
        [0.1652381892572177, 1.137435198692834, 0.5181122690366925],
    ]
)
LENGTHSCALE = np.array([0.5, 1.0, 2.5])
COS_THEN_SIN = np.array(
    [
        0.05830165444202379,
        -0.1092200614636342,
        -0.0021695868447054907,
        0.25464554544759577,
        0.3056497924134012,
        0.121205186723153,
        0.24655116974530433,
        0.35270395750808625,
        -0.3487132304477747,
        0.33626028337268726,
        0.35354673367593603,
        0.24526647994313536,
        -0.17770257285038044,
        0.33212844309303835,
        0.2534018956070024,
        -0.024493230863527976,
    ]
)


def test_features_match_independent_numbers():
    phi = Fourier(jnp.asarray(FREQUENCIES), jnp.asarray(LENGTHSCALE))(jnp.asarray(X))
    np.testing.assert_allclose(phi[0, 8:], COS_THEN_SIN[:8], rtol=1e-10)
    np.testing.assert_allclose(phi[0, :8], COS_THEN_SIN[8:], rtol=1e-10)


def test_rows_have_unit_norm_everywhere():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-3, 4, size=(50, 1))
    basis = Fourier.from_data(X, num_features=31, start=0.1, key=keys.key(0))
    assert basis.num_features == 30
    np.testing.assert_allclose(jnp.linalg.norm(basis(jnp.asarray(X)), axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern(1.5), Laplace()], ids=repr)
def test_inner_products_approach_the_kernel(kernel):
    X = np.random.default_rng(0).uniform(-1, 1, size=(40, 2)) * [1.0, 20.0]
    basis = Fourier.from_data(X, num_features=4000, start=0.5, key=keys.key(1), kernel=kernel, method="monte-carlo")
    phi = features(basis, jnp.asarray(X))
    exact = kernel.value((X[:, None] - X[None]) / basis.lengthscale[None, None])
    # The error of one pair has a standard deviation of at most 1 / sqrt(2000) = 0.022.
    error = np.sqrt(np.mean((phi @ phi.T - exact)[np.triu_indices(40, 1)] ** 2))
    assert 0.003 < error < 0.022


def test_default_frequencies_beat_independent_ones():
    X = np.random.default_rng(0).normal(size=(40, 5))
    kernel = SquaredExponential()

    def error(**how):
        squared = []
        for seed in range(5):
            basis = Fourier.from_data(X, num_features=100, start=0.5, key=keys.key(seed), **how)
            phi = features(basis, jnp.asarray(X))
            exact = kernel.value((X[:, None] - X[None]) / basis.lengthscale[None, None])
            squared.append(np.mean((phi @ phi.T - exact) ** 2))
        return np.sqrt(np.mean(squared))

    assert error() < 0.7 * error(method="monte-carlo")


def test_from_data_sets_lengthscales_by_the_range():
    X = np.array([[0.0, -3.0, 7.0], [4.0, 3.0, 7.0], [1.0, 0.0, 7.0]])
    basis = Fourier.from_data(X, num_features=1, start=0.1, key=keys.key(0))
    np.testing.assert_allclose(basis.lengthscale, [0.4, 0.6, 0.1])
    assert basis.num_features == 2
