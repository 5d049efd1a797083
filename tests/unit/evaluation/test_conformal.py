"""Conformal bands: the recursion by hand, the share that they hold, and what they may know."""

from math import ceil, inf

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPClassifier, StreamingGPRegressor, evaluate
from streamgp.evaluation import AdaptiveThreshold, Conformal


def by_the_paper(scores: np.ndarray, level: float, ahead: int = 1) -> np.ndarray:
    """Gibbs and Candes (2021), Eq. 2, from scratch at every row."""
    alpha, told = 1.0 - level, [inf] * ahead  # no score is 0: `test_what_cannot_be_missed_teaches_nothing`
    memory = round(20 / (1.0 - level))
    for t in range(len(scores)):
        alpha += 0.005 * ((1.0 - level) - (scores[t] > told[t]))
        last = np.sort(np.r_[scores[max(0, t + 1 - memory) : t + 1], inf])
        rank = ceil((1.0 - alpha) * len(last))
        told.append(0.0 if rank < 1 else inf if rank > len(last) else last[rank - 1])
    return np.array(told[: len(scores)])


@pytest.mark.parametrize(("level", "ahead"), [(0.9, 1), (0.5, 1), (0.8, 7)])
def test_thresholds_are_those_of_the_paper(level, ahead):
    rng = np.random.default_rng(0)
    scores = np.abs(rng.standard_t(3, size=700)) * np.where(np.arange(700) < 400, 1.0, 6.0)
    found = AdaptiveThreshold(level, ahead)
    cut = np.split(scores, [1, 5, 300, 301])
    assert_allclose(np.concatenate([found.update(part) for part in cut]), by_the_paper(scores, level, ahead))


def test_any_sequence_at_all_is_covered_in_the_long_run():
    """Proposition 4.1: within (1 + g) / (g T) of the level, even where scores grow for ever or jump at random."""
    rng = np.random.default_rng(1)
    rows = 20_000
    for scores in (np.exp(np.arange(rows) / 500.0), rng.choice([1.0, 100.0], rows), np.zeros(rows)):
        threshold = AdaptiveThreshold(0.9).update(scores)
        missed = np.mean(scores > threshold)
        assert abs(missed - 0.1) < (1.0 + 0.005) / (0.005 * rows) or (scores == 0.0).all()


def test_targets_met_exactly_do_not_run_up_a_debt():
    """A band cannot miss what the model has met to the last digit; what comes after pays for a few rows only."""
    scores = np.r_[np.zeros(20_000), np.abs(np.random.default_rng(4).normal(size=2_000))]
    threshold = AdaptiveThreshold(0.9).update(scores)
    missed = scores[20_000:] > threshold[20_000:]
    assert abs(missed[500:].mean() - 0.1) < 0.02


def test_what_cannot_be_missed_teaches_nothing():
    """A twentieth of the scores are not 0, and a tenth may be missed: the level stays where it can be met."""
    rng = np.random.default_rng(5)
    scores = np.where(rng.random(30_000) < 1 / 20, rng.random(30_000), 0.0)
    threshold = AdaptiveThreshold(0.9)
    found = threshold.update(scores)
    assert np.mean(scores > found) < 0.1
    assert 1 / 20 < threshold.miss < 0.4
    harder = threshold.update(rng.random(2_000))  # and is back within some rows of a change
    assert harder[200:].min() > 0.5


def test_a_model_that_is_certain_has_bands_all_the_same():
    zeros, ones = np.zeros((300, 1)), np.ones((300, 1))
    low, high = Conformal(0.9, ["y"]).add(ones, zeros, zeros, (zeros, zeros))
    assert not np.isnan(low).any()
    assert not np.isnan(high).any()


def stream(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A plane, until the noise and the slope jump."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, 2))
    after = np.arange(rows) >= rows // 2
    y = X[:, 0] * np.where(after, -3.0, 1.0) + np.where(after, 2.0, 0.2) * rng.standard_t(4, size=rows)
    return X, y


def test_bands_hold_where_those_of_the_model_fail():
    X, y = stream(12_000)
    result = evaluate(StreamingGPRegressor("linear", warmup=500), X, y, conformal=0.9)
    told = result.metrics["conformal"]
    assert told["own"]["coverage"] < 0.8
    assert abs(told["coverage"] - 0.9) < 0.01
    assert told["unbounded_rows"] < 60
    assert result.conformal is not None
    inside = (y >= result.conformal[:, 0]) & (y <= result.conformal[:, 1])
    assert np.mean(inside[500:]) == told["coverage"]
    # Also of the rows soon after the jump, and long after it.
    for rows in (slice(6_000, 7_000), slice(9_000, 12_000)):
        assert abs(np.mean(inside[rows]) - 0.9) < 0.03
    assert_allclose(told["own"]["coverage"], result.metrics["coverage"]["90"], atol=1e-12)


def test_no_band_knows_its_target():
    X, y = stream(900)
    model = StreamingGPRegressor("linear", warmup=100)
    first = evaluate(model, X, y, conformal=0.8).conformal
    changed = y.copy()
    changed[700:] += 50.0
    second = evaluate(StreamingGPRegressor("linear", warmup=100), X, changed, conformal=0.8).conformal
    assert first is not None and second is not None
    assert_array_equal(first[:701], second[:701])
    assert not np.array_equal(first[701], second[701])


def test_with_a_horizon_no_band_knows_what_came_after_its_origin():
    X, y = stream(600)
    changed = y.copy()
    changed[400:] += 50.0
    bands = [
        evaluate(StreamingGPRegressor("linear", warmup=100, horizon=5), X, each, conformal=0.9).conformal
        for each in (y, changed)
    ]
    assert_array_equal(bands[0][:405], bands[1][:405])
    assert not np.array_equal(bands[0][405], bands[1][405])


def test_several_targets_have_bands_of_their_own():
    X, y = stream(800)
    result = evaluate(StreamingGPRegressor("linear", warmup=100), X, np.column_stack([y, X[:, 1]]), conformal=0.9)
    assert result.conformal is not None
    assert result.conformal.shape == (800, 2, 2)
    assert list(result.metrics["conformal"]["per_target"]) == ["y0", "y1"]


def test_a_checkpoint_goes_on_where_it_stood():
    rng = np.random.default_rng(3)
    y, mean, std = rng.normal(size=(300, 1)), np.zeros((300, 1)), np.ones((300, 1))
    own = mean - 1.6, mean + 1.6
    whole = Conformal(0.9, ["y"], warmup=50)
    want = whole.add(y, mean, std, own)
    first = Conformal(0.9, ["y"], warmup=50)
    first.add(y[:120], mean[:120], std[:120], (own[0][:120], own[1][:120]))
    then = Conformal.from_tree(first.to_tree())
    got = then.add(y[120:], mean[120:], std[120:], (own[0][120:], own[1][120:]))
    assert_array_equal(got[0], want[0][120:])
    assert then.result()["own"]["width"] == pytest.approx(3.2)
    assert {k: v for k, v in then.result().items() if k != "own"} == pytest.approx(
        {k: v for k, v in whole.result().items() if k != "own"}
    )


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0])
def test_what_is_no_share_is_refused_and_nothing_learnt(level):
    X, y = stream(60)
    model = StreamingGPRegressor("linear", warmup=20)
    with pytest.raises(ValueError, match="conformal"):
        evaluate(model, X, y, conformal=level)
    assert not model.__sklearn_is_fitted__()
    with pytest.raises(ValueError, match="conformal"):
        evaluate(StreamingGPClassifier("linear", warmup=20), X, y > 0, conformal=level)
