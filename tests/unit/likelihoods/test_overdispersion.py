"""Counts whose variance follows the inputs: moments, levels by sums over all counts, and what is not learnt."""

import numpy as np
import pytest
from scipy import stats

from streamgp.likelihoods import LatentPredictive, NegativeBinomial
from streamgp.likelihoods.noise_features import NoiseInputs
from streamgp.likelihoods.overdispersion import MOST_DISPERSION, Overdispersion, features, squared_scores, widened


def predicted(loc, cov, dispersion, weights=(0.3, 0.7)) -> LatentPredictive:
    """Return a mixture of two experts (n, 2) with an intercept of 0.4."""
    loc, cov, dispersion = (np.asarray(a, float) for a in (loc, cov, dispersion))
    likelihood = NegativeBinomial(np.full(loc.shape, 0.4), dispersion)
    log_weights = np.broadcast_to(np.log(weights), loc.shape)
    return LatentPredictive(log_weights, loc[..., None], cov[..., None, None], likelihood)


def some() -> LatentPredictive:
    loc = [[0.5, 0.7], [2.0, 1.8], [-1.5, -1.0], [4.0, 4.1]]
    cov = [[0.01, 0.05], [0.2, 0.001], [0.3, 0.1], [0.02, 0.02]]
    return predicted(loc, cov, [[3.0, 8.0], [1.5, 20.0], [2.0, 2.0], [30.0, 5.0]])


@pytest.mark.parametrize("factor", [1.0, 1.3, 8.0])
def test_a_factor_multiplies_the_variance_of_every_expert_and_leaves_its_mean(factor):
    before = some()
    after = widened(before, np.full(4, factor))
    moments = [each.likelihood.moments(each.loc, each.cov) for each in (before, after)]
    np.testing.assert_allclose(moments[1][0], moments[0][0], rtol=1e-12)
    np.testing.assert_allclose(moments[1][1], factor * moments[0][1], rtol=1e-10)
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-12)


def test_no_count_varies_less_than_a_poisson():
    after = widened(some(), np.full(4, 0.01))
    assert isinstance(after.likelihood, NegativeBinomial)
    np.testing.assert_allclose(after.likelihood.dispersion, MOST_DISPERSION)
    some_less = widened(some(), np.full(4, 0.9)).likelihood
    assert isinstance(some_less, NegativeBinomial)
    assert (some_less.dispersion > some().likelihood.dispersion).all()


def test_squared_scores_are_the_means_over_the_levels_of_counts():
    # One expert that is sure of its mean: its counts are negative binomial, and no approximation is made.
    r, mean = 3.0, np.exp(1.2)
    y = np.arange(9.0)
    sure = predicted(np.full((9, 2), 0.8), np.zeros((9, 2)), np.full((9, 2), r))
    got = squared_scores(sure, y, np.ones(9, bool))[:, 0]
    law = stats.nbinom(r, r / (r + mean))
    for k in range(9):
        u = np.linspace(max(law.cdf(k - 1), 1e-5), law.cdf(k), 200_001)
        middle = 0.5 * (u[1:] + u[:-1])
        np.testing.assert_allclose(got[k], np.mean(stats.norm.ppf(middle) ** 2), rtol=2e-3)


def test_their_mean_over_all_counts_is_one_where_the_prediction_is_right():
    before = some()
    counts = np.arange(4_000.0)
    for row in range(4):
        rows = before.of_rows(np.full(len(counts), row))
        probability = np.exp(rows.log_density(counts[:, None]))
        square = squared_scores(rows, counts, np.ones(len(counts), bool))[:, 0]
        assert abs(probability.sum() - 1.0) < 1e-4
        # Levels are those of negative binomials with the experts' moments; log means are less skew.
        assert abs(probability @ square - 1.0) < 0.1


def test_rows_that_are_not_learnt_have_none_and_absurd_ones_stay_finite():
    wild = predicted(
        [[300.0, -300.0], [700.0, 700.0], [0.0, 0.0], [35.0, 35.0]],
        [[1e4, 1e-12], [0.0, 1e-300], [1e4, 1e4], [0.0, 0.0]],
        [[1e8, 0.1], [1e-3, 1e8], [1.0, 1.0], [1e8, 1e8]],
    )
    y = np.array([1e15, 1e300, 0.0, np.nan])
    square = squared_scores(wild, y, np.array([True, True, True, False]))
    assert np.isfinite(square[:2]).all() and np.isnan(square[3, 0])
    assert np.isfinite(features(np.arange(2), np.zeros((4, 2)), wild)).all()
    for factor in (0.05, 20.0):
        dispersion = widened(wild, np.full(4, factor)).likelihood.dispersion
        assert np.isfinite(dispersion).all() and (dispersion > 0.0).all()


@pytest.mark.parametrize("size", [1, 7, 300])
def test_what_does_not_help_by_the_probability_of_counts_is_not_trusted(size):
    rng, n = np.random.default_rng(0), 300
    rows = predicted(np.full((n, 2), 0.8), np.full((n, 2), 1e-6), np.full((n, 2), 3.0))
    X = rng.uniform(-1.0, 1.0, (n, 1))
    mean = float(rows.mean[0, 0])
    found = {}
    for name, r in (("as predicted", np.full(n, 3.0)), ("by an input", np.where(X[:, 0] > 0.0, 0.5, 1e6))):
        y = rng.poisson(mean * rng.gamma(r, 1.0 / r)).astype(float)
        belief = Overdispersion.start(NoiseInputs.of_rows(X, y[:, None]))
        for at in range(0, n, size):
            some = np.arange(at, min(at + size, n))
            belief, _ = belief.learn(np.zeros(1, int), X[some], rows.of_rows(some), y[some], np.ones(len(some), bool))
        found[name] = float(belief.trust)
    assert found["as predicted"] < 0.7 and found["by an input"] > 0.95
