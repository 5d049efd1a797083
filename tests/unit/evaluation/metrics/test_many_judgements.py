"""The judgements of many streams at once, each against the textbook's interval of its own batches."""

import math

import numpy as np
import pytest
from scipy import stats

from streamgp.evaluation.metrics.many_judgements import BATCHES, skills, with_row


def summed(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums and rows of streams whose losses are (rows, streams, predictors)."""
    keys, predictors = losses.shape[1:]
    sums, rows = np.zeros((keys, predictors, BATCHES)), np.zeros(keys)
    for each in losses:
        sums, rows = with_row(sums, rows, each)
    return sums, rows


def by_hand(losses: np.ndarray) -> tuple[float, float, float]:
    """What one stream of losses (rows, predictors) saves, by the means of its batches."""
    losses = losses[~np.isnan(losses).any(1)]
    n, size = len(losses), 1
    while n > BATCHES * size:
        size *= 2
    ours, theirs = losses[:, 0], losses[:, 1 + losses[:, 1:].sum(0).argmin()]
    means = [np.array([each[i : i + size].mean() for i in range(0, n - size + 1, size)]) for each in (ours, theirs)]
    apart = means[0] / means[0].mean() - means[1] / means[1].mean()
    half = stats.t.ppf(0.975, len(apart) - 1) * stats.sem(apart)
    ratio = ours.sum() / theirs.sum()
    return 1.0 - ratio, 1.0 - ratio * math.exp(half), 1.0 - ratio * math.exp(-half)


@pytest.mark.parametrize("n", [20, 31, 32, 33, 100, 257])
def test_every_stream_has_the_interval_of_its_batches(n: int):
    rng = np.random.default_rng(n)
    base = rng.lognormal(size=(n, 7, 1))
    losses = base * rng.lognormal(0.0, 0.3, (n, 7, 3)) * np.linspace(0.3, 1.5, 7)[:, None] ** [1.0, 0.0, 0.1]
    losses[rng.random((n, 7)) < 0.1, 1] = np.nan
    losses = np.concatenate([losses, base[:3] * np.ones(3)])
    found = skills(*summed(losses))
    rows = (~np.isnan(losses).any(2)).sum(0)
    for key in range(7):
        expected = by_hand(losses[:, key])
        if rows[key] < 20:
            assert found.skill[key] == pytest.approx(expected[0], rel=1e-9) and np.isnan(found.low[key])
        else:
            assert (found.skill[key], found.low[key], found.high[key]) == pytest.approx(expected, rel=1e-9)


def test_streams_whose_rows_come_by_turns_are_the_same():
    rng = np.random.default_rng(0)
    losses = rng.lognormal(size=(50, 2, 3))
    whole, _ = summed(losses)
    sums, rows = np.zeros((2, 3, BATCHES)), np.zeros(2)
    for key in (1, 0):
        for each in losses:
            one, count = with_row(sums[[key]], rows[[key]], each[[key]])
            sums[key], rows[key] = one[0], count[0]
    np.testing.assert_array_equal(sums, whole)


def test_losses_at_the_ends():
    ours, theirs = np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    found = skills(*summed(np.tile(np.stack([ours, theirs, theirs + 1.0], axis=1), (40, 1, 1))))
    np.testing.assert_array_equal(found.skill, [1.0, np.nan, np.nan, 0.0])
    np.testing.assert_array_equal(found.low, [1.0, np.nan, np.nan, 0.0])
    none = skills(np.zeros((1, 3, BATCHES)), np.zeros(1))
    assert np.isnan(none).all()


@pytest.mark.parametrize("n", [24, 60, 300])
def test_keys_of_noise_are_seldom_called_better(n: int):
    """2,000 keys of autocorrelated losses of equal means: at most 2.5%, and three standard errors."""
    rng = np.random.default_rng(n)
    shocks = rng.normal(size=(n + 1, 2_000, 3))
    errors = 2.0 * shocks[1:, :, :1] + shocks[1:] + 0.4 * shocks[:-1]
    found = skills(*summed(np.square(errors)))
    better = np.mean(found.low > 0.0)
    assert better <= 0.025 + 3.0 * math.sqrt(0.025 * 0.975 / 2_000)
    assert np.mean(found.high < 0.0) > 0.025  # beside the better one of two, which was chosen afterwards
    assert (found.low <= found.skill).all() and (found.skill <= found.high).all() and (found.high <= 1.0).all()
