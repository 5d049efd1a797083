"""Running scores against their textbook definitions over the recorded predictions."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from streamgp.evaluation import RegressionMetrics, RegressionScores, regression_scores, score_regression
from streamgp.likelihoods import Predictive
from streamgp.likelihoods.recalibration import STD_FACTORS
from streamgp.numerics.checkpoint.encoding import decode, encode

ROWS, K = 300, 3


def recorded(outputs: int = 2, offset: float = 0.0) -> tuple[Predictive, np.ndarray]:
    """Mixtures that are off by about as much as they say, with a component that is switched off."""
    rng = np.random.default_rng(8)
    y = np.cumsum(rng.normal(size=(ROWS, outputs)), axis=0) + offset
    weights = rng.dirichlet(np.ones(K), size=ROWS)
    weights[:, 0] = 0.0
    weights /= weights.sum(1, keepdims=True)
    loc = y[:, None, :] + rng.normal(size=(ROWS, K, outputs))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return Predictive(log_weights, loc, rng.uniform(0.3, 2.0, size=(ROWS, K, outputs))), y


def moments(p: Predictive) -> tuple[np.ndarray, np.ndarray]:
    w = np.exp(np.asarray(p.log_weights))[:, :, None]
    mean = (w * p.loc).sum(1)
    return mean, np.sqrt((w * (p.var + np.square(p.loc))).sum(1) - mean**2)


def mixture_cdf(p: Predictive, row: int, output: int, y: float) -> float:
    w = np.exp(np.asarray(p.log_weights)[row])
    return float(np.sum(w * norm.cdf(y, p.loc[row, :, output], np.sqrt(p.var[row, :, output]))))


def score(
    p: Predictive, y: np.ndarray, warmup: int, cuts: tuple[int, ...] = (), flagged: np.ndarray | None = None
) -> dict[str, Any]:
    metrics = RegressionMetrics([f"y{e}" for e in range(y.shape[1])], warmup)
    scores = score_regression(p, y)
    for start, stop in itertools.pairwise((0, *cuts, len(y))):
        marks = None if flagged is None else flagged[start:stop]
        metrics.add(RegressionScores(*(a[start:stop] for a in scores)), marks)
    return metrics.result()


@pytest.mark.parametrize("experts", [6, 80])
def test_resting_experts_cost_nothing_and_change_nothing(experts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    log_weights = np.log(rng.dirichlet(np.ones(experts), size=50))
    loc, var = rng.normal(size=(50, experts, 2)), rng.uniform(0.3, 2.0, size=(50, experts, 2))
    dof = np.full((50, experts), 12.0)
    shares = rng.dirichlet(np.ones(STD_FACTORS.size), size=(50, 2))
    y = rng.normal(size=(50, 2))
    log_weights[:, ::2] = -np.inf  # in every row
    log_weights[:20, 1] = -np.inf  # in some
    log_weights -= np.log(np.exp(log_weights).sum(1, keepdims=True))
    p = Predictive(log_weights, loc, var, dof, trim=0.2, recalibration=shares)
    seen = []
    crps = regression_scores.mixture_crps
    monkeypatch.setattr(
        regression_scores, "mixture_crps", lambda m, *more: seen.append(m.loc.shape[1]) or crps(m, *more)
    )
    found = score_regression(p, y)
    assert set(seen) == {experts // 2}
    monkeypatch.setattr(Predictive, "weighted", lambda self: self)
    for name, some, whole in zip(found._fields, found, score_regression(p, y), strict=True):
        # Distances between many have six digits.
        np.testing.assert_allclose(some, whole, rtol=1e-5 if (name, experts) == ("crps", 80) else 1e-11, err_msg=name)


def flat(result: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for name, value in result.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def test_row_scores_are_those_of_the_mixture():
    p, y = recorded()
    scores = score_regression(p, y)
    mean, std = moments(p)
    np.testing.assert_allclose(scores.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(scores.std, std, rtol=1e-9)
    density = norm.pdf(y[:, None, :], p.loc, np.sqrt(p.var)).prod(2)
    w = np.exp(np.asarray(p.log_weights))
    np.testing.assert_allclose(scores.log_density, np.log((w * density).sum(1)), rtol=1e-10)
    np.testing.assert_allclose(scores.moment_log_density, norm.logpdf(y, mean, std).sum(1), rtol=1e-9)
    for row, output in ((0, 0), (7, 1), (255, 0), (256, 1), (299, 0)):
        target = y[row, output]
        assert scores.pit[row, output] == pytest.approx(mixture_cdf(p, row, output, target), abs=1e-12)
        for name, level in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
            root = brentq(lambda x: mixture_cdf(p, row, output, x) - level, target - 50, target + 50, xtol=1e-12)  # noqa: B023
            assert getattr(scores, name)[row, output] == pytest.approx(root, abs=1e-8)
        below = quad(lambda x: mixture_cdf(p, row, output, x) ** 2, target - 40, target, limit=200)[0]  # noqa: B023
        above = quad(lambda x: (1 - mixture_cdf(p, row, output, x)) ** 2, target, target + 40, limit=200)[0]  # noqa: B023
        assert scores.crps[row, output] == pytest.approx(below + above, abs=1e-6)


@pytest.mark.parametrize("warmup", [0, 1, 37])
def test_running_scores_are_the_definitions(warmup: int):
    p, y = recorded()
    result = score(p, y, warmup)
    scores = score_regression(p, y)
    mean, _ = moments(p)
    assert (result["rows"], result["warmup"], result["scored_rows"]) == (ROWS, warmup, ROWS - warmup)
    assert result["pll"] == pytest.approx(scores.log_density[warmup:].mean(), rel=1e-12)
    assert result["pll_moment"] == pytest.approx(scores.moment_log_density[warmup:].mean(), rel=1e-12)
    for e, name in enumerate(("y0", "y1")):
        found = result["per_target"][name]
        target = y[warmup:, e]
        error = mean[warmup:, e] - target
        assert found["nmse"] == pytest.approx(np.mean(error**2) / np.var(target), rel=1e-10)
        assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
        assert found["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-12)
        assert found["crps"] == pytest.approx(scores.crps[warmup:, e].mean(), rel=1e-12)
        for level in (50, 90, 95):
            low, high = (1 - level / 100) / 2, (1 + level / 100) / 2
            pit = scores.pit[warmup:, e]
            assert found["coverage"][str(level)] == pytest.approx(np.mean((pit >= low) & (pit <= high)), abs=1e-15)
        first = max(warmup, 1)  # no rival predicts the very first row
        naive = {
            "persistence": y[first - 1 : -1, e],
            "running_mean": np.array([y[:row, e].mean() for row in range(first, ROWS)]),
        }
        for rival, predicted in naive.items():
            error = predicted - y[first:, e]
            assert found["naive"][rival]["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-10)
            assert found["naive"][rival]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-10)
            assert found["naive"][rival]["nmse"] == pytest.approx(np.mean(error**2) / np.var(target), rel=1e-10)
    top = {name: value for name, value in result.items() if name in result["per_target"]["y0"]}
    assert {**result["per_target"]["y0"], **top} == result["per_target"]["y0"]


@pytest.mark.parametrize("cuts", [(1, 2, 3, 38), (36, 37, 38), (37,), tuple(range(10, ROWS, 10))])
def test_chunks_do_not_matter(cuts: tuple[int, ...]):
    p, y = recorded(offset=1e6)
    whole, cut = flat(score(p, y, 37)), flat(score(p, y, 37, cuts))
    assert whole.keys() == cut.keys()
    for name, value in whole.items():
        assert value is None if cut[name] is None else cut[name] == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("cuts", [(), (36, 37, 38), (37,)])
def test_without_flagged_rows_the_scores_are_those_of_the_others(cuts: tuple[int, ...]):
    p, y = recorded()
    flagged = np.random.default_rng(1).random(ROWS) < 0.1
    y[flagged] += 1e4
    assert flagged[:37].any()
    assert score(p, y, 37, cuts, np.zeros(ROWS, bool))["unflagged"] is None
    found = score(p, y, 37, cuts, flagged)
    assert found | {"per_target": 0, "unflagged": 0} == score(p, y, 37, cuts) | {"per_target": 0, "unflagged": 0}
    usual = ~flagged & (np.arange(ROWS) >= 37)
    for e, name in enumerate(("y0", "y1")):
        error = (moments(p)[0] - y)[usual, e]
        each = found["per_target"][name]["unflagged"]
        assert each["rows"] == usual.sum()
        assert each["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
        assert each["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-12)
        assert each["nmse"] == pytest.approx(np.mean(error**2) / np.var(y[usual, e]), rel=1e-9)
        repeated = (y[:-1, e] - y[1:, e])[usual[1:]]
        assert each["naive"]["persistence"]["rmse"] == pytest.approx(np.sqrt(np.mean(repeated**2)), rel=1e-12)


def test_what_the_baselines_predicted():
    p, y = recorded(outputs=1)
    scores = score_regression(p, y)
    metrics = RegressionMetrics(["y0"], 10)
    parts = [metrics.add(RegressionScores(*(a[rows] for a in scores))) for rows in (slice(0, 4), slice(4, ROWS))]
    persistence, running = (np.concatenate(a)[:, 0] for a in zip(*parts, strict=True))
    assert np.isnan(persistence[0])
    assert np.isnan(running[0])
    np.testing.assert_array_equal(persistence[1:], y[:-1, 0])
    np.testing.assert_allclose(running[1:], np.cumsum(y[:-1, 0]) / np.arange(1, ROWS), rtol=1e-12)


def test_a_large_offset_does_not_spoil_the_variance():
    p, y = recorded(outputs=1)
    far = Predictive(p.log_weights, p.loc + 1e9, p.var)
    near = score(p, y, 20, cuts=(50, 51, 200))
    assert score(far, y + 1e9, 20, cuts=(50, 51, 200))["nmse"] == pytest.approx(near["nmse"], rel=1e-5)


def test_stored_in_the_middle_and_restored():
    p, y = recorded()
    scores = score_regression(p, y)
    unbroken = RegressionMetrics(["a", "b"], 50)
    flagged = np.arange(ROWS) % 7 == 0
    unbroken.add(RegressionScores(*(a[:80] for a in scores)), flagged[:80])
    tree = unbroken.to_tree()
    stored = encode(tree)
    unbroken.add(RegressionScores(*(a[80:] for a in scores)), flagged[80:])
    for kept in (decode(*stored, {}), tree, tree):  # a tree stays as it was taken
        restored = RegressionMetrics.from_tree(kept)
        restored.add(RegressionScores(*(a[80:] for a in scores)), flagged[80:])
        assert restored.result() == unbroken.result()


def test_without_a_scored_row_there_is_no_score():
    p, y = recorded(outputs=1)
    for result in (score(p, y, ROWS), score(p, y, 10 * ROWS), RegressionMetrics(["y0"], 5).result()):
        scores = flat(result)
        for name in ("rows", "warmup", "scored_rows", "unlabelled_rows"):
            scores.pop(name)
        assert result["scored_rows"] == 0
        assert set(scores.values()) == {None}


def test_a_constant_target_has_no_normalised_error():
    p, _ = recorded(outputs=1)
    result = score(p, np.full((ROWS, 1), 3.0), 10)
    assert result["nmse"] is None
    assert result["naive"]["running_mean"]["nmse"] is None
    assert result["rmse"] > 0.0
    assert result["naive"]["persistence"]["rmse"] == 0.0


def test_perfect_coverage_is_not_by_chance():
    """Targets drawn from the predictions are covered as often as they should be, within Monte-Carlo error."""
    rng = np.random.default_rng(0)
    n = 4000
    loc = rng.normal(size=(n, 1, 1))
    p = Predictive(np.zeros((n, 1)), loc, np.full((n, 1, 1), 0.25))
    coverage = score(p, loc[:, 0] + 0.5 * rng.normal(size=(n, 1)), 0)["coverage"]
    for level, share in coverage.items():
        expected = int(level) / 100
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / n)
