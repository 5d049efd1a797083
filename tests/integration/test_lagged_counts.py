"""Counts that depend on their own past: lags equal columns made by hand, in any pieces, and never look ahead."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles.lagged_rows import widened_by_hand
from streamgp import StreamingGPCountRegressor, evaluate
from streamgp.models.registry import make_spec
from streamgp.numerics import checkpoint
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

ROWS, WARMUP, LAGS = 120, 40, (1, 3, 20)
# Where the model is made anew; the last stretch ends with the stream.
BOUNDARIES = (0, 1, 2, 4, 8, 16, 32, WARMUP, ROWS)


@cache
def stream(rows: int = ROWS, exposed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A log rate that goes on from row to row and repeats itself after 24; the last column is the log exposure."""
    rng = np.random.default_rng(4)
    z = np.zeros(rows)
    for i in range(1, rows):
        z[i] = 0.8 * z[i - 1] + 0.3 * rng.normal()
    log_exposure = rng.uniform(-1.0, 1.0, size=rows)
    X = np.column_stack([rng.normal(size=rows), *([log_exposure] if exposed else [])])
    rate = np.exp(1.5 + np.sin(2.0 * np.pi * np.arange(rows) / 24.0) + z + exposed * log_exposure)
    return X, rng.poisson(rate).astype(float)[:, None]


def learner(
    lags: Any, exposed: bool = False, columns: int = 1, warmup: int = WARMUP, **options: Any
) -> StreamLearner:
    spec = make_spec("linear", task="count", exposure=exposed, lags=lags, **options)
    return StreamLearner(StreamSettings(spec, num_inputs=columns + exposed, warmup=warmup, seed=2))


def run(model: StreamLearner, chunk: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Learn rows in chunks; return the log rate of each, and its log probability, as they were predicted."""
    parts = []
    for at in range(0, len(X), chunk):
        rows, done = slice(at, at + chunk), 0
        for info in model.learn(X[rows], y[rows]):
            n = len(info.outside)
            target = np.nan_to_num(y[rows][done : done + n])
            parts.append(np.column_stack([info.predictive.mean, info.predictive.log_density(target)]))
            done += n
    return np.concatenate(parts)


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("chunk", [1, 64, ROWS])
def test_lags_are_logs_of_counts_in_columns_made_by_hand(exposed: bool, chunk: int):
    X, y = stream(exposed=exposed)
    past = np.log1p(y / np.exp(X[:, 1:])) if exposed else np.log1p(y)
    expected = []
    for start, end in pairwise(BOUNDARIES):
        fill = past[:start].mean(0) if start else np.zeros(1)
        wide = widened_by_hand(X[:, :1], past, LAGS, fill)
        wide = np.column_stack([wide.reshape(ROWS, -1), X[:, 1:]])
        plain = learner("none", exposed, columns=1 + len(LAGS))
        list(plain.learn(wide[:start], y[:start]))
        expected.append(run(plain, 1, wide[start:end], y[start:end]))
    assert_allclose(run(learner(LAGS, exposed), chunk, X, y), np.concatenate(expected), rtol=1e-9)


@pytest.mark.parametrize("exposed", [False, True])
def test_chosen_lags_do_not_depend_on_chunks_or_breaks(exposed: bool, tmp_path: Path):
    X, y = stream(420, exposed)
    y = y.copy()
    y[[90, 200, 201, 330]] = np.nan  # they keep their place
    whole = learner("auto", exposed, warmup=250, robust=True)
    expected = run(whole, len(X), X, y)
    assert whole.spec.lags[0] == 1
    assert_allclose(run(learner("auto", exposed, warmup=250, robust=True), 1, X, y), expected, rtol=1e-9)
    stopped, parts = learner("auto", exposed, warmup=250, robust=True), []
    for rows in (slice(150), slice(150, 300), slice(300, None)):  # the first break is in the warm-up
        parts.append(run(stopped, 7, X[rows], y[rows]))
        checkpoint.save(tmp_path, stopped.to_tree(), {})
        stopped = StreamLearner.from_tree(checkpoint.load(tmp_path)[0])
    assert stopped.spec.lags == whole.spec.lags
    assert_allclose(np.concatenate(parts), expected, rtol=1e-9)


def test_a_prediction_knows_nothing_of_its_count_or_of_later_ones():
    X, y = stream(exposed=True)
    expected = run(learner(LAGS, True), ROWS, X, y)[:, 0]
    for row in (5, WARMUP - 1, WARMUP, 77):
        other = y.copy()
        other[row:] = 3.0 * other[row:] + 5.0
        found = run(learner(LAGS, True), ROWS, X, other)[:, 0]
        assert_array_equal(found[: row + 1], expected[: row + 1])
        assert found[row + 1] != expected[row + 1]


def test_where_a_count_is_missing_its_prediction_is_a_lag():
    X, y = stream(exposed=True)
    model = learner((1,), True)
    list(model.learn(X[:60], y[:60]))
    list(model.learn(X[60:61], np.full((1, 1), np.nan)))
    again = learner((1,), True)
    list(again.learn(X[:60], y[:60]))
    told = again.predict(X[60:61])
    log_rate = float((told.weights * (told.loc[..., 0] + told.likelihood.intercept)).sum())  # type: ignore[union-attr]
    assert_allclose(model.state.inputs.lags.last[-1], np.log1p(np.exp(log_rate - X[60, 1])), rtol=1e-9)


def test_late_counts_of_a_model_without_a_guard_stay_finite():
    """What stands for counts that wait are lags of predictions that stand for others."""
    X, y = stream(300, True)
    model = StreamingGPCountRegressor("linear", lags="auto", warmup=100)
    found = evaluate(model, X[:, :1], y[:, 0], exposure=np.exp(X[:, 1]), delay=3)
    assert found.mean[100:].max() < 10.0 * y.max()


def test_counts_without_a_past_that_tells_anything_have_no_lags():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 1))
    y = rng.poisson(np.exp(1.0 + 0.5 * X[:, 0])).astype(float)
    model = StreamingGPCountRegressor("linear", lags="auto", warmup=250).partial_fit(X, y)
    assert model._learner.spec.lags == ()


def test_a_stream_may_have_nothing_but_its_past_and_its_exposure(tmp_path: Path):
    X, y = stream(300, True)
    hours, nothing = np.exp(X[:, 1]), np.empty((300, 0))
    model = StreamingGPCountRegressor("linear", lags="auto", warmup=200)
    found = evaluate(model, nothing, y[:, 0], exposure=hours)
    assert found.metrics["deviance"] < 0.7 * found.metrics["naive"]["running_mean"]["deviance"]
    model.save(tmp_path / "m")
    loaded = StreamingGPCountRegressor.load(tmp_path / "m")
    one = {"exposure": [2.0]}
    assert_array_equal(loaded.predict(nothing[:1], **one), model.predict(nothing[:1], **one))
    assert loaded.feature_importance(2.0)["past targets"] > 0.1


def test_counts_that_come_late_are_learnt_as_if_they_had_come_in_time():
    X, y = stream(300, True)
    hours = np.exp(X[:, 1])
    late, in_time = (StreamingGPCountRegressor("linear", lags=[1, 2], warmup=100) for _ in range(2))
    in_time.partial_fit(X[:200, :1], y[:200, 0], hours[:200])
    late.partial_fit(X[:150, :1], y[:150, 0], hours[:150])
    tokens = [late.predict_later(X[i, :1], exposure=hours[i]) for i in range(150, 200)]
    waiting = float(tokens[1].mean)
    again = StreamingGPCountRegressor("linear", lags=[1, 2], warmup=100)
    again.partial_fit(X[:150, :1], y[:150, 0], hours[:150])
    again.partial_fit(X[150:151, :1], [np.nan], hours[150:151])  # what was predicted of it is the next row's lag
    assert_allclose(waiting, again.predict(X[151:152, :1], exposure=hours[151:152])[0], rtol=1e-6)
    for token, count in zip(tokens[::-1], y[150:200][::-1, 0], strict=True):
        late.learn_later(token, count)
    rows = {"X": X[200:201, :1], "exposure": hours[200:201]}
    assert_allclose(late.predict(**rows), in_time.predict(**rows), rtol=1e-9)
