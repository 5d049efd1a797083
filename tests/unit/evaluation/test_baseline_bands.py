"""Bands of naive predictions: by their own errors before each row, whatever the chunks."""

from itertools import pairwise

import numpy as np
import pytest

from streamgp.evaluation.baseline_bands import EVERY, FIRST, KEPT, BaselineBands
from streamgp.evaluation.regression import RegressionMetrics
from streamgp.evaluation.regression_scores import score_regression
from streamgp.likelihoods import Predictive

ROWS, WARMUP = 1_500, 30


def errors() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    error = np.linspace(1.0, 4.0, ROWS) * rng.standard_t(4, ROWS)
    error[[0, 700, 701]] = np.nan
    return error, np.arange(ROWS) >= WARMUP


def by_hand(late: int) -> dict[str, float]:
    """Return the scores by the definition: quantiles of, and distances to, the errors before each row."""
    error, scored = errors()
    known = np.isfinite(error)
    error, scored = error[known], scored[known]
    widths, intervals, crps = [], [], []
    for i in np.flatnonzero(scored):
        since = i - i % EVERY if i >= EVERY else 1 << (int(i).bit_length() - 1)
        past = error[max(0, since - late - KEPT) : max(0, since - late)]
        low, high = np.quantile(past, [0.05, 0.95])
        outside = max(low - error[i], 0.0) + max(error[i] - high, 0.0)
        widths.append(high - low)
        intervals.append(high - low + 20.0 * outside)
        crps.append(np.abs(past - error[i]).mean() - 0.5 * np.abs(past[:, None] - past).mean())
    return {"width": np.mean(widths), "interval_score": np.mean(intervals), "crps": np.mean(crps)}


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("size", [ROWS, 64, 37, 1])
def test_bands_are_those_of_the_errors_before_whatever_the_chunks(late: int, size: int):
    bands, (error, scored) = BaselineBands(late), errors()
    for at in range(0, ROWS, size):
        bands.add(error[at : at + size], scored[at : at + size])
        bands = BaselineBands.from_tree(bands.to_tree())
    found = bands.result()
    for name, value in by_hand(late).items():
        assert found[name] == pytest.approx(value, rel=1e-9), name
    assert len(bands._recent) <= KEPT + late


def test_the_crps_is_the_integral_over_the_law_of_the_errors():
    bands, rng = BaselineBands(), np.random.default_rng(1)
    past, y = rng.normal(size=EVERY), 0.7
    bands.add(past, np.zeros(EVERY, bool))
    bands.add(np.array([y]), np.array([True]))

    def squared(z: float) -> float:
        return (np.mean(past <= z) - (y <= z)) ** 2

    ends = np.sort([*past, y])
    expected = sum((b - a) * squared(0.5 * (a + b)) for a, b in pairwise(ends.tolist()))
    assert bands.result()["crps"] == pytest.approx(expected, rel=1e-9)


def test_rows_before_any_error_are_not_scored():
    bands = BaselineBands()
    bands.add(np.ones(FIRST), np.ones(FIRST, bool))
    assert bands.result() == {"crps": None, "width": None, "interval_score": None}
    bands.add(np.ones(1), np.ones(1, bool))
    assert bands.result() == {"crps": 0.0, "width": 0.0, "interval_score": 0.0}


def test_scores_of_a_stream_have_them_beside_the_model_s():
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.normal(size=(400, 1)), axis=0)
    metrics = RegressionMetrics(["y"], 100)
    predictive = Predictive(np.zeros((400, 1)), np.zeros((400, 1, 1)), np.ones((400, 1, 1)))
    metrics.add(score_regression(predictive, y))
    naive = RegressionMetrics.from_tree(metrics.to_tree()).result()["naive"]
    assert naive["persistence"]["crps"] == pytest.approx(np.sqrt(1.0 / np.pi), rel=0.15)  # of a standard normal
    assert naive["persistence"]["width"] == pytest.approx(3.29, rel=0.15)
    assert naive["running_mean"]["crps"] > 2.0 * naive["persistence"]["crps"]
