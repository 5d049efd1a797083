"""The fleet's pooled prior: the belief about a key before its first row, fitted to the other keys.

Every key k is a linear model of its own with a level of noise of its own, l_k: 1 / l_k ~ Gamma(a, a), theta_k ~
N(m, l_k S), and the noise of its rows has the variance l_k s2. Smooth keys among rough ones are none the rougher for
it. Empirical Bayes by expectation and maximisation (Dempster, Laird and Rubin 1977): m and S are the mean of the
keys' beliefs and their covariance, within the keys and between them, where a key counts by E[1 / l_k]; a is the
larger the more the levels are alike. An inverse Wishart prior, worth `PRIOR_KEYS` keys, keeps S regular when the keys
are few.

KeyBeliefs are kept as theta = m + L w with S = L L': w starts from N(0, I), whatever the prior. So covariances stay
below one, and what the identity still holds of them is what the key still borrows from the fleet.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar
from scipy.special import digamma, gammaln

from streamgp.numerics import student_t
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import cholesky, inverses, log_dets

# The first guess of the covariance counts as so many keys.
PRIOR_KEYS = 3.0
# Steps of expectation-maximisation: of a rough fit, and of the final one.
ROUGH_STEPS, STEPS = 20, 60
# The smallest noise variance, in units of the target's own. The fit has one more row with this variance.
MIN_NOISE = 1e-6
# The bounds of the shape a; below the lower one, predictions have no variance.
MIN_START, MAX_START = 0.5 * student_t.MIN_DOF, 50.0


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

    def counted(self, share: float) -> "Sums":
        """Return the sums where every row counts as such a share of one."""
        return Sums(share * self.gram, share * self.cross, share * self.square, share * self.rows)


@dataclass(frozen=True)
class FittedPrior:
    """Prior mean and covariance, noise variance, the shape of the levels of noise, and the log evidence of all."""

    mean: Float[np.ndarray, " f"]
    cov: Float[np.ndarray, "f f"]
    noise_var: float
    start: float
    log_evidence: float


def fit(sums: Sums, guess: Float[np.ndarray, "f f"], steps: int = STEPS) -> FittedPrior:
    """Fit the prior to the keys of the warm-up, from a first guess of the covariance, in so many steps."""
    mean, cov, noise, start = np.zeros(len(guess)), guess, 0.5, MIN_START
    for _ in range(steps):
        V, means, rate, _ = _posterior(sums, mean, cov, noise, start)
        shape = start + 0.5 * sums.rows
        precision = shape / rate
        # The factor common to all levels is in the noise and in S already.
        precision /= precision.mean()
        left = (
            sums.square
            - 2.0 * np.vecdot(means, sums.cross)
            + np.vecdot(means, (sums.gram @ means[..., None])[..., 0])
        )
        left = precision * left + np.vecdot(sums.gram.reshape(len(V), -1), V.reshape(len(V), -1))
        noise = max((left.sum() + MIN_NOISE) / (sums.rows.sum() + 1.0), MIN_NOISE)
        total, scatter = precision @ means, (means.T * precision) @ means
        mean, cov = pooled(total, scatter, V.sum(0), len(means), float(precision.sum()), np.zeros(len(guess)), guess)
        start = _start(float(np.mean(precision + np.log(rate) - digamma(shape))))
    return FittedPrior(mean, cov, float(noise), start, _posterior(sums, mean, cov, noise, start)[3])


def _start(mean: float) -> float:
    """Return the shape a of levels of noise with this mean of ``1 / l + log l``: log a + 1 - digamma(a) equals it."""

    def excess(a: float) -> float:
        return float(np.log(a) + 1.0 - digamma(a)) - mean

    # The excess falls as a grows.
    if excess(MIN_START) <= 0.0:
        return MIN_START
    return MAX_START if excess(MAX_START) >= 0.0 else float(root_scalar(excess, bracket=(MIN_START, MAX_START)).root)


def pooled(
    total: Float[np.ndarray, " f"],
    scatter: Float[np.ndarray, "f f"],
    within: Float[np.ndarray, "f f"],
    keys: float,
    weight: float,
    prior_mean: Float[np.ndarray, " f"],
    guess: Float[np.ndarray, "f f"],
    mean_keys: float = 1.0,
) -> tuple[Float[np.ndarray, " f"], Float[np.ndarray, "f f"]]:
    """Return mean and covariance of the keys' beliefs, from sums over them: of means, their products, covariances.

    `total` and `scatter` are weighted sums, of so many `keys` whose weights sum to `weight`; covariances are those of
    weight 1. `mean_keys` more of that weight, with `prior_mean`, enter the mean, and `PRIOR_KEYS` with the covariance
    `guess` enter the covariance.
    """
    mean = (total + mean_keys * prior_mean) / (weight + mean_keys)
    between = scatter - np.outer(total, mean) - np.outer(mean, total) + weight * np.outer(mean, mean)
    cov = (PRIOR_KEYS * guess + within + between) / (PRIOR_KEYS + keys)
    return mean, 0.5 * (cov + cov.T)


def root(cov: Float[np.ndarray, "f f"]) -> Float[np.ndarray, "f f"]:
    """Return L with L L' = S; of features that have no variance, zero."""
    on = np.flatnonzero(np.diag(cov) > 0.0)
    L = np.zeros_like(cov)
    L[np.ix_(on, on)] = cholesky(cov[np.ix_(on, on)])
    return L


def _posterior(
    sums: Sums, mean: Float[np.ndarray, " f"], cov: Float[np.ndarray, "f f"], noise: float, start: float
) -> tuple[Float[np.ndarray, "k f f"], Float[np.ndarray, "k f"], Float[np.ndarray, " k"], float]:
    """Return the keys' covariances and means given all of their rows, and the log evidence of these.

    Covariances are in units of the key's level of noise, of which the rates, too, are returned.
    """
    L = cholesky(cov)
    M = np.eye(len(L)) + L.T @ sums.gram @ L / noise
    inverse = inverses(M)
    q = (sums.cross - sums.gram @ mean) @ L / noise
    w = (inverse @ q[..., None])[..., 0]
    square = sums.square - 2.0 * sums.cross @ mean + np.vecdot(mean, sums.gram @ mean)
    rate = start + 0.5 * np.maximum(square / noise - np.vecdot(q, w), 0.0)
    shape = start + 0.5 * sums.rows
    log_evidence = (
        (gammaln(shape) - gammaln(start) + start * np.log(start) - shape * np.log(rate)).sum()
        - 0.5 * sums.rows.sum() * np.log(2.0 * np.pi * noise)
        - 0.5 * log_dets(M).sum()
    )
    return L @ inverse @ L.T, mean + w @ L.T, rate, float(log_evidence)
