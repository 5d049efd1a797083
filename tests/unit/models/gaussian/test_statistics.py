"""On data from the model's own prior, the stated probabilities are the frequencies."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, kstest, multivariate_normal

from oracles.dense import dense_covariance
from streamgp.bases import Fourier
from streamgp.filters.dynamics import mean_reverting, random_walk, static
from streamgp.likelihoods import Predictive
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA

pytestmark = pytest.mark.slow

PRIOR_VAR, NOISE_VAR, N, STREAMS = 1.3, 0.09, 120, 40
DYNAMICS = {"static": (1.0, 0.0), "walk": (1.0, 1e-2), "revert": (0.95, 1.0 - 0.95**2)}


class Sample(NamedTuple):
    """Independent streams of one model as outputs side by side, and what the model said of every row."""

    y: np.ndarray
    predictive: Predictive
    covariance: np.ndarray


@pytest.fixture(scope="module", params=DYNAMICS)
def sample(request) -> Sample:
    decay, diffusion = DYNAMICS[request.param]
    rng = np.random.default_rng(11)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    with jax.enable_x64(True):
        dynamics = {"static": static(), "walk": random_walk(1e-2), "revert": mean_reverting(0.95)}[request.param]
        basis = Fourier(jnp.asarray(rng.normal(size=(8, 2))), jnp.ones(2))
        Phi = np.asarray(basis(jnp.asarray(X)))
        # Straight from the definition: weights that move, and noise.
        theta = np.sqrt(PRIOR_VAR) * rng.normal(size=(16, STREAMS))
        y = np.zeros((N, STREAMS))
        for i, phi in enumerate(Phi):
            theta = decay * theta + np.sqrt(diffusion * PRIOR_VAR) * rng.normal(size=theta.shape)
            y[i] = phi @ theta + np.sqrt(NOISE_VAR) * rng.normal(size=STREAMS)
        expert = Expert(basis, jnp.asarray(PRIOR_VAR), jnp.asarray(NOISE_VAR), dynamics)
        model = ensemble([expert], BMA(), num_outputs=STREAMS)
        _, info = model.update(model.init(keys.key(0)), jnp.asarray(X), jnp.asarray(y))
        times = np.arange(1.0, N + 1.0)
        K = dense_covariance(Phi, times, prior_var=PRIOR_VAR, decay=decay, diffusion=diffusion)
    return Sample(y, info.predictive, K + NOISE_VAR * np.eye(N))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_cover_what_they_say(sample, level):
    tail = (1.0 - level) / 2.0
    low, high = sample.predictive.quantile(tail), sample.predictive.quantile(1.0 - tail)
    covered = np.mean((sample.y > low) & (sample.y < high))
    # One-step-ahead residuals of the right model are independent.
    assert abs(covered - level) < 4.0 * np.sqrt(level * (1.0 - level) / sample.y.size)


def test_the_probability_integral_transform_is_uniform(sample):
    pit = np.asarray(sample.predictive.cdf(jnp.asarray(sample.y))).ravel()
    assert kstest(pit, "uniform").pvalue > 1e-3
    counts = np.histogram(pit, bins=20, range=(0.0, 1.0))[0]
    expected = pit.size / 20
    assert chi2.sf(np.sum((counts - expected) ** 2) / expected, 19) > 1e-3


def test_the_score_is_the_true_generators(sample):
    # The density of each whole stream under the law that drew it: exactly the sum of the model's scores.
    score = stream_scores(sample).sum(0)
    want = multivariate_normal.logpdf(sample.y.T, cov=sample.covariance)
    np.testing.assert_allclose(score, want, rtol=1e-9)
    # And as large as the entropy says, within the standard error: 2 nats^2 / 4 of variance for every row.
    entropy = multivariate_normal.entropy(cov=sample.covariance)
    error = np.sqrt(0.5 * N / STREAMS)
    assert abs(score.mean() + entropy) < 4.0 * error


def stream_scores(sample: Sample) -> np.ndarray:
    """Log density of every row and stream."""
    p = sample.predictive
    z = (sample.y - np.asarray(p.loc[:, 0])) / np.sqrt(np.asarray(p.var[:, 0]))
    return -0.5 * (z**2 + np.log(2.0 * np.pi * np.asarray(p.var[:, 0])))


def test_a_wrong_noise_variance_would_be_noticed(sample):
    wrong = Predictive(sample.predictive.log_weights, sample.predictive.loc, 1.2 * sample.predictive.var)
    pit = np.asarray(wrong.cdf(jnp.asarray(sample.y))).ravel()
    assert kstest(pit, "uniform").pvalue < 1e-3
