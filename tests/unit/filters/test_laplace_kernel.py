"""Laplace steps along a block in the kernel in C, against the form in NumPy."""

import numpy as np
import pytest

from streamgp.filters import laplace
from streamgp.filters.laplace_kernel import takes
from streamgp.likelihoods import Categorical, NegativeBinomial, Ordinal, Poisson
from streamgp.likelihoods.binary import Logistic

EXPERTS, ROWS = 5, 12
RNG = np.random.default_rng(0)
LIKELIHOODS = {
    "two classes": Categorical(2, RNG.normal(size=(EXPERTS, 2))),
    "two classes of one law": Categorical(2, RNG.normal(size=(1, 2))),
    "three classes": Categorical(3, RNG.normal(size=(EXPERTS, 3))),
    "nine classes": Categorical(9, RNG.normal(size=(EXPERTS, 9))),
    "logistic": Logistic(RNG.normal(size=EXPERTS)),
    "two grades": Ordinal(RNG.normal(size=EXPERTS), np.empty((EXPERTS, 0))),
    "five grades": Ordinal(RNG.normal(size=EXPERTS), RNG.uniform(0.05, 2.0, (EXPERTS, 3))),
    "Poisson": Poisson(RNG.normal(size=EXPERTS)),
    "negative binomial": NegativeBinomial(RNG.normal(size=EXPERTS), np.array([0.1, 1.0, 30.0, 1e4, 1e8])),
}


def block(likelihood, scale, seed=0):
    rng, C = np.random.default_rng(seed), likelihood.num_latents
    size = ROWS * C
    root = rng.normal(size=(EXPERTS, size, size)) * np.sqrt(scale / size)
    K, loc = root @ np.swapaxes(root, -1, -2), np.sqrt(scale) * rng.normal(size=(EXPERTS, ROWS, C))
    most = 2 if isinstance(likelihood, Logistic) else getattr(likelihood, "num_classes", 30)
    if isinstance(likelihood, Ordinal):
        most = likelihood.gaps.shape[-1] + 2
    return K, loc, rng.integers(0, most, ROWS).astype(float), rng.random(ROWS) < 0.8


def both(likelihood, K, loc, y, mask, monkeypatch):
    """Return what the steps find in either form, and how many of the rows NumPy took beside the kernel."""
    taken, step = [], laplace.laplace_step
    monkeypatch.setattr(laplace, "laplace_step", lambda *given: taken.append(1) or step(*given))
    here = laplace._steps(likelihood, K.copy(), loc.copy(), y, mask)
    beside = len(taken)
    monkeypatch.setattr(laplace, "takes", lambda likelihood: False)
    there = laplace._steps(likelihood, K.copy(), loc.copy(), y, mask)
    assert len(taken) == beside + np.count_nonzero(mask)
    return here, there, beside


def check(here, there, within=1e-9):
    (ours, *rest), (theirs, *others) = here, there
    for a, b in zip((*ours, *rest), (*theirs, *others), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=within, atol=within * max(1.0, np.abs(b).max()))


@pytest.fixture(autouse=True)
def built():
    if not takes(LIKELIHOODS["Poisson"]):
        pytest.skip("needs the kernel in C, which was not built")


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_steps_are_those_of_numpy(name, scale, monkeypatch):
    likelihood = LIKELIHOODS[name]
    here, there, beside = both(likelihood, *block(likelihood, scale), monkeypatch)
    assert beside == 0
    check(here, there)


@pytest.mark.parametrize("name", ["Poisson", "negative binomial"])
def test_counts_of_any_size(name, monkeypatch):
    K, loc, _, mask = block(LIKELIHOODS[name], 1.0)
    y = np.resize([0.0, 1.0, 1e3, 1e6, 3e6, 1e9, 1e12, 1e15], ROWS)
    loc[:, ::3] += 12.0
    loc[0, 4], loc[1, 5] = 300.0, -800.0
    here, there, _ = both(LIKELIHOODS[name], K, loc, y, mask, monkeypatch)
    check(here, there, 1e-7)


@pytest.mark.parametrize("name", ["two classes", "three classes", "logistic", "two grades", "five grades"])
def test_labels_that_nobody_expects(name, monkeypatch):
    K, loc, y, mask = block(LIKELIHOODS[name], 1.0)
    loc[0], loc[1, ::2], loc[2] = 60.0, -800.0, 1e5
    here, there, _ = both(LIKELIHOODS[name], K, loc, y, mask, monkeypatch)
    check(here, there, 1e-7)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_what_is_known_for_sure_stays(name, monkeypatch):
    likelihood = LIKELIHOODS[name]
    K, loc, y, mask = block(likelihood, 1.0)
    K[:] = 0.0
    here, there, beside = both(likelihood, K, loc, y, mask, monkeypatch)
    check(here, there)
    # A covariance that is not clearly above zero is for NumPy to look at, row by row.
    assert beside == (np.count_nonzero(mask) if likelihood.num_latents > 1 else 0)


def test_rows_of_a_broken_covariance_are_taken_in_numpy(monkeypatch):
    likelihood = LIKELIHOODS["three classes"]
    K, loc, y, mask = block(likelihood, 1.0)
    mask[:] = True
    K[2, 8:10, 8:10] = [[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]]
    here, there, beside = both(likelihood, K, loc, y, mask, monkeypatch)
    assert beside >= 1
    check(here, there, 1e-6)


def test_a_likelihood_of_another_kind_is_left_to_numpy():
    class Own(Poisson):
        pass

    assert not takes(Own(np.zeros(2)))
