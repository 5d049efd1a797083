"""A constant beside the features, against that constant put there by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from streamgp.bases import Fourier, Intercept, Nystrom, OptimisedFourier
from streamgp.models.fitting.gaussian_evidence import fit_basis, log_evidence
from streamgp.models.fitting.hyperparameters import with_value
from streamgp.numerics import keys
from streamgp.numerics.checkpoint.encoding import decode, encode

X = np.random.default_rng(0).normal(size=(30, 2)) * 3.0


def test_it_is_its_basis_and_a_one():
    fourier = Fourier.from_data(X, num_features=6, start=0.3, key=keys.key(1))
    nystrom = Nystrom.from_data(X[:20], num_features=7, start=0.1, key=keys.key(1))
    for inner in (fourier, nystrom):
        basis = Intercept(inner)
        assert (basis.num_features, basis.num_inputs) == (inner.num_features + 1, 2)
        np.testing.assert_array_equal(basis(X), np.column_stack([inner(X), np.ones(30)]))
        np.testing.assert_array_equal(basis.outside(X), inner.outside(X))
        ready = basis.precomputed()
        np.testing.assert_allclose(ready(X), basis(X), rtol=1e-5, atol=1e-6)
        again = decode(*encode(ready), {})
        np.testing.assert_array_equal(again(X), ready(X))


def test_a_stack_of_bases_has_a_design_matrix_each():
    two = keys.key(1), keys.key(2)
    bases = [Intercept(Fourier.from_data(X, num_features=6, start=0.3, key=key)) for key in two]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bases)
    for rows in (X, jnp.asarray(X)):
        np.testing.assert_allclose(stack(rows), np.stack([basis(X) for basis in bases]), rtol=1e-12, atol=1e-12)


def test_the_fit_moves_the_hyperparameters_of_its_basis_beside_a_constant():
    rng = np.random.default_rng(1)
    rows = jnp.asarray(rng.uniform(-1.0, 1.0, (40, 2)))
    y = jnp.asarray(2.0 + np.sin(3.0 * rows[:, :1]) + 0.1 * rng.normal(size=(40, 1)))
    inner = OptimisedFourier.from_data(np.asarray(rows), num_features=6, start=0.3, key=keys.key(0))
    basis = Intercept(inner)
    assert basis.trainable == inner.trainable
    fit = fit_basis(basis, rows, y)
    assert isinstance(fit.basis, Intercept)
    moved = fit.basis.basis
    for name in inner.trainable:
        assert not np.allclose(getattr(moved, name), getattr(inner, name))
    Phi = np.column_stack([moved(np.asarray(rows)), np.ones(40)])
    want = log_evidence(Phi, np.asarray(y), fit.prior_var, fit.noise_var)
    np.testing.assert_allclose(fit.log_evidence, want, rtol=1e-9)
    # As the warm-up moves lengthscales.
    replaced = with_value(basis, "lengthscale", np.array([5.0, 6.0]))
    np.testing.assert_array_equal(replaced.basis.lengthscale, [5.0, 6.0])
