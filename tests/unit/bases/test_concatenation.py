"""The concatenation against the sum of its parts' kernels."""

import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import Concatenation, Fourier, HilbertSpace, Linear, Nystrom
from streamgp.models.fitting.gaussian_evidence import fit_basis
from streamgp.numerics import keys

KEY = keys.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))


def parts() -> tuple:
    settings = {"num_features": 10, "start": 0.5, "key": KEY}
    return Linear(2), Fourier.from_data(X, **settings), Nystrom.from_data(X, **settings)


def test_its_kernel_is_the_weighted_sum_of_its_parts_kernels():
    scales = np.array([0.5, 2.0, 3.0])
    basis = Concatenation(parts(), jnp.asarray(scales))
    rows = jnp.asarray(X)
    assert (basis.num_features, basis.num_inputs) == (3 + 10 + 10, 2)
    Phi = np.asarray(basis(rows))
    grams = [np.asarray(part(rows) @ part(rows).T) for part in parts()]
    np.testing.assert_allclose(Phi @ Phi.T, np.einsum("g,gij->ij", scales**2, np.stack(grams)), rtol=1e-9, atol=1e-12)
    ready = basis.precomputed()
    assert ready.parts[2].whitening is not None
    np.testing.assert_allclose(ready(rows), Phi, rtol=1e-9, atol=1e-10)


def test_a_row_is_outside_where_it_is_outside_of_any_part():
    box = HilbertSpace(jnp.ones(2), jnp.full(2, 3.0), jnp.full(2, 2.0), 3)
    near = Nystrom(jnp.zeros((1, 2)), jnp.full(2, 10.0))
    rows = jnp.asarray([[0.0, 0.0], [2.5, 0.0], [0.0, 30.0], [30.0, 0.0]])
    both = Concatenation((Linear(2), box, near), jnp.ones(3))
    np.testing.assert_array_equal(box.outside(rows), [False, True, True, True])
    np.testing.assert_array_equal(both.outside(rows), [False, True, True, True])
    np.testing.assert_array_equal(Concatenation((Linear(2), near), jnp.ones(2)).outside(rows), near.outside(rows))


def test_parts_share_the_prior_variance_that_each_had_alone():
    basis = Concatenation.of(parts(), [3.0, 12.0, 0.75])
    np.testing.assert_allclose(basis.scales, [1.0, 2.0, 0.5])


@pytest.mark.parametrize("truth", [0, 1])
def test_the_evidence_finds_the_part_that_made_the_target(truth):
    basis = Concatenation(parts(), jnp.ones(3))
    rng = np.random.default_rng(3)
    part = np.asarray(basis.parts[truth](jnp.asarray(X)))
    y = part @ rng.normal(size=(part.shape[1], 40)) + 0.1 * rng.normal(size=(50, 40))
    fit = fit_basis(basis, jnp.asarray(X), jnp.asarray(y))
    assert isinstance(fit.basis, Concatenation)
    share = fit.prior_var * np.square(fit.basis.scales)
    np.testing.assert_allclose(share[truth], 1.0, rtol=0.3)
    # Variance of each part's function in the data, on average.
    others = [
        share[g] * float(jnp.square(p(jnp.asarray(X))).sum(1).mean()) for g, p in enumerate(parts()) if g != truth
    ]
    assert max(others) < 0.01
    np.testing.assert_allclose(fit.noise_var, 0.01, rtol=0.2)
    # Its parts stay as they were.
    np.testing.assert_array_equal(fit.basis.parts[1].lengthscale, basis.parts[1].lengthscale)
    np.testing.assert_array_equal(fit.basis.parts[2].lengthscale, basis.parts[2].lengthscale)
