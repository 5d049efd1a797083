"""Binomial counts against `scipy.stats`, which is their oracle."""

import numpy as np
import pytest
import scipy.stats

from streamgp.numerics.binomial import binomial_cdf, binomial_quantile, wilson_interval
from streamgp.numerics.ranks import average_ranks


@pytest.mark.parametrize("trials", [0, 1, 7, 200, 100_000])
def test_quantiles_and_probabilities(trials: int) -> None:
    counts = np.unique(np.linspace(-1, trials, 30).astype(int))
    for share in (0.05, 0.5, 0.9):
        found = binomial_cdf(counts, trials, share)
        np.testing.assert_allclose(found, scipy.stats.binom.cdf(counts, trials, share), rtol=1e-9, atol=1e-300)
        for level in (0.025, 0.3, 0.975):
            assert binomial_quantile(level, trials, share) == int(scipy.stats.binom.ppf(level, trials, share))


@pytest.mark.parametrize(("count", "trials"), [(0, 1), (1, 1), (0, 30), (12, 30), (30, 30), (999, 10_000)])
def test_wilson(count: int, trials: int) -> None:
    oracle = scipy.stats.binomtest(count, trials).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson_interval(count, trials), (oracle.low, oracle.high), rtol=1e-12, atol=1e-15)


def test_ranks_with_ties() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=50), rng.integers(4, size=50).astype(float), np.zeros(3), np.zeros(0)):
        np.testing.assert_array_equal(average_ranks(values), scipy.stats.rankdata(values))
