"""Running scores of counts against scikit-learn's and the textbook's, over predictions by known laws."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_poisson_deviance
from test_classification import same

from streamgp.evaluation.counts import CountMetrics, score_counts
from streamgp.numerics.checkpoint.encoding import decode, encode

ROWS = 300


class Told:
    """Predictions by a frozen law of SciPy, a parameter for each row."""

    def __init__(self, law: Any) -> None:
        self.law = law
        self.mean, self.std = law.mean(), law.std()

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return self.law.cdf(y)

    def quantile(self, probability: float) -> np.ndarray:
        return self.law.ppf(probability)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return self.law.logpmf(y)[:, 0]


def recorded(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rates, counts and exposures; a stretch of zeros."""
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.5, 3.0, size=(ROWS, 1))
    rate = np.exp(np.sin(np.arange(ROWS) / 40))[:, None] * exposure
    y = rng.poisson(1.3 * rate).astype(float)
    y[100:105] = 0.0
    return rate, y, exposure


def score(cuts: tuple[int, ...] = (), warmup: int = 40, exposed: bool = False, horizon: int = 0) -> dict[str, Any]:
    rate, y, exposure = recorded()
    metrics = CountMetrics("calls", warmup, horizon)
    for start, stop in itertools.pairwise((0, *cuts, len(y))):
        rows = slice(start, stop)
        told = Told(stats.poisson(rate[rows]))
        metrics.add(metrics.score(told, y[rows], exposure[rows] if exposed else None))
    return metrics.result()


def brute_force(law: Any, y: float) -> float:
    k = np.arange(max(law.ppf(1 - 1e-13), y) + 2)
    return float(np.sum((law.cdf(k) - (y <= k)) ** 2))


@pytest.mark.parametrize("mean", [0.01, 0.3, 5.0, 60.0, 5000.0])
def test_the_ranked_probability_score(mean: float):
    law = stats.poisson(mean)
    y = np.concatenate([law.rvs(20, random_state=2), [0, law.ppf(0.9999), 3 * law.ppf(0.99) + 5]])
    found = score_counts(Told(stats.poisson(np.full((len(y), 1), mean))), y[:, None].astype(float)).crps
    rtol = 1e-9 if mean <= 5 else 0.006
    np.testing.assert_allclose(found[:, 0], [brute_force(law, v) for v in y], rtol=rtol)


def test_the_ranked_probability_score_of_a_long_tail():
    law = stats.nbinom(1.0, 0.01)
    y = law.rvs(50, random_state=3)[:, None].astype(float)
    found = score_counts(Told(stats.nbinom(np.ones_like(y), 0.01)), y).crps
    np.testing.assert_allclose(found[:, 0], [brute_force(law, v) for v in y[:, 0]], rtol=0.01)


class Listed(Told):
    """The same with a table of the first counts of every second row."""

    def of_rows(self, rows: np.ndarray) -> Told:
        return Told(stats.poisson(self.law.args[0][rows]))

    def cdf_from_zero(self, counts: np.ndarray) -> np.ndarray:
        k = np.arange(counts.max())
        found = np.where(k < counts[:, None], self.law.cdf(k[None]), np.nan)
        found[::2] = np.nan
        return found


def test_the_ranked_probability_score_by_a_table():
    mean = np.linspace(0.2, 30.0, 40)[:, None]
    y = stats.poisson.rvs(1.2 * mean, random_state=3).astype(float)
    found = score_counts(Listed(stats.poisson(mean)), y).crps[:, 0]
    brute = np.array([brute_force(stats.poisson(a), b) for a, b in zip(mean[:, 0], y[:, 0], strict=True)])
    np.testing.assert_allclose(found[1::2], brute[1::2], rtol=1e-9)
    np.testing.assert_allclose(found, brute, rtol=0.006)


def test_row_scores_are_those_of_the_law():
    rate, y, _ = recorded()
    found = score_counts(Told(stats.poisson(rate)), y)
    np.testing.assert_allclose(found.pit, stats.poisson.cdf(y, rate), rtol=1e-12)
    np.testing.assert_allclose(found.pit_below, stats.poisson.cdf(y - 1, rate), atol=1e-14)
    np.testing.assert_array_equal(found.q95, stats.poisson.ppf(0.95, rate))
    np.testing.assert_allclose(found.log_density, stats.poisson.logpmf(y, rate)[:, 0], rtol=1e-12)


@pytest.mark.parametrize("late", [1, 4])
def test_scores_are_the_definitions(late: int):
    rate, y, exposure = (a[:, 0] for a in recorded())
    found = score(exposed=True, horizon=late)
    scored = slice(40, None)
    assert found["deviance"] == pytest.approx(mean_poisson_deviance(y[scored], rate[scored]), rel=1e-12)
    error = rate[scored] - y[scored]
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["mae"] == pytest.approx(np.mean(np.abs(error)))
    assert found["nmse"] == pytest.approx(np.mean(error**2) / np.var(y[scored]))
    assert found["pll"] == pytest.approx(stats.poisson.logpmf(y, rate)[scored].mean(), rel=1e-12)
    brute = [brute_force(stats.poisson(a), b) for a, b in zip(rate[scored], y[scored], strict=True)]
    assert found["crps"] == pytest.approx(np.mean(brute), rel=1e-9)
    average = np.cumsum(y) / np.cumsum(exposure)
    running = average[40 - late : -late] * exposure[40:]
    last = (y / exposure)[40 - late : -late] * exposure[40:]
    naive = found["naive"]
    assert naive["running_mean"]["deviance"] == pytest.approx(mean_poisson_deviance(y[40:], running), rel=1e-12)
    assert naive["running_mean"]["rmse"] == pytest.approx(np.sqrt(np.mean((running - y[40:]) ** 2)))
    assert naive["persistence"]["mae"] == pytest.approx(np.mean(np.abs(last - y[40:])))
    assert naive["persistence"]["deviance"] is None  # a count after a zero was impossible to it


def test_coverage_of_a_calibrated_model_is_nominal_in_expectation():
    """Summed over the law itself instead of over draws: exact, although the counts are few."""
    covered = dict.fromkeys(("50", "90", "95"), 0.0)
    for count in range(40):
        one = CountMetrics("n", 0)
        one.add(one.score(Told(stats.poisson(np.full((1, 1), 1.7))), np.array([[float(count)]])))
        for level, share in one.result()["coverage"].items():
            covered[level] += float(stats.poisson.pmf(count, 1.7)) * share
    assert covered == pytest.approx({"50": 0.5, "90": 0.9, "95": 0.95}, abs=1e-10)


def test_a_count_that_was_impossible_is_outside():
    metrics = CountMetrics("n", 0)
    metrics.add(metrics.score(Told(stats.poisson(np.full((1, 1), 1.0))), np.array([[400.0]])))
    assert set(metrics.result()["coverage"].values()) == {0.0}


def test_a_count_beyond_all_digits_is_scored_without_a_warning():
    """The log of the probability of a count of 1e30, a difference of numbers as large, came out above 0."""

    class Rounded(Told):
        def log_density(self, y: np.ndarray) -> np.ndarray:
            return np.full(len(y), 1e15)

    found = CountMetrics("n", 0).score(Rounded(stats.poisson(np.full((1, 1), 1.0))), np.array([[1e30]]))
    assert np.isfinite(found.pit_below).all()


@pytest.mark.parametrize("cuts", [(1, 2, 3, 38), (39, 40, 41), tuple(range(10, ROWS, 10))])
def test_chunks_do_not_matter(cuts: tuple[int, ...]):
    same(score(exposed=True, horizon=3), score(cuts, exposed=True, horizon=3))


def test_stored_in_the_middle_and_restored():
    rate, y, exposure = recorded()

    def take(metrics: CountMetrics, rows: slice) -> None:
        metrics.add(metrics.score(Told(stats.poisson(rate[rows])), y[rows], exposure[rows]))

    unbroken = CountMetrics("calls", 50, 2)
    take(unbroken, slice(80))
    tree = unbroken.to_tree()
    stored = encode(tree)
    take(unbroken, slice(80, None))
    for kept in (decode(*stored, {}), tree, tree):
        restored = CountMetrics.from_tree(kept)
        take(restored, slice(80, None))
        assert restored.result() == unbroken.result()


def test_without_a_scored_row_there_is_no_score():
    result = CountMetrics("calls", 5).result()
    assert [result[name] for name in ("deviance", "rmse", "crps", "pll")] == [None] * 4


@pytest.mark.parametrize("cuts", [(), (40, 41, 77, 200)])
@pytest.mark.parametrize("late", [1, 30])
def test_each_season_is_a_baseline_by_its_rates(cuts: tuple[int, ...], late: int):
    (rate, y, exposure), warmup, season = recorded(), 40, 24
    metrics = CountMetrics("calls", warmup, late)
    for start, stop in itertools.pairwise((0, *sorted({warmup, *cuts}), len(y))):
        rows = slice(start, stop)
        scores = metrics.score(Told(stats.poisson(rate[rows])), y[rows], exposure[rows])
        metrics.add(scores, (season,) if start >= warmup else None)
        metrics = CountMetrics.from_tree(decode(*encode(metrics.to_tree()), {}))
    back = season * -(-late // season)
    before = (y / exposure)[warmup - back : -back, 0] if warmup >= back else None
    naive = metrics.result()["naive"]
    assert list(naive) == ["persistence", "running_mean", "seasonal_24"]
    if before is not None:
        predicted, target = before * exposure[warmup:, 0], y[warmup:, 0]
        assert naive["seasonal_24"]["rmse"] == pytest.approx(np.sqrt(np.mean((predicted - target) ** 2)))
    (judgement,) = metrics.judgements()
    assert {each.baseline for each in judgement.against} == set(naive)


def test_a_missing_count_keeps_its_place_in_a_season():
    rate, y, exposure = recorded()
    metrics = CountMetrics("calls", 40)
    metrics.add(metrics.score(Told(stats.poisson(rate[:40])), y[:40], exposure[:40]))
    metrics.add(metrics.score(Told(stats.poisson(rate[40:50])), y[40:50], exposure[40:50]), (24,))
    told = metrics.score(Told(stats.poisson(rate[50:51])), y[50:51], exposure[50:51])
    metrics.add_unlabelled(told._replace(y=np.full((1, 1), np.nan)))
    metrics.add(metrics.score(Told(stats.poisson(rate[51:80])), y[51:80], exposure[51:80]), (24,))
    of_rates = (y / exposure)[:, 0]
    of_rates[50] = of_rates[26]  # what a season says of it
    rows = np.r_[40:50, 51:80]
    errors = (of_rates[rows - 24] * exposure[rows, 0] - y[rows, 0]) ** 2
    assert metrics.result()["naive"]["seasonal_24"]["rmse"] == pytest.approx(np.sqrt(errors.mean()))
