"""What keys believe under a newer prior, against the posterior that this prior would have led to."""

import numpy as np
import pytest

from streamgp.fleet.prior import PooledPrior, root
from streamgp.fleet.renewal import MOST_APART, renewed
from streamgp.fleet.states import KeyBeliefs

KEYS, EXPERTS, FEATURES, LEFT_OUT = 5, 2, 6, 4
ROW, COLUMN = np.tril_indices(FEATURES)
USED = [np.arange(FEATURES), np.delete(np.arange(FEATURES), LEFT_OUT)]


def prior(rng: np.random.Generator, size: float = 1.0) -> PooledPrior:
    """Return a prior, in which the second expert lacks a feature."""
    mean, cov = 0.3 * rng.normal(size=(EXPERTS, FEATURES)), rng.normal(size=(EXPERTS, FEATURES, 2 * FEATURES))
    cov = size * cov @ np.swapaxes(cov, 1, 2) / (2 * FEATURES)
    mean[1, LEFT_OUT] = cov[1, LEFT_OUT] = cov[1, :, LEFT_OUT] = 0.0
    return PooledPrior(mean, np.stack([root(each) for each in cov]), np.zeros(4))


def posterior(of: PooledPrior, e: int, phi: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of an expert's weights after rows whose noise has the variance one."""
    at = USED[e]
    S = (of.root[e] @ of.root[e].T)[np.ix_(at, at)]
    precision = np.linalg.inv(S) + phi[:, at].T @ phi[:, at]
    said = np.linalg.solve(S, of.mean[e, at]) + phi[:, at].T @ y
    return np.linalg.solve(precision, said), np.linalg.inv(precision)


def beliefs(of: PooledPrior, phi: np.ndarray, y: np.ndarray) -> KeyBeliefs:
    """Return what keys believe after their rows."""
    found = KeyBeliefs.born(np.zeros(len(y), np.int64), [of], np.ones(2))
    mean, cov = found.mean.copy(), found.cov.copy()
    for k in range(len(y)):
        for e, at in enumerate(USED):
            theta, P = posterior(of, e, phi[k], y[k])
            L = of.root[e][np.ix_(at, at)]
            inverse, V = np.linalg.inv(L), np.eye(FEATURES)
            mean[k, e, at] = inverse @ (theta - of.mean[e, at])
            V[np.ix_(at, at)] = inverse @ P @ inverse.T
            cov[k, e] = V[ROW, COLUMN]
    return KeyBeliefs(**vars(found) | {"mean": mean, "cov": cov})


@pytest.mark.parametrize("rows", [0, 3, 40, 3_000])
def test_a_newer_prior_leads_to_the_posterior_that_it_would_have_led_to(rows: int):
    rng = np.random.default_rng(rows)
    old, new = prior(rng), prior(rng, size=2.0)
    phi = rng.normal(size=(KEYS, rows, FEATURES))
    y = phi @ (0.3 * rng.normal(size=FEATURES)) + rng.normal(size=(KEYS, rows))
    found = renewed(beliefs(old, phi, y), [old, new], np.array([1, 1, 0, 1, 1]))
    assert found.prior.tolist() == [1, 1, 0, 1, 1]
    assert np.array_equal(found.mean[2], beliefs(old, phi, y).mean[2])
    for k in (0, 1, 3, 4):
        for e, at in enumerate(USED):
            theta, P = posterior(new, e, phi[k], y[k])
            V, L = np.zeros((FEATURES, FEATURES)), new.root[e]
            V[ROW, COLUMN] = V[COLUMN, ROW] = found.cov[k, e]
            np.testing.assert_allclose((new.mean[e] + L @ found.mean[k, e])[at], theta, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose((L @ V @ L.T)[np.ix_(at, at)], P, rtol=1e-8, atol=1e-10)
        assert found.mean[k, 1, LEFT_OUT] == 0.0


def test_a_key_that_is_like_no_other_keeps_its_prior():
    rng = np.random.default_rng(0)
    old = prior(rng)
    new = PooledPrior(old.mean, 0.1 * old.root, old.log_weights)
    first = KeyBeliefs.born(np.zeros(4, np.int64), [old], np.ones(2))
    mean = np.zeros_like(first.mean)
    # In the units of the new prior ten times as far: the mean square over the features on both sides of the bound.
    mean[0, 1, 0], mean[1, 1, 0] = 0.1 * np.sqrt(MOST_APART * (FEATURES - 1)) * np.array([0.99, 1.01])
    mean[2, 0, 3] = np.nan
    found = renewed(KeyBeliefs(**vars(first) | {"mean": mean}), [old, new], np.ones(4, np.int64))
    assert found.prior.tolist() == [1, 0, 0, 1]
    np.testing.assert_array_equal(found.mean[1:3], mean[1:3])
    np.testing.assert_allclose(found.cov[3], first.cov[3], atol=1e-12)


def test_a_damaged_belief_stays_as_it_is_and_harms_no_other_key():
    """Of a covariance that is none there may be no inverse, or a negative variance."""
    rng = np.random.default_rng(0)
    old = prior(rng)
    new = PooledPrior(old.mean, 2.0 * old.root, old.log_weights)  # Q - I = -3/4 I
    first = KeyBeliefs.born(np.zeros(4, np.int64), [old], np.ones(2))
    cov = first.cov.copy()
    diagonal = ROW == COLUMN
    cov[0, 0, diagonal], cov[1, 1, diagonal], cov[2, 0, 0] = 4.0 / 3.0, 2.0, np.nan
    found = renewed(KeyBeliefs(**vars(first) | {"cov": cov}), [old, new], np.ones(4, np.int64))
    assert found.prior.tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(found.cov[:3], cov[:3])
    np.testing.assert_allclose(found.cov[3], first.cov[3], atol=1e-12)
