"""Streams that depend on their own past: lags equal columns made by hand, in any pieces, and never look ahead."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from test_learner import mean_and_std, run

from oracles.lagged_rows import widened_by_hand
from streamgp import StreamingGPRegressor, evaluate
from streamgp.models.gaussian import family
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.numerics import checkpoint
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

ROWS, WARMUP, LAGS = 120, 40, (1, 3, 20)
SMALL: dict[str, Any] = {"bases": ["linear", "rbf"], "features_per_basis": 5, "dynamics": ["static", "walk 0.001"]}
# Where the model is made anew; the last stretch ends with the stream.
BOUNDARIES = (0, 1, 2, 4, 8, 16, 32, WARMUP, ROWS)


@cache
def stream(outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Targets far from zero that swing by themselves, pushed a little by the inputs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 2))
    y = np.zeros((ROWS, outputs))
    for i in range(1, ROWS):
        y[i] = 0.8 * y[i - 1] - 0.4 * y[i - min(i, 3)] + 0.5 * X[i, :1] + 0.3 * rng.normal(size=outputs)
    return X, 1e4 + 7.0 * y


def new(lags: tuple[int, ...] = LAGS, outputs: int = 1, model: str = "linear", **options: Any) -> StreamLearner:
    spec = make_spec(model, lags=lags, **options)
    return StreamLearner(StreamSettings(spec, num_inputs=2, num_outputs=outputs, warmup=WARMUP, seed=2))


@cache
def by_hand(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations by a model that knows of no lags.

    It learns widened rows one by one, afresh for each stretch of the warm-up; in each the missing lags are the mean
    target of the rows before it.
    """
    X, y = stream(outputs)
    parts = []
    for start, end in pairwise(BOUNDARIES):
        fill = y[:start].mean(0) if start else np.zeros(outputs)
        wide = widened_by_hand(X, y, LAGS, fill)
        spec = make_spec("e-doebe", **SMALL)
        plain = StreamLearner(
            StreamSettings(spec, num_inputs=wide.shape[1], num_outputs=outputs, warmup=WARMUP, seed=2)
        )
        list(plain.learn(wide[:start], y[:start]))
        parts.append(run(plain, 1, wide[start:end], y[start:end]))
    means, stds = zip(*parts, strict=True)
    return np.concatenate(means), np.concatenate(stds)


@pytest.mark.parametrize(("outputs", "chunk"), [(1, ROWS), (1, 1), (2, 64)])
def test_lags_are_columns_made_by_hand(outputs: int, chunk: int):
    found = run(new(outputs=outputs, model="e-doebe", **SMALL), chunk, *stream(outputs))
    for ours, theirs in zip(found, by_hand(outputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


SEASONAL_ROWS, SEASONAL_WARMUP = 260, 160


@cache
def seasonal() -> tuple[np.ndarray, np.ndarray]:
    """Targets that repeat what was 24 rows ago, but for an outlier in the warm-up."""
    rng = np.random.default_rng(6)
    y = np.tile(rng.normal(size=24), SEASONAL_ROWS // 24 + 1)[:SEASONAL_ROWS, None] + 0.05 * rng.normal(
        size=(SEASONAL_ROWS, 1)
    )
    y[100] += 30.0
    return rng.normal(size=(SEASONAL_ROWS, 2)), 10.0 + 3.0 * y


def choosing() -> StreamLearner:
    spec = make_spec("e-doebe", lags="auto", robust=True, **SMALL)
    return StreamLearner(StreamSettings(spec, num_inputs=2, num_outputs=1, warmup=SEASONAL_WARMUP, seed=2))


def test_chosen_lags_do_not_depend_on_chunks_or_breaks(tmp_path: Path):
    X, y = seasonal()
    whole = choosing()
    expected = run(whole, SEASONAL_ROWS, X, y)
    assert whole.spec.lags == (24,)
    np.testing.assert_allclose(expected[0][-50:], y[-50:], atol=2.0)
    stopped: StreamLearner = choosing()
    parts = []
    for rows in (slice(150), slice(150, 200), slice(200, None)):  # the first break is in the warm-up
        parts.append(run(stopped, 7, X[rows], y[rows]))
        checkpoint.save(tmp_path, stopped.to_tree(), {})
        stopped = StreamLearner.from_tree(checkpoint.load(tmp_path)[0])
    assert stopped.spec.lags == (24,)
    for ours, theirs in zip(map(np.concatenate, zip(*parts, strict=True)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_glitches_in_the_warm_up_do_not_repeat_its_fit(monkeypatch: pytest.MonkeyPatch):
    """A batch with lags is learnt anew for each glitch in it, but not what follows from its rows."""
    fits = []
    real = family.fit_ensemble
    monkeypatch.setattr(family, "fit_ensemble", lambda *args, **more: fits.append(1) or real(*args, **more))
    X, y = seasonal()
    y = y.copy()
    y[[120, 135, 150]] += 100.0
    spec = make_spec("linear", lags=(1, 24), robust=True)
    learner = StreamLearner(StreamSettings(spec, num_inputs=2, num_outputs=1, warmup=SEASONAL_WARMUP, seed=2))
    flagged = np.concatenate([info.flagged for info in learner.learn(X, y)])
    assert flagged[[120, 135, 150]].all()
    assert len(fits) == 1


def test_until_lags_are_chosen_there_is_lag_one():
    X, y = seasonal()
    learner = choosing()
    list(learner.learn(X[:100], y[:100]))
    assert learner.spec.lags == (1,)


def test_later_rows_choose_no_lags():
    X, y = seasonal()
    shuffled = y.copy()
    shuffled[SEASONAL_WARMUP:] = np.random.default_rng(0).permutation(y[SEASONAL_WARMUP:])
    learner = choosing()
    list(learner.learn(X, shuffled))
    assert learner.spec.lags == (24,)


def test_lags_chosen_as_none_leave_the_inputs():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(SEASONAL_ROWS, 2))
    model = StreamingGPRegressor("linear", lags="auto", warmup=SEASONAL_WARMUP)
    result = evaluate(model, X, X @ [1.0, -1.0] + 0.1 * rng.normal(size=SEASONAL_ROWS), progress=False)
    assert model._learner.spec.lags == ()
    assert result.metrics["nmse"] < 0.02
    model.predict(X)  # without lags no warning of several rows


@pytest.mark.parametrize("task", ["classification", "ordinal"])
def test_labels_and_grades_take_auto_for_none(task: str):
    assert make_spec("default", task=task, lags="auto").lags == ()


def test_other_words_than_auto_and_none_are_refused():
    with pytest.raises(ValueError, match="lags: expected whole numbers, or auto or none, got 'autos'"):
        make_spec("default", lags="autos")


def test_predict_takes_each_row_as_the_next_one():
    X, y = stream()
    model = new()
    for row in (0, 2, 20, 40, 41, 100):
        at = model.rows
        list(model.learn(X[at:row], y[at:row]))
        before = model.state.inputs.lags
        ahead = mean_and_std(model.predict(np.concatenate([X[:3], X[row : row + 1]])))
        assert model.state.inputs.lags is before
        (passed,) = model.learn(X[row : row + 1], y[row : row + 1])
        np.testing.assert_allclose(mean_and_std(passed.predictive), np.asarray(ahead)[:, 3:], rtol=1e-9)


# Through the estimator


def regressor(**options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor(**{"model": "linear", "warmup": WARMUP, "lags": LAGS, "random_state": 2} | options)


def test_a_stream_may_have_nothing_but_its_past(tmp_path: Path):
    _, y = stream()
    none = np.zeros((ROWS, 0))
    expected = StreamLearner(StreamSettings(make_spec("linear", lags=LAGS), num_inputs=0, warmup=WARMUP, seed=2))
    means = run(expected, ROWS, none, y)[0][:, 0]
    model = regressor().partial_fit(none[:30], y[:30, 0])
    model.save(tmp_path / "kept")
    model = StreamingGPRegressor.load(tmp_path / "kept")
    np.testing.assert_allclose(evaluate(model, none[30:], y[30:, 0], progress=False).mean, means[30:], rtol=1e-9)
    np.testing.assert_allclose(model.predict_one([])[0], model.predict(none[:1])[0], rtol=1e-9)
    with pytest.raises(ValueError, match="0 feature"):
        regressor(lags=None).partial_fit(none, y[:, 0])
    with pytest.raises(ValueError, match="X: expected at least one column, or lags of the target"):
        regressor(lags=()).partial_fit(none, y[:, 0])


def test_lags_count_the_rows_that_were_learnt():
    X, y = stream()
    bad = [0, 7, 55, 56, 90]
    holes = y[:, 0].copy()
    holes[bad] = np.nan
    skipping = evaluate(regressor(missing="skip"), X, holes, progress=False)
    without = evaluate(regressor(), np.delete(X, bad, axis=0), np.delete(y[:, 0], bad), progress=False)
    np.testing.assert_array_equal(np.delete(skipping.mean, bad), without.mean)
    assert np.isnan(skipping.mean[bad]).all()


def test_saved_and_cloned(tmp_path: Path):
    X, y = stream()
    model = regressor(lags=range(1, 4)).partial_fit(X[:70], y[:70, 0])
    model.save(tmp_path / "kept")
    again = StreamingGPRegressor.load(tmp_path / "kept")
    assert again.get_params()["lags"] == tuple(clone(model).get_params()["lags"]) == (1, 2, 3)
    expected = evaluate(model, X[70:], y[70:, 0], progress=False)
    np.testing.assert_array_equal(evaluate(again, X[70:], y[70:, 0], progress=False).mean, expected.mean)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [(None, ()), (3, (3,)), ([24, 1, 1], (1, 24)), (range(1, 4), (1, 2, 3)), (np.arange(2) + 1, (1, 2))],
)
def test_ways_to_name_lags(lags: Any, expected: tuple[int, ...]):
    assert make_spec("linear", lags=lags) == Spec("linear", bases=("linear",), lags=expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": 0}, r"lags: expected a whole number >= 1, got 0"),
        ({"lags": (1, 2.5)}, r"lags: expected a whole number >= 1, got 2.5"),
        ({"lags": "12"}, r"lags: expected whole numbers, or auto or none, got '12'"),
        ({"lags": 10**15}, r"lags: expected lags shorter than the warm-up of 40 rows"),
        ({"lags": (1, WARMUP)}, r"lags: expected lags shorter than the warm-up of 40 rows, got 40; choose a longer"),
        (
            {"bases": "hilbert-product"},
            r"at most 3 inputs for 'hilbert-product', got 5 \(one-hot columns and lags inc",
        ),
    ],
)
def test_lags_that_cannot_be(options: dict[str, Any], message: str):
    X, y = stream()
    model = regressor(**options)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y[:, 0])
    assert not hasattr(model, "rows_")


# What lags are for


def test_an_autoregression_is_found():
    """Against the process that made the data: y_t = 1.2 y_(t-1) - 0.5 y_(t-2) + e_t."""
    rng = np.random.default_rng(11)
    n, warmup, sigma = 3000, 500, 0.3
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + sigma * rng.normal()
    X = rng.normal(size=(n, 1))  # tells nothing

    def scores(lags: tuple[int, ...]) -> np.ndarray:
        model = StreamingGPRegressor("linear", warmup=warmup, lags=lags)
        return evaluate(model, X, y, progress=False).log_density[warmup:]

    def mean_and_error(difference: np.ndarray) -> tuple[float, float]:
        return float(difference.mean()), float(difference.std() / np.sqrt(len(difference)))

    truth = norm.logpdf(y[2:], 1.2 * y[1:-1] - 0.5 * y[:-2], sigma)[warmup - 2 :]
    both = scores((1, 2))
    # Four weights and a variance learnt from 500 rows and more cost about half a nat each for e-fold the rows.
    gap, error = mean_and_error(truth - both)
    assert -4 * error < gap < 0.003 + 4 * error
    # The second lag explains 0.5^2 of what the first leaves (its partial autocorrelation): -log(1 - 0.25) / 2.
    gain, error = mean_and_error(both - scores((1,)))
    assert abs(gain + 0.5 * np.log(1 - 0.25)) < 4 * error
    # The first explains (1.2 / 1.5)^2 of the variance (its autocorrelation).
    gain, error = mean_and_error(scores((1,)) - scores(()))
    assert abs(gain + 0.5 * np.log(1 - 0.64)) < 4 * error
