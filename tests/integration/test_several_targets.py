"""Streams of several targets, of which some may be missing: how their errors go together, and what that is worth."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from streamgp import StreamingGPRegressor, evaluate
from streamgp.likelihoods.conditional import Conditional
from streamgp.likelihoods.correlation import Comoments, correlation_matrices
from streamgp.models.registry import make_spec
from streamgp.numerics.precision import float64
from streamgp.stream.apart import new_learner
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streams import restored, same

pytestmark = pytest.mark.slow

ROWS, WARMUP = 160, 30


def stream(targets: int = 3, missing: bool = True, r: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets whose noise is correlated; of some rows, some or all targets are missing."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(ROWS, 2))
    noise = rng.multivariate_normal(np.zeros(targets), r + (1 - r) * np.eye(targets), size=ROWS)
    y = X @ rng.normal(size=(2, targets)) + noise
    if missing:
        y[rng.random(y.shape) < 0.15] = np.nan
        y[50:53] = np.nan
    return X, y


def new(targets: int = 3, **options: Any) -> StreamLearner:
    spec = make_spec("linear", **options)
    return new_learner(StreamSettings(spec, num_inputs=2, num_outputs=targets, warmup=WARMUP, seed=1))


@pytest.fixture(scope="module")
def whole() -> tuple[StreamLearner, list[Any]]:
    model = new()
    return model, list(model.learn(*stream()))


def test_a_row_s_correlation_is_that_of_the_pairs_before_it(whole):
    model, infos = whole
    y, known, at = stream()[1], Comoments.none(3), 0
    for info in infos:
        p = info.predictive
        for i in range(len(info.outside)):
            np.testing.assert_allclose(p.correlation[i], correlation_matrices([known])[0], rtol=1e-9, atol=1e-12)
            with float64():
                u = np.asarray(p.cdf(np.nan_to_num(np.tile(y[at], (len(info.outside), 1)))))[i]
            known = known.learn(np.where(np.isnan(y[at]), np.nan, np.clip(ndtri(u), -4.0, 4.0)))
            at += 1
    np.testing.assert_allclose(model.state.error_correlation, correlation_matrices([known])[0], rtol=1e-9)
    assert (model.state.error_correlation[np.triu_indices(3, 1)] > 0.5).all()
    assert model.rows == np.isfinite(y).any(1).sum(), "each row teaches the models of the targets that it has"


def test_row_by_row_and_resumed_are_as_in_one_call(whole):
    expected = np.concatenate([info.predictive.correlation for info in whole[1]])
    model, found, (X, y) = new(), [], stream()
    for i in range(ROWS):
        if i in (20, 52, 90):
            twin = restored(model)
            assert same(twin, model)
            model = twin
        if i >= 100 and i % 3:  # one at a time, as a robot does
            model.learn_one(X[i], y[i])
            found.append(None)
        else:
            found += [row for info in model.learn(X[i : i + 1], y[i : i + 1]) for row in info.predictive.correlation]
    for row, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"row {row}")
    np.testing.assert_allclose(model.state.error_correlation, whole[0].state.error_correlation, rtol=1e-9)


def test_a_forecast_knows_the_correlation_of_when_it_was_made():
    h = 3
    X, y = stream(2)
    model = new(2, horizon=h)
    infos = list(model.learn(X, y))
    found = np.concatenate([info.predictive.correlation for info in infos])
    changed = y.copy()
    changed[100] = -changed[100] * [1.0, -1.0]
    other = np.concatenate([info.predictive.correlation for info in new(2, horizon=h).learn(X, changed)])
    learnt = np.flatnonzero(np.isfinite(y[100:]).all(1)) + 100
    np.testing.assert_array_equal(found[: learnt[0] + 1], other[: learnt[0] + 1])
    assert learnt[0] == 100
    np.testing.assert_array_equal(found[: learnt[h - 1] + 1], other[: learnt[h - 1] + 1])
    assert not np.allclose(found[learnt[h]], other[learnt[h]])
    one, rows = new(2, horizon=h), []
    for i in range(ROWS):
        rows += [row for info in one.learn(X[i : i + 1], y[i : i + 1]) for row in info.predictive.correlation]
    np.testing.assert_allclose(rows, found, rtol=1e-9, atol=1e-9)


# For users


@pytest.fixture(scope="module")
def model() -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(*stream(2))


def test_what_is_given_sharpens_what_is_not(model):
    X, y = stream(2, missing=False)
    given = np.column_stack([y[:40, 0], np.full(40, np.nan)])
    mean, std = model.predict(X[:40], return_std=True)
    sharper, narrower = model.predict(X[:40], return_std=True, given=given)
    np.testing.assert_array_equal(sharper[:, 0], y[:40, 0])
    np.testing.assert_array_equal(narrower[:, 0], 0.0)
    assert (narrower[:, 1] < 0.8 * std[:, 1]).all()
    assert np.abs(sharper - y[:40])[:, 1].mean() < np.abs(mean - y[:40])[:, 1].mean()
    nothing = model.predict(X[:40], return_std=True, given=np.full((40, 2), np.nan))
    np.testing.assert_allclose(nothing, (mean, std), rtol=1e-12)


def test_the_distribution_given_some_targets(model):
    X, y = stream(2, missing=False)
    given = np.column_stack([y[:5, 0], np.full(5, np.nan)])
    d = model.predict_dist(X[:5], given=given)
    low, high = d.interval(0.9)
    assert (low[:, 1] < d.mean[:, 1]).all()
    assert (d.mean[:, 1] < high[:, 1]).all()
    np.testing.assert_array_equal(low[:, 0], y[:5, 0])
    assert d.log_density(y[:5]).shape == (5,)
    assert (np.diff(d.sample(4)[:, 0], axis=1) == 0.0).all()
    with float64():
        p = model._learner.predict(X[:5])
        np.testing.assert_allclose(d.log_density(y[:5]), Conditional(p, given).log_density(y[:5]), rtol=1e-12)


def test_the_correlation_survives_a_checkpoint(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = StreamingGPRegressor.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.error_correlation_, model.error_correlation_)
    assert model.error_correlation_.shape == (2, 2)
    X, y = stream()
    one = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y[:, 0])
    np.testing.assert_array_equal(one.error_correlation_, [[1.0]])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((3, 2)), r"expected shape \(4, 2\)"),
        (np.zeros(4), r"got shape \(4,\)"),
        (np.full((4, 2), np.inf), "got inf at row 0, column 0"),
        (np.full((4, 2), 1e300), "at row 0, column 0"),
    ],
)
def test_what_cannot_be_given_is_refused(model, given: np.ndarray, words: str):
    before = model._learner.to_tree()["rows"]
    with pytest.raises(ValueError, match=words):
        model.predict(stream()[0][:4], given=given)
    assert model.rows_ == before


def test_one_target_has_nothing_to_give():
    X, y = stream()
    one = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y[:, 0])
    with pytest.raises(ValueError, match="has one; leave it out"):
        one.predict(X[:2], given=np.zeros((2, 1)))


def test_an_evaluation_has_joint_scores():
    X, y = stream(2, missing=False)
    metrics = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y).metrics
    alone = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y[:, 0]).metrics
    assert metrics["joint_pll"] > metrics["pll"] + 0.1
    assert metrics["joint_pll_standardised"] - metrics["joint_pll"] == pytest.approx(
        metrics["pll_standardised"] - metrics["pll"]
    )
    assert 0.0 < metrics["energy"] < metrics["per_target"]["y0"]["crps"] + metrics["per_target"]["y1"]["crps"]
    assert "joint_pll" not in alone


def test_targets_on_a_scale_of_their_own_have_joint_scores_too():
    X, y = stream(2, missing=False)
    model = StreamingGPRegressor("linear", warmup=WARMUP, target_transform="log")
    metrics = evaluate(model, X, np.exp(y)).metrics
    assert metrics["joint_pll"] > metrics["pll"] + 0.1  # the change of variables is in both
    assert 0.0 < metrics["energy"] < metrics["per_target"]["y0"]["crps"] + metrics["per_target"]["y1"]["crps"]
    with pytest.raises(ValueError, match="given: expected a model that learns its targets as they are"):
        model.predict(X[:2], given=np.full((2, 2), np.nan))
