"""Counts whose variance follows the inputs: of a row it is multiplied by e^h, by means of the dispersion.

h is learnt as that of numbers is (`streamgp.likelihoods.noise_by_input`), from the normal scores g of the levels at
which counts come. A count has not one level but all from P(Y < y) to P(Y <= y). So what is learnt is the mean of g^2
over these, whose expectation is 1 where the prediction is right. For the levels, what an expert predicts is taken for
a negative binomial of the same mean and variance, which is quicker than the integral and has lost nothing measurable.

An expert whose log mean is N(eta, v), with m = exp(eta + v / 2), and whose dispersion is r, gives counts the variance
m + m^2 (e^v - 1) + m^2 e^v / r. It is e^h times as large if the inverse of the dispersion is

    e^h / r + (e^h - 1) (1 - e^-v + e^-v / m),

or 0, the Poisson's, where that is negative: the log mean stays as it is.

The scores of small counts say little of their law. So h is multiplied by the probability that a mixture of the two,
with the layer and without, gives the former: a fixed share (Herbster and Warmuth 1998) by the probability of the
count, of the same negative binomials.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betainc

from streamgp.likelihoods.counts import NegativeBinomial
from streamgp.likelihoods.latent_predictive import LatentPredictive
from streamgp.likelihoods.noise_by_input import LEVELS, SWITCHING, NoiseByInput
from streamgp.likelihoods.noise_features import NoiseInputs, of_moments, plain
from streamgp.numerics.arrays import AnyArray, logsumexp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module
from streamgp.numerics.student_t import ndtri

MOST_DISPERSION = 1e8  # a Poisson's, nearly
_NARROW = 1e-6  # between two levels
_MOST = 9.0  # nats that a row counts for, at most
_MOST_LOG = 200.0  # of a mean and of a relative variance, so that their squares do not overflow


@register
class Overdispersion(Module):
    """What is believed of h.

    Attributes
    ----------
    noise
        By the levels at which counts came.
    trust
        The probability that it is better with the layer than without, by the probabilities of the counts.
    """

    noise: NoiseByInput
    trust: Float[AnyArray, ""]

    @classmethod
    def start(cls, inputs: NoiseInputs) -> "Overdispersion":
        """Return the belief before any row."""
        return cls(NoiseByInput.start(1, inputs), np.asarray(0.5))

    def widen(
        self, which: Int[AnyArray, " d"], X: Float[np.ndarray, "n w"], predictive: LatentPredictive
    ) -> LatentPredictive:
        """Return predictions with the variances that follow these columns of the inputs."""
        factor = np.asarray(self.noise.factor(features(which, X, predictive)))[:, 0]
        return widened(predictive, factor**self.trust)

    def learn(
        self,
        which: Int[AnyArray, " d"],
        X: Float[np.ndarray, "n w"],
        predictive: LatentPredictive,
        y: Float[np.ndarray, " n"],
        learnt: Bool[np.ndarray, " n"],
    ) -> tuple["Overdispersion", LatentPredictive]:
        """Learn the counts of rows in order; return the belief, and what it made of each prediction before."""
        square = squared_scores(predictive, y, learnt)
        noise, factors, _ = self.noise.learn_rows(features(which, X, predictive), square)
        factor, y = np.asarray(factors)[:, 0], np.where(learnt, y, 0.0)
        gain = _log_probability(widened(predictive, factor), y) - _log_probability(predictive, y)
        odds = np.exp(np.clip(np.where(learnt & np.isfinite(gain), gain, 0.0), -_MOST, _MOST))
        trust, known = np.empty(len(y)), float(self.trust)
        for i, keep in enumerate(learnt.tolist()):
            trust[i] = known
            if keep:
                known = (1.0 - SWITCHING) * known * odds[i] / (known * odds[i] + 1.0 - known) + 0.5 * SWITCHING
        return Overdispersion(noise, np.asarray(known)), widened(predictive, factor**trust)


def widened(predictive: LatentPredictive, factor: Float[np.ndarray, " n"]) -> LatentPredictive:
    """Return predictions whose experts' variances are larger by a factor of each row, or a Poisson's."""
    eta, v, likelihood = _log_means(predictive)
    m = np.exp(np.clip(eta + 0.5 * v, -_MOST_LOG, _MOST_LOG))
    of_poisson = -np.expm1(-v) + np.exp(-v) / m
    inverse = factor[:, None] / likelihood.dispersion + (factor[:, None] - 1.0) * of_poisson
    return replace(
        predictive, likelihood=replace(likelihood, dispersion=1.0 / np.maximum(inverse, 1.0 / MOST_DISPERSION))
    )


def features(
    which: Int[AnyArray, " d"], X: Float[np.ndarray, "n w"], predictive: LatentPredictive
) -> Float[np.ndarray, "n 1 f"]:
    """Return the features of rows: of inputs, of the log mean, and of the variance relative to the squared mean."""
    mean, variance = predictive.mean, predictive.variance
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        relative = np.where(mean > 0.0, variance / np.square(mean), np.inf)
    log_mean = (predictive.weights * predictive.loc[..., 0]).sum(axis=1, keepdims=True)
    return of_moments(which, X, log_mean, relative)


def squared_scores(
    predictive: LatentPredictive, y: Float[np.ndarray, " n"], learnt: Bool[np.ndarray, " n"]
) -> Float[np.ndarray, "n 1"]:
    """Return the mean of g^2 over the levels at which counts came; NaN in rows that are not learnt."""
    y = np.where(learnt, y, 0.0)[:, None]
    below, at = _levels(predictive, y)
    square = np.where(learnt & np.isfinite(below + at), _mean_square(below, at), np.nan)
    return square[:, None]


def _log_means(predictive: LatentPredictive) -> tuple[Any, Any, NegativeBinomial]:
    """Return mean and variance of the log mean under every expert, and the experts' likelihoods."""
    likelihood = predictive.likelihood
    assert isinstance(likelihood, NegativeBinomial)
    return predictive.loc[..., 0] + likelihood.intercept, np.maximum(predictive.cov[..., 0, 0], 0.0), likelihood


def _matched(predictive: LatentPredictive) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and dispersion of a negative binomial with the moments of each expert's counts."""
    eta, v, likelihood = _log_means(predictive)
    v = np.minimum(v, _MOST_LOG)
    m = np.exp(np.clip(eta + 0.5 * v, -_MOST_LOG, _MOST_LOG))
    return m, 1.0 / np.maximum(np.expm1(v) + np.exp(v) / likelihood.dispersion, 1.0 / MOST_DISPERSION)


def _levels(predictive: LatentPredictive, y: Float[np.ndarray, "n 1"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of less than y, and of y or less, by negative binomials of the experts' moments."""
    m, r = _matched(predictive)
    share, weights = r / (r + m), predictive.weights
    at = (weights * betainc(r, y + 1.0, share)).sum(axis=1)
    below = (weights * betainc(r, np.maximum(y, 1.0), share)).sum(axis=1)
    return np.where(y[:, 0] > 0.0, below, 0.0), at


def _log_probability(predictive: LatentPredictive, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the log probabilities of counts by the same."""
    m, r = _matched(predictive)
    of_experts = NegativeBinomial(np.log(m), r).log_prob(np.zeros((*m.shape, 1)), y[:, None])
    return logsumexp(predictive.log_weights + of_experts)


def _mean_square(below: Float[np.ndarray, " n"], at: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the mean of z^2 where a standard normal z lies between these levels."""
    least = LEVELS["least_level"]
    low, high = (plain(each, 0.5, least, 1.0 - least) for each in (below, at))
    a, b, width = ndtri(low), ndtri(high), high - low
    density_a, density_b = (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) for z in (a, b))
    wide = width > _NARROW
    within = 1.0 + (a * density_a - b * density_b) / np.where(wide, width, 1.0)
    return np.where(wide, within, 0.25 * np.square(a + b))
