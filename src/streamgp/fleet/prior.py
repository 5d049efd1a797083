"""The fleet's pooled prior: what a key is taken to be before its first row, fitted to what the other keys are like.

Every key k is a linear model of its own, theta_k ~ N(m, S). Empirical Bayes by expectation and maximisation
(Dempster, Laird and Rubin 1977): m and S are the mean of the keys' beliefs and their covariance, within the keys and
between them. An inverse Wishart prior, worth `PRIOR_KEYS` keys, keeps S regular when the keys are few.

KeyBeliefs are kept as theta = m + L w with S = L L': w starts from N(0, I), whatever the prior. So covariances stay
below one, and what the identity still holds of them is what the key still borrows from the fleet.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from streamgp.checkpoint.encoding import register
from streamgp.numerics.linalg import cholesky, inverses, log_dets

PRIOR_KEYS = 5.0  # keys that the first guess of the covariance counts for
STEPS = 20  # of expectation and maximisation
MIN_NOISE = 1e-4  # variance, in units of the target's own


@register
@dataclass(frozen=True)
class PooledPrior:
    """The belief that a new key starts from, of every expert.

    Attributes
    ----------
    mean, root
        m and L of the weights.
    log_weights
        Of the experts.
    """

    mean: Float[np.ndarray, "e f"]
    root: Float[np.ndarray, "e f f"]
    log_weights: Float[np.ndarray, " k"]


@dataclass(frozen=True)
class Sums:
    """Of every key: the features' products, those with the targets, the targets' square, and the rows."""

    gram: Float[np.ndarray, "k f f"]
    cross: Float[np.ndarray, "k f"]
    square: Float[np.ndarray, " k"]
    rows: Float[np.ndarray, " k"]

    def of(self, features: np.ndarray) -> "Sums":
        """Return the sums of some features alone."""
        return Sums(self.gram[:, features[:, None], features[None]], self.cross[:, features], self.square, self.rows)


@dataclass(frozen=True)
class FittedPrior:
    """Prior mean and covariance, noise variance, and the log evidence that they have."""

    mean: Float[np.ndarray, " f"]
    cov: Float[np.ndarray, "f f"]
    noise_var: float
    log_evidence: float


def fit(sums: Sums, guess: Float[np.ndarray, "f f"]) -> FittedPrior:
    """Fit the prior to the keys of the warm-up, from a first guess of the covariance."""
    mean, cov, noise = np.zeros(len(guess)), guess, 0.5
    for _ in range(STEPS):
        V, means, _ = _posterior(sums, mean, cov, noise)
        left = (
            sums.square
            - 2.0 * np.vecdot(means, sums.cross)
            + np.vecdot(means, (sums.gram @ means[..., None])[..., 0])
        )
        left = left + np.vecdot(sums.gram.reshape(len(V), -1), V.reshape(len(V), -1))
        noise = max((left.sum() + 1.0) / (sums.rows.sum() + 1.0), MIN_NOISE)
        mean, cov = pooled(means.sum(0), _scatter(means), V.sum(0), len(means), np.zeros(len(guess)), guess)
    return FittedPrior(mean, cov, float(noise), _posterior(sums, mean, cov, noise)[2])


def pooled(
    total: Float[np.ndarray, " f"],
    scatter: Float[np.ndarray, "f f"],
    within: Float[np.ndarray, "f f"],
    keys: float,
    prior_mean: Float[np.ndarray, " f"],
    guess: Float[np.ndarray, "f f"],
    mean_keys: float = 1.0,
) -> tuple[Float[np.ndarray, " f"], Float[np.ndarray, "f f"]]:
    """Return mean and covariance of the keys' beliefs, from sums over them: of means, their products, covariances.

    `mean_keys` keys more, with `prior_mean`, enter the mean, and `PRIOR_KEYS` with the covariance `guess` enter the
    covariance.
    """
    mean = (total + mean_keys * prior_mean) / (keys + mean_keys)
    between = scatter - np.outer(total, mean) - np.outer(mean, total) + keys * np.outer(mean, mean)
    cov = (PRIOR_KEYS * guess + within + between) / (PRIOR_KEYS + keys)
    return mean, 0.5 * (cov + cov.T)


def root(cov: Float[np.ndarray, "f f"]) -> Float[np.ndarray, "f f"]:
    """Return L with L L' = S; of features that have no variance, zero."""
    on = np.flatnonzero(np.diag(cov) > 0.0)
    L = np.zeros_like(cov)
    L[np.ix_(on, on)] = cholesky(cov[np.ix_(on, on)])
    return L


def _scatter(means: Float[np.ndarray, "k f"]) -> Float[np.ndarray, "f f"]:
    return means.T @ means


def _posterior(
    sums: Sums, mean: Float[np.ndarray, " f"], cov: Float[np.ndarray, "f f"], noise: float
) -> tuple[Float[np.ndarray, "k f f"], Float[np.ndarray, "k f"], float]:
    """Return the keys' covariances and means given all of their rows, and the log evidence of these."""
    L = cholesky(cov)
    M = np.eye(len(L)) + L.T @ sums.gram @ L / noise
    inverse = inverses(M)
    q = (sums.cross - sums.gram @ mean) @ L / noise
    w = (inverse @ q[..., None])[..., 0]
    square = sums.square - 2.0 * sums.cross @ mean + np.vecdot(mean, sums.gram @ mean)
    log_evidence = -0.5 * (
        sums.rows.sum() * np.log(2.0 * np.pi * noise)
        + log_dets(M).sum()
        + square.sum() / noise
        - np.vecdot(q, w).sum()
    )
    return L @ inverse @ L.T, mean + w @ L.T, float(log_evidence)
