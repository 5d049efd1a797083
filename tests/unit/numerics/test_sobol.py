"""Sobol points against `scipy.stats.qmc`, which is their oracle."""

import numpy as np
import pytest
from scipy.stats import qmc

from streamgp.numerics.sobol import sobol_points


@pytest.mark.parametrize("dim", [1, 2, 9, 40, 65, 66])
@pytest.mark.parametrize("n", [1, 2, 50, 128])
def test_points(n: int, dim: int) -> None:
    found = sobol_points(np.random.default_rng(3), n, dim)
    oracle = qmc.Sobol(dim, rng=np.random.default_rng(3)).random_base2((n - 1).bit_length())[:n]
    np.testing.assert_array_equal(found, oracle)
