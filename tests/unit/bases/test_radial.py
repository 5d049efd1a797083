"""The radial basis network against its definition."""

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.bases import RadialBasis
from streamgp.numerics import keys

KEY = keys.key(0)


def definition(basis: RadialBasis, X: np.ndarray) -> np.ndarray:
    """The formula with explicit differences."""
    scaled = (X[:, None, :] - np.asarray(basis.centres)[None]) / np.asarray(basis.lengthscale)
    return np.exp(-0.5 * (scaled**2).sum(-1))


def test_features_are_gaussian_bumps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))
    basis = RadialBasis(jnp.asarray(rng.normal(size=(7, 4))), jnp.asarray([0.3, 1.0, 2.0, 5.0]))
    assert (basis.num_features, basis.num_inputs) == (7, 4)
    np.testing.assert_allclose(basis(jnp.asarray(X)), definition(basis, X), rtol=1e-11)


def test_an_offset_and_a_tiny_lengthscale_cost_no_digits():
    X = 1e6 + np.random.default_rng(0).normal(size=(20, 3))
    for lengthscale in (1e-3, 1.0):
        basis = RadialBasis(jnp.asarray(X[:5]), jnp.full(3, lengthscale))
        phi = basis(jnp.asarray(X))
        assert phi.max() <= 1.0
        np.testing.assert_allclose(phi, definition(basis, X), rtol=1e-7, atol=1e-200)
        np.testing.assert_allclose(jnp.diagonal(phi[:5]), 1.0, atol=1e-8)


def test_derivatives_match_the_definition_even_on_a_centre():
    X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))
    basis = RadialBasis(X[:3], jnp.array([0.7, 1.4]))

    def product(centres, lengthscale):
        return jnp.sin(RadialBasis(centres, lengthscale)(X)).sum()

    def direct(centres, lengthscale):
        scaled = (X[:, None, :] - centres[None]) / lengthscale[None, None]
        return jnp.sin(jnp.exp(-0.5 * (scaled**2).sum(-1))).sum()

    for ours, theirs in zip(
        jax.jit(jax.grad(product, (0, 1)))(basis.centres, basis.lengthscale),
        jax.jit(jax.grad(direct, (0, 1)))(basis.centres, basis.lengthscale),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_centres_come_from_k_means():
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    X = np.concatenate([m + 0.1 * rng.normal(size=(30, 2)) for m in middles])
    basis = RadialBasis.from_data(X, num_features=3, start=0.5, key=KEY)
    means = X.reshape(3, 30, 2).mean(axis=1)
    order = np.lexsort(np.round(np.asarray(basis.centres)).T)
    np.testing.assert_allclose(basis.centres[order], means[np.lexsort(np.round(means).T)], atol=1e-12)
    np.testing.assert_allclose(basis.lengthscale, 0.5 * np.ptp(X, axis=0))


def test_no_more_centres_than_distinct_rows():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [5.0, 1.0]], 10, axis=0)
    basis = RadialBasis.from_data(X, num_features=50, start=0.3, key=KEY)
    assert basis.num_features == 3
    np.testing.assert_allclose(np.sort(basis.centres[:, 0]), [0, 2, 5])
    np.testing.assert_allclose(basis.lengthscale, [1.5, 0.3])
