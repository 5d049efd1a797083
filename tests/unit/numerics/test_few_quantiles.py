"""Quantiles in the kernel, which finds those of a few rows, against those in NumPy."""

import numpy as np
import pytest
import scipy.special

from streamgp.likelihoods import recalibration
from streamgp.likelihoods.recalibration_by_spread import PRIOR
from streamgp.numerics import quantiles
from streamgp.numerics.mixtures import flatten
from streamgp.numerics.quantiles import mixture_quantiles

RNG = np.random.default_rng(0)
LEVELS = [1e-9, 0.001, 0.05, 0.5, 0.9, 0.999999]


@pytest.fixture(autouse=True)
def built() -> None:
    if quantiles._compiled() is None:
        pytest.skip("needs the kernel in C, which was not built")


@pytest.mark.parametrize("apart", [0.0, 3.0, 1e3])
@pytest.mark.parametrize("dof", [None, 5.0, 60.0, np.inf])
def test_of_mixtures(dof, apart, monkeypatch):
    n, k = 6, 40
    log_weights = np.log(RNG.dirichlet(np.full(k, 0.2), n))
    log_weights[:, 3] = -np.inf
    loc, var = 1e5 + apart * RNG.normal(size=(n, k, 1)), RNG.gamma(1.0, 1.0, size=(n, k, 1)) + 1e-4
    m = flatten(log_weights, loc, var, None if dof is None else np.full((n, k), dof))
    found = mixture_quantiles(m, LEVELS)
    monkeypatch.setattr(quantiles, "_FEW", 0)
    for ours, theirs in zip(found, mixture_quantiles(m, LEVELS), strict=True):
        np.testing.assert_allclose(ours - 1e5, theirs - 1e5, rtol=1e-8, atol=1e-8 * max(apart, 1.0))


def test_each_row_has_its_own_level():
    m = flatten(np.zeros((3, 1)), np.zeros((3, 1, 1)), np.ones((3, 1, 1)), None)
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(mixture_quantiles(m, [levels])[0], scipy.special.ndtri(levels), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("each", [False, True])
def test_of_the_recalibrating_map(each, monkeypatch):
    v = RNG.dirichlet(np.full(6, 0.5), (50, 2))
    p = RNG.random((50, 2)) ** 3 if each else np.broadcast_to(0.05, (50, 2))
    found = recalibration.level(v, p)
    np.testing.assert_allclose(recalibration.below(v, found), p, rtol=1e-7)
    monkeypatch.setattr(recalibration, "_compiled_level", lambda: None)
    np.testing.assert_allclose(found, recalibration.level(v, p), rtol=1e-7)


def test_the_ends_of_the_recalibrating_map(monkeypatch):
    v = np.tile(PRIOR / PRIOR.sum(), (4, 1))
    ends = np.array([0.0, 1e-300, 1.0 - 1e-12, 1.0])
    found = recalibration.level(v, ends)
    np.testing.assert_array_equal(found[[0, 3]], [0.0, 1.0])
    monkeypatch.setattr(recalibration, "_compiled_level", lambda: None)
    np.testing.assert_allclose(found, recalibration.level(v, ends), rtol=1e-12)
