"""What every stream of a learner must keep, whatever the model and the task, and the streams that show it."""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream.apart import learner_from_tree
from streamgp.stream.learner import StreamLearner

ROWS, WARMUP, INPUTS = 150, 40, 2
SINGLE = range(103, 109)  # rows that are learnt one by one after the warm-up
# Chunks: in the warm-up, on both sides of its end, of the filter's blocks, and two of equal length at the end.
CUTS = [0, 1, 2, 7, 23, 39, 40, 41, 101, *SINGLE, 109, 129, 149, ROWS]
STOPS = (23, 101)  # where a run is stopped and taken up again

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def make_stream(task: str = "regression", outputs: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs (n, 2), targets (n, outputs) with a jump and two glitches if they are numbers, and times (n,)."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, INPUTS)) * 3.0 + 10.0
    signal = np.sin(X[:, :1]) + 0.3 * (X[:, 1:] - 10.0)
    noise = 0.1 * rng.normal(size=(ROWS, outputs))
    times = np.cumsum(rng.exponential(size=ROWS)) + 1e6
    if task == "count":
        return X, rng.poisson(np.exp(0.5 * signal + 1.0)).astype(float), times
    if task in ("classification", "ordinal"):
        return X, np.digitize(signal + noise, [-0.4, 0.6]).astype(float), times
    y = 40.0 + (signal + noise) * np.arange(1, outputs + 1)
    y[85:] += 2.0
    y[[60, 110], 0] += [50.0, -9.0]
    return X, y, times


def mixture(predictive: Any) -> list[np.ndarray]:
    """Return of every row the numbers that make its distribution, in NumPy, which compiles nothing."""
    weights = np.exp(np.asarray(predictive.log_weights))[:, :, None]
    loc = np.asarray(predictive.loc)
    var = (
        np.asarray(predictive.var) if hasattr(predictive, "var") else np.diagonal(predictive.cov, axis1=-2, axis2=-1)
    )
    mean = np.sum(weights * loc, axis=1)
    std = np.sqrt(np.sum(weights * (var + np.square(loc - mean[:, None])), axis=1))
    more = [getattr(predictive, name, None) for name in ("recalibration", "correlation")]
    return [mean, std, *(np.asarray(part).reshape(len(mean), -1) for part in more if part is not None)]


def learn(model: StreamLearner, *data: np.ndarray) -> list[np.ndarray]:
    """Learn rows in one call; return of each what was predicted before its target was seen."""
    return [row for info in model.learn(*data) for row in np.concatenate(mixture(info.predictive), axis=1)]


def same(one: StreamLearner, other: StreamLearner) -> bool:
    """Return whether all that two learners remember is equal bit for bit."""
    (structure, arrays), (others, other_arrays) = encode(one.to_tree()), encode(other.to_tree())
    return structure == others and all(np.array_equal(a, other_arrays[k], equal_nan=True) for k, a in arrays.items())


def restored(model: StreamLearner) -> StreamLearner:
    """Return the learner that a checkpoint of this one gives."""
    return learner_from_tree(decode(*encode(model.to_tree()), {}))


def close(found: list[np.ndarray], expected: list[np.ndarray], rtol: float = 1e-9) -> None:
    """Compare row by row: what is said of a row may have another length in the warm-up."""
    for row, (a, b) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=f"row {row}")


def check_stream(
    make_learner: Callable[[], StreamLearner], X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None
) -> None:
    """Check what a stream must keep.

    Chunks do not matter; a resumed run is the unbroken one; predicting changes nothing; copies are independent; a bad
    row leaves the state untouched; the second of two equal chunks compiles nothing; no prediction has seen its target
    or anything later.
    """
    data = (X, y) if times is None else (X, y, times)
    following = (X[:5],) if times is None else (X[:5], times[-1] + np.arange(5.0))
    model = make_learner()
    found, stopped = [], {}
    for start, stop in pairwise(CUTS):
        if start in STOPS:
            stopped[start] = model
            model = check_stop(model, start, data, following)
        chunk = [a[start:stop] for a in data]
        if start == CUTS[-3]:
            model.predict(*following)
            COMPILED.clear()
        if start in SINGLE:
            single = [a[0] for a in chunk]
            assert np.isfinite(model.predict_one(single[0], *single[2:])[0]).all() if is_numeric(model) else True
            model.learn_one(*single)
            found.append(None)
        else:
            found += learn(model, *chunk)
        if start == CUTS[-3]:
            model.predict(*following)
            assert COMPILED == [], "the second of two equal chunks compiled programs"

    whole = make_learner()
    expected = learn(whole, *data)
    assert whole.is_warmed_up
    assert whole.state.flagged_rows > 0 or not whole.spec.robust, "the stream's glitches were not noticed"
    passed = [row for row, numbers in enumerate(found) if numbers is not None]
    close([found[row] for row in passed], [expected[row] for row in passed])
    np.testing.assert_allclose(model.weights, whole.weights, rtol=1e-7, atol=1e-12)
    close(mixture(model.predict(*following)), mixture(whole.predict(*following)))
    for name in ("rows", "outside_rows", "flagged_rows", "num_classes"):
        assert getattr(model.state, name) == getattr(whole.state, name)

    horizon = max(make_learner().spec.horizon, 1)
    for start, row in zip(STOPS, (WARMUP, 104), strict=True):
        check_no_look_ahead(stopped[start], start, row, horizon, data, expected)


def is_numeric(model: StreamLearner) -> bool:
    """Return whether targets are numbers, which have a mean."""
    return model.spec.task in ("regression", "count")


def check_stop(
    model: StreamLearner, row: int, data: tuple[np.ndarray, ...], following: tuple[np.ndarray, ...]
) -> StreamLearner:
    """Stop before `row`; return the learner that takes the run up. The one that was stopped is as it was."""
    resumed, twin = restored(model), copy.deepcopy(model)
    assert same(resumed, model)
    assert same(twin, model)
    ahead = [a[row : row + 3] for a in data]
    learn(twin, *ahead)
    model.predict(*following)
    with pytest.raises(Exception, match=r"."):
        learn(model, np.ones((1, INPUTS + 1)), *(a[:1] for a in ahead[1:]))
    assert not same(twin, model)
    assert same(resumed, model)
    other = restored(model)
    assert np.array_equal(learn(other, *ahead), learn(restored(model), *ahead), equal_nan=True)
    assert same(other, twin), "a resumed run differs from the unbroken one"
    return resumed


def check_no_look_ahead(
    model: StreamLearner, start: int, row: int, horizon: int, data: tuple[np.ndarray, ...], expected: list[np.ndarray]
) -> None:
    """Change the targets from `row` on, and the inputs after it: predictions up to that row stand."""
    X, y, *times = (a[start : row + 30].copy() for a in data)
    y[row - start :] = y[::-1][: len(y) - row + start] if len(np.unique(y)) < 20 else 90.0 - y[row - start :]
    X[row - start + 1 :] = X[row - start + 1 :, ::-1]
    changed = learn(model, X, y, *times)
    seen = row - start + (horizon if horizon > 1 else 1)
    close(changed[:seen], expected[start : start + seen])
    later = expected[start + seen : start + len(changed)]
    assert any(not np.allclose(a, b) for a, b in zip(changed[seen:], later, strict=True))
