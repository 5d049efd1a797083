"""The value of a season before, beside a loop over all rows, in whatever chunks these come."""

import numpy as np
import pytest

from streamgp.evaluation import RegressionMetrics
from streamgp.evaluation.regression_scores import RegressionScores

N, WARMUP, E = 160, 60, 2
SEASONS = (5, 12)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return targets, of which some are missing, and predictions."""
    rng = np.random.default_rng(seed)
    y = 20.0 + np.sin(np.arange(N) / 3.0)[:, None] + rng.normal(size=(N, E))
    mean = y + 0.5 * rng.normal(size=(N, E))
    y[rng.random((N, E)) < 0.06] = np.nan
    return y, mean


def fed(y: np.ndarray, mean: np.ndarray, cuts: list[int], horizon: int = 0, store_at: int = 0) -> RegressionMetrics:
    """Return the scores of rows that come in chunks; the seasons are known from the warm-up's end on."""
    metrics = RegressionMetrics(["a", "b"], WARMUP, horizon)
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        part, one = slice(start, stop), np.zeros((stop - start, E))
        row, known = np.zeros(stop - start), SEASONS if stop > first_scored(y) else None
        scores = RegressionScores(y[part], mean[part], *[one + 1.0] * 4, one, one, row, row, row, row)
        metrics.add(scores, np.zeros(stop - start, bool), seasons=known)
        if store_at and stop >= store_at:
            metrics, store_at = RegressionMetrics.from_tree(metrics.to_tree()), 0
    return metrics


def first_scored(y: np.ndarray) -> int:
    """Return the row before which the warm-up ends: it has so many rows of each target."""
    return int(np.flatnonzero((np.cumsum(~np.isnan(y), axis=0) > WARMUP).any(axis=1))[0])


@pytest.mark.parametrize("horizon", [0, 1, 7])
@pytest.mark.parametrize("store_at", [0, 40, 100])
def test_the_errors_are_those_of_a_loop(horizon: int, store_at: int):
    y, mean = rows()
    start = first_scored(y)
    found = fed(y, mean, [17, start, start + 1, 90, 130], horizon, store_at).result()["per_target"]
    ahead = max(horizon, 1)
    for e, target in enumerate("ab"):
        counted = np.cumsum(~np.isnan(y[:, e])) > WARMUP
        for season in SEASONS:
            lag = season * next(k for k in range(1, 99) if k * season >= ahead)
            errors = []
            for t in np.flatnonzero(counted & ~np.isnan(y[:, e])):
                before = next((v for v in y[t - lag :: -season, e] if not np.isnan(v)), np.nan)
                last = next(value for value in y[t - ahead :: -1, e] if not np.isnan(value))
                errors.append(y[t, e] - (last if np.isnan(before) else before))
            assert found[target]["naive"][f"seasonal_{season}"]["rmse"] == pytest.approx(
                np.sqrt(np.mean(np.square(errors))), rel=1e-9
            )
        own = (y - mean)[counted & ~np.isnan(y[:, e]), e]
        steps = np.abs(y[5:start, e] - y[: start - 5, e])
        kept = steps[-(WARMUP - 5) :]
        assert found[target]["mase"] == pytest.approx(np.abs(own).mean() / np.nanmean(kept), rel=1e-9)
        seen = y[counted & ~np.isnan(y[:, e]), e]
        assert found[target]["mape"] == pytest.approx(np.mean(np.abs(own / seen)), rel=1e-9)


def test_the_judgement_is_beside_the_best_of_all_baselines():
    rng = np.random.default_rng(3)
    y = np.tile(rng.normal(scale=3.0, size=12), 14)[:N, None] + 0.1 * rng.normal(size=(N, 2))
    mean = y + 0.05 * rng.normal(size=y.shape)
    metrics = fed(y, mean, [WARMUP, 77])
    for judgement in metrics.judgements():
        assert judgement.best is not None and judgement.best.baseline == "seasonal_12"
        assert {each.baseline for each in judgement.against} == {
            "persistence",
            "running_mean",
            "seasonal_5",
            "seasonal_12",
        }
        assert judgement.verdict == "better" and judgement.rows == N - WARMUP


def test_a_share_of_a_target_that_is_zero_is_none():
    y, mean = rows()
    y[-1, 0] = 0.0
    found = fed(y, mean, [first_scored(y)]).result()["per_target"]
    assert found["a"]["mape"] is None and found["b"]["mape"] is not None
