"""The filter of single rows, small and large, against the row-by-row recursion."""

from dataclasses import replace

import numpy as np
import pytest

from kernel_forms import in_both_forms
from oracles.loop_filter import loop_filter
from streamgp.filters.dynamics import Dynamics
from streamgp.filters.engine import row_kernel, rowfilter
from streamgp.filters.engine.block_covariances import LARGE
from streamgp.filters.engine.row_covariances import Triangles, Whole, covariances
from streamgp.filters.engine.rowfilter import PENDING, RowFilter
from streamgp.filters.kalman import ExpertVariances, prior_state

# In the kernel and, without it, in NumPy.
FORMS = pytest.mark.usefixtures("form")
DECAY, DIFFUSION = [1.0, 1.0, 0.97], [0.0, 0.02, 1.0 - 0.97**2]


form = in_both_forms(rowfilter, "row_kernel", lambda *_: None, row_kernel._functions() is not None)


def covariance(rng: np.random.Generator, *shape: int) -> np.ndarray:
    A = rng.normal(size=(*shape[:-1], 2 * shape[-1], shape[-1]))
    return A.swapaxes(-1, -2) @ A / shape[-1]


@FORMS
@pytest.mark.parametrize("some", [[0], [1], [2], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("features", [5, LARGE + 3])
def test_it_is_the_loop(features: int, some: list[int]):
    n, rng = 2 * PENDING + 5, np.random.default_rng(features)
    Phi = rng.normal(size=(n, 2, features)) / np.sqrt(features)
    y = rng.normal(size=(n, 2))
    shape = (2, len(some))
    dynamics = Dynamics(np.tile(np.take(DECAY, some), (2, 1)), np.tile(np.take(DIFFUSION, some), (2, 1)))
    noise = ExpertVariances(np.full(shape, 1.7), np.full(shape, 0.09))
    rows = RowFilter(prior_state(features, 2, noise.prior_var), dynamics, noise)
    told = []
    for i in range(n):
        ahead = rows.predict(Phi[i], 1.0)
        rows.learn(ahead, (y[i] - ahead.loc) / ahead.var[..., None], np.sqrt(ahead.var))
        told.append((ahead.loc.copy(), ahead.var.copy()))
    loc, var = (np.stack(part) for part in zip(*told, strict=True))
    after = rows.flush()
    for g, r in np.ndindex(shape):
        options = {"decay": DECAY[some[r]], "diffusion": DIFFUSION[some[r]]}
        want = loop_filter(Phi[:, g], y, prior_var=1.7, noise_var=0.09, **options)
        np.testing.assert_allclose(loc[:, g, r], want.loc, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(var[:, g, r], want.var, rtol=1e-9)
        np.testing.assert_allclose(after.mean[g, r], want.mean, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(after.cov[g, r], want.cov, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("R", [1, 2, 3])
def test_two_triangles_share_a_rectangle(R: int, size: int):
    rng = np.random.default_rng(R)
    cov, waiting = covariance(rng, 3, R, size), rng.normal(size=(3, R, 4, size))
    decay, added = rng.uniform(0.5, 1.0, size=(3, R)), rng.uniform(size=(3, R))
    whole, triangles = Whole(cov), Triangles(cov)
    for phi in (rng.normal(size=(3, size)), rng.normal(size=size)):
        np.testing.assert_allclose(triangles.product(phi), whole.product(phi), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(triangles.all(), cov)
    other = covariance(rng, 1, size)[0]
    for kept in (whole, triangles):
        kept.fold(waiting, decay, added)
        kept.fold(0.1 * waiting, None, None)
        kept.put((2, 0), other)
    np.testing.assert_allclose(triangles.all(), whole.all(), rtol=1e-13, atol=1e-13)
    for expert in np.ndindex(3, R):
        np.testing.assert_array_equal(triangles.get(expert), triangles.all()[expert])


def test_size_decides():
    assert isinstance(covariances(np.eye(LARGE)[None, None]), Triangles)
    assert isinstance(covariances(np.eye(LARGE - 1)[None, None]), Whole)


@FORMS
@pytest.mark.parametrize("features", [4, LARGE])
def test_a_covariance_that_is_broken_starts_again_alone(features: int):
    noise = ExpertVariances(np.full((1, 3), 1.7), np.full((1, 3), 0.09))
    belief = prior_state(features, 1, noise.prior_var)
    cov = np.array(belief.cov)
    cov[0, 1, 0, 0] = np.nan
    rows = RowFilter(replace(belief, cov=cov), Dynamics(np.ones((1, 3)), np.zeros((1, 3))), noise)
    found = rows.predict(np.ones((1, features)), 1.0)
    np.testing.assert_allclose(found.var, 1.7 * features + 0.09)
    np.testing.assert_array_equal(rows.restarted, [[False, True, False]])
    np.testing.assert_allclose(rows.flush().cov, np.broadcast_to(1.7 * np.eye(features), cov.shape))


@FORMS
def test_features_of_all_or_of_each_and_more_noise():
    noise = ExpertVariances(np.full((2, 1), 1.7), np.full((2, 1), 0.09))
    rows = RowFilter(prior_state(6, 1, noise.prior_var), Dynamics(np.ones((2, 1)), np.zeros((2, 1))), noise)
    phi = np.arange(6.0)
    for given in (phi, phi[None], np.tile(phi, (2, 1))):
        np.testing.assert_allclose(rows.predict(given, 1.0, 0.5).var, 1.7 * (phi @ phi) + 0.09 + 0.5)


def test_the_order_in_memory_makes_no_difference():
    rng, found = np.random.default_rng(3), []
    phi, noise_var, prior_var = rng.normal(size=(2, 4)), rng.uniform(0.1, 2.0, (2, 3)), rng.uniform(0.5, 2.0, (2, 3))
    for order in ("C", "F"):
        variances = ExpertVariances(np.array(prior_var, order=order), np.array(noise_var, order=order))
        dynamics = Dynamics(np.full((2, 3), 0.9), np.full((2, 3), 0.01))
        single = RowFilter(prior_state(4, 1, prior_var), dynamics, variances)
        found.append(np.array(single.predict(phi, 1.0).var))
    np.testing.assert_array_equal(*found)
