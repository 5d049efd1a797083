"""Log densities and levels of targets, in the kernel and in NumPy, against SciPy's distributions."""

import numpy as np
import pytest
import scipy.stats

from streamgp.models.gaussian import target_values as module
from streamgp.models.gaussian.target_values import target_levels, target_values

RNG = np.random.default_rng(0)
N, K, E, KINDS = 40, 6, 2, 3
LOC, VAR = RNG.normal(size=(N, K, E)), RNG.uniform(0.1, 4.0, size=(N, K, E))
DOF = np.tile(RNG.uniform(20.0, 400.0, size=(N, KINDS)), (1, K // KINDS))
Y = LOC[:, 0] + 2.0 * RNG.standard_t(3, size=(N, E))


@pytest.fixture(params=["kernel", "NumPy"], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "NumPy":
        monkeypatch.setattr(module, "_compiled", lambda: None)
    elif module._compiled() is None:
        pytest.skip("needs the kernel in C, which was not built")
    return request.param


@pytest.mark.parametrize("kind", [None, "t", "infinite"])
def test_they_are_those_of_scipy(kind):
    dof = {None: None, "t": DOF, "infinite": np.full_like(DOF, np.inf)}[kind]
    density, below = target_values(LOC, VAR, dof, Y, KINDS)
    law = scipy.stats.norm(LOC, np.sqrt(VAR))
    if kind == "t":
        law = scipy.stats.t(DOF[..., None], LOC, np.sqrt(VAR * (1.0 - 2.0 / DOF[..., None])))
    np.testing.assert_allclose(density, law.logpdf(Y[:, None]), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(below, law.cdf(Y[:, None]), rtol=1e-8, atol=2e-11)
    np.testing.assert_allclose(target_levels(LOC, VAR, dof, Y, KINDS), below, rtol=0.0, atol=1e-13)


def test_far_and_missing_targets_and_a_law_that_is_none(form):
    loc, var = np.zeros((1, 4, 1)), np.array([1.0, 1.0, np.nan, 1.0]).reshape(1, 4, 1)
    for dof in (None, np.full((1, 4), 30.0)):
        for y, level in ((1e100, 1.0), (-1e100, 0.0)):
            density, below = target_values(loc, var, dof, np.full((1, 1), y))
            np.testing.assert_array_equal(below[0, [0, 1, 3], 0], level)
            assert np.isnan(density[0, 2, 0])
            assert np.isnan(below[0, 2, 0])
            assert (density[0, [0, 1, 3], 0] < -1e2).all()
        assert all(np.isnan(a).all() for a in target_values(loc, var, dof, np.full((1, 1), np.nan)))
