"""Tests of what experts say of many targets at once."""

import numpy as np
import pytest
import scipy.stats

from streamgp.models.gaussian.target_values import target_values


@pytest.mark.parametrize("heavy", [False, True])
def test_many_rows_are_scored_as_scipy_does(heavy: bool) -> None:
    """More rows than a cache holds are taken a few at a time."""
    rng = np.random.default_rng(0)
    n, k = 700, 120
    loc, var, y = rng.normal(size=(n, k, 1)), rng.uniform(0.5, 2.0, size=(n, k, 1)), rng.normal(size=(n, 1))
    dof = np.tile(rng.uniform(20.0, 50.0, size=(n, 2)), (1, k // 2)) if heavy else None
    log_density, below = target_values(loc, var, dof, y, 2)
    assert log_density.shape == below.shape == (n, k, 1)
    std = np.sqrt(var)
    if dof is None:
        law = scipy.stats.norm(loc, std)
    else:
        law = scipy.stats.t(dof[:, :, None], loc, std * np.sqrt(1.0 - 2.0 / dof[:, :, None]))
    np.testing.assert_allclose(log_density, law.logpdf(y[:, None]), rtol=1e-10)
    np.testing.assert_allclose(below, law.cdf(y[:, None]), atol=1e-10)
