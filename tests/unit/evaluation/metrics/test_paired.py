"""Intervals of mean differences: how often they hold the truth, on rows that depend on each other."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from streamgp.evaluation.metrics import paired_interval


def autoregression(streams: int, rows: int, r: float, seed: int = 0) -> np.ndarray:
    """Return streams of mean zero, in which neighbours have correlation r."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(streams, rows + 300))
    return lfilter([1.0], [1.0, -r], drawn, axis=1)[:, 300:]


@pytest.mark.parametrize("r", [-0.5, 0.0, 0.6, 0.8])
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_they_hold_the_truth_as_often_as_they_say(r: float, coverage: float):
    streams = 2_000
    others = autoregression(streams, 1_500, 0.9, seed=1)
    losses = others + 0.3 + autoregression(streams, 1_500, r)
    found = [paired_interval(a, b, coverage) for a, b in zip(losses, others, strict=True)]
    held = np.mean([each.low <= 0.3 <= each.high for each in found])
    sd = np.sqrt(coverage * (1.0 - coverage) / streams)
    assert abs(held - coverage) < 4.0 * sd + 0.01
    if r == 0.8:  # an interval for independent rows would not
        plain = [stats.t.interval(coverage, 1_499, d.mean(), d.std() / np.sqrt(1_500)) for d in losses - others]
        assert np.mean([low <= 0.3 <= high for low, high in plain]) < coverage - 0.2


def test_of_independent_rows_it_is_as_wide_as_student_says():
    difference = np.random.default_rng(0).normal(size=(400, 1_000))
    widths = [found.high - found.low for found in (paired_interval(d, np.zeros(1_000)) for d in difference)]
    want = 2.0 * stats.t.ppf(0.975, 40) / np.sqrt(1_000)
    spread = np.std(widths) / np.sqrt(400)
    assert abs(np.mean(widths) - want * np.sqrt(1.0 - 1.0 / 80)) < 4.0 * spread + 0.002 * want


def test_the_cosines_are_those_of_the_paper():
    """Written out: Lambda_j = sqrt(2 / T) sum over t of cos(pi j (t - 1/2) / T) z_t."""
    d = np.random.default_rng(1).normal(size=50) + 3.0
    T, B = 50, round(0.4 * 50 ** (2 / 3))
    t = np.arange(1, T + 1)
    Lambda = [np.sqrt(2 / T) * np.sum(np.cos(np.pi * j * (t - 0.5) / T) * d) for j in range(1, B + 1)]
    half = stats.t.ppf(0.95, B) * np.sqrt(np.mean(np.square(Lambda)) / T)
    found = paired_interval(d, np.zeros(50), 0.9)
    np.testing.assert_allclose(found, [d.mean(), d.mean() - half, d.mean() + half], rtol=1e-12)


def test_rows_that_one_of_them_lacks_do_not_count():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 100))
    gaps = np.where(np.arange(100) % 7 == 0, np.nan, a)
    kept = np.arange(100) % 7 != 0
    assert paired_interval(gaps, b) == paired_interval(a[kept], b[kept])


def test_few_rows_have_a_mean_and_no_interval():
    found = paired_interval([1.0, 2.0], [0.0, 0.0])
    assert found.mean == 1.5
    assert np.isnan([found.low, found.high]).all()
    assert not found.is_shown
    assert np.isnan(paired_interval([], []).mean)


def test_what_is_shown():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=500)
    assert paired_interval(noise + 1.0, np.zeros(500)).is_shown
    assert paired_interval(noise - 1.0, np.zeros(500)).is_shown
    assert not paired_interval(noise - noise.mean(), np.zeros(500)).is_shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((np.zeros(3), np.zeros(4)), r"losses, others: .*losses \(3,\), others \(4,\)"),
        ((np.zeros((3, 2)), np.zeros((3, 2))), r"expected one loss a row, .*\(3, 2\)"),
        ((np.zeros(3), np.zeros(3), 95), r"coverage: .*got 95"),
    ],
)
def test_bad_losses_are_named(given, message: str):
    with pytest.raises(ValueError, match=message):
        paired_interval(*given)


def test_losses_whose_squares_overflow_have_the_interval_of_smaller_ones():
    difference = np.random.default_rng(0).normal(size=1_000)
    usual, large = (paired_interval(scale * difference, np.zeros(1_000)) for scale in (1.0, 1e180))
    assert (large.low / 1e180, large.high / 1e180) == pytest.approx((usual.low, usual.high), rel=1e-12)
    still = paired_interval(np.ones(1_000), np.zeros(1_000))
    assert still.low == pytest.approx(1.0) and still.high == pytest.approx(1.0)
