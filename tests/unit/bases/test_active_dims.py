"""A basis over some of the inputs, against that basis on rows cut by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from streamgp.bases import ActiveDims, HilbertSpace, Nystrom
from streamgp.numerics import keys
from streamgp.numerics.checkpoint.encoding import decode, encode

X = np.random.default_rng(0).normal(size=(30, 5)) * 3.0


@pytest.mark.parametrize("first", [0, 2, 3])
def test_it_is_its_basis_on_its_inputs(first: int):
    own = X[:, first : first + 2]
    box = HilbertSpace(jnp.ones(2), jnp.full(2, 4.0), jnp.full(2, 3.0), 3)
    nystrom = Nystrom.from_data(own, num_features=7, start=0.1, key=keys.key(1))
    for inner in (box, nystrom):
        basis = ActiveDims(inner, 5, first)
        assert (basis.num_features, basis.num_inputs) == (inner.num_features, 5)
        np.testing.assert_array_equal(basis(X), inner(own))
        np.testing.assert_array_equal(basis.outside(X), inner.outside(own))
        assert 0 < basis.outside(X).sum() < 30
        ready = basis.precomputed()
        np.testing.assert_allclose(ready(X), basis(X), rtol=1e-5, atol=1e-6)
        again = decode(*encode(ready), {})
        np.testing.assert_array_equal(again(X), ready(X))
