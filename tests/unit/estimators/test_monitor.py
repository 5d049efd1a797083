"""Alarms of estimators: the monitor is `evaluate` row by row, keeps on after loading, and says what it cannot do."""

from pathlib import Path

import numpy as np
import pytest

from streamgp import (
    Monitor,
    StreamingGPClassifier,
    StreamingGPCountRegressor,
    StreamingGPFleet,
    StreamingGPLVM,
    StreamingGPRegressor,
    evaluate,
)

pytestmark = pytest.mark.slow


def stream(rows: int = 420, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A line whose noise grows five times at row 250, and which is missing from row 380 on."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 1))
    y = X[:, 0] + np.where(np.arange(rows) < 250, 0.1, 0.5) * rng.normal(size=rows)
    y[380:] = np.nan
    return X, y


def linear(**more) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", warmup=60, noise="constant", **more)


def told(alarms) -> list:
    return [(alarm.kind, alarm.row, alarm.since, alarm.sentence, alarm.time) for alarm in alarms]


def test_evaluate_finds_what_changed_and_the_model_remembers():
    X, y = stream()
    model = linear()
    result = evaluate(model, X, y, alarms=True, progress=False)
    assert [alarm.kind for alarm in result.alarms] == ["scale", "silence"]
    noise, silence = result.alarms
    assert 250 <= noise.row < 300
    assert abs(noise.since - 250) < 15
    assert (silence.since, silence.target) == (380, "y0")
    assert model.alarms_ == result.alarms
    assert evaluate(linear(), X, y, progress=False).alarms is None


def test_predictions_are_those_without_alarms():
    X, y = stream()
    with_alarms, without = (evaluate(linear(), X, y, alarms=on, progress=False) for on in (True, False))
    np.testing.assert_array_equal(with_alarms.mean, without.mean)
    np.testing.assert_array_equal(with_alarms.pit, without.pit)


def test_the_monitor_is_evaluate_row_by_row_and_after_loading(tmp_path: Path):
    X, y = stream()
    times = np.arange(420.0)
    times[350:] += 80.0
    whole = evaluate(linear(), X, y, times, alarms=True, progress=False)
    monitor, found = Monitor(linear()), []
    for i in range(420):
        if i == 270:
            monitor.model.save(tmp_path / "model")
            monitor = Monitor(StreamingGPRegressor.load(tmp_path / "model"))
        found.append(monitor.update(X[i], y[i], times[i]))
    assert told(filter(None, found)) == told(whole.alarms) == told(monitor.alarms)
    assert len(whole.alarms) == 3
    np.testing.assert_allclose(
        [alarm.evidence for alarm in monitor.alarms], [alarm.evidence for alarm in whole.alarms], rtol=1e-6
    )


def test_evaluate_goes_on_where_it_was_and_rows_are_counted_with_those_that_are_skipped():
    X, y = stream()
    X[5], X[400] = np.nan, np.nan
    whole = evaluate(linear(missing="skip"), X, np.where(np.isnan(y), 0.0, y), alarms=True, progress=False)
    model = linear(missing="skip")
    parts = [
        evaluate(model, X[rows], np.where(np.isnan(y), 0.0, y)[rows], alarms=True, progress=False).alarms
        for rows in (slice(0, 260), slice(260, 401), slice(401, None))
    ]
    assert told([alarm for part in parts for alarm in part]) == told(whole.alarms) == told(model.alarms_)
    assert any(alarm.kind == "stuck" and alarm.since == 381 for alarm in whole.alarms)


def test_a_new_fit_forgets_and_another_rate_begins_anew():
    X, y = stream()
    model = linear()
    evaluate(model, X, y, alarms=True, progress=False)
    Monitor(model, rate=1e-4).update(X[0], y[0])
    assert model.alarms_ == []
    model.fit(X, y)
    with pytest.raises(AttributeError, match="Monitor"):
        _ = model.alarms_


def test_every_target_has_its_alarms():
    X, y = stream()
    Y = np.column_stack([np.where(np.isnan(y), 0.0, y), X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=420)])
    Y[300:, 1] += 2.0
    found = evaluate(linear(), X, Y, alarms=True, progress=False).alarms
    assert {"y0", "y1"} <= {alarm.target for alarm in found}
    assert any("of y1" in alarm.sentence and alarm.since >= 295 for alarm in found)


@pytest.mark.parametrize("more", [{"horizon": 3}, {"lags": [1, 2]}, {"recalibrate": True}])
def test_with_horizon_lags_and_recalibration(more):
    X, y = stream()
    assert any(alarm.row >= 250 for alarm in evaluate(linear(**more), X, y, alarms=True, progress=False).alarms)


def test_counts():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 1))
    y = rng.poisson(np.where(np.arange(500) < 300, 2.0, 12.0))
    found = evaluate(StreamingGPCountRegressor("linear", warmup=100), X, y, alarms=True, progress=False).alarms
    assert found
    assert 300 <= found[0].row < 330


def test_the_monitor_begins_a_new_model_of_counts():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 1)), rng.poisson(2.0, 60)
    monitor = Monitor(StreamingGPCountRegressor("linear", warmup=20))
    for x, count in zip(X, y, strict=True):
        monitor.update(x, count)
    assert monitor.model.rows_ == 60
    late = evaluate(StreamingGPCountRegressor("linear", warmup=20), X, y, delay=2, progress=False)
    assert late.metrics["late_labels"]["delay"] == 2


def test_what_has_no_alarms_says_so():
    labels = StreamingGPClassifier("linear", warmup=20)
    with pytest.raises(ValueError, match="alarms: expected numbers or counts"):
        evaluate(labels, np.zeros((40, 1)), np.tile([0, 1], 20), alarms=True, progress=False)
    with pytest.raises(ValueError, match="alarms: expected numbers or counts"):
        Monitor(labels)
    for other in (StreamingGPLVM(), StreamingGPFleet()):
        with pytest.raises(ValueError, match="Monitor: expected an estimator of numbers or counts"):
            Monitor(other)
    with pytest.raises(ValueError, match="expected a fleet and a frame"):
        evaluate(StreamingGPFleet(), [], alarms=True)
    with pytest.raises(ValueError, match="rate: expected"):
        Monitor(linear(), rate=0.0)


def test_bad_rows_change_nothing():
    X, y = stream()
    monitor = Monitor(linear())
    for i in range(100):
        monitor.update(X[i], y[i])
    before = monitor.model._alarms.to_tree()
    for x, target in [([1.0, 2.0], 0.0), ([1.0], [0.0, 1.0])]:
        with pytest.raises(ValueError, match=r"."):
            monitor.update(x, target)
    after = monitor.model._alarms.to_tree()
    assert before["state"] is after["state"]
    assert monitor.model.rows_ == 100


def test_rows_may_be_dictionaries():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0)
    by_name, by_place = (Monitor(StreamingGPRegressor("linear", warmup=20)) for _ in range(2))
    for x, target in zip(X, y, strict=True):
        by_name.update({"a": x[0], "b": x[1]}, target)
        by_place.update(x, target)
    assert by_name.model.predict_one({"b": 1.0, "a": 0.5}) == by_place.model.predict_one([0.5, 1.0])
