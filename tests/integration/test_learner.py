"""The life of one stream: any chunks, any interruption, and never a look ahead."""

import copy
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import norm

from streamgp.likelihoods import Predictive
from streamgp.models.gaussian import family
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.numerics.checkpoint.encoding import encode
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

ROWS, WARMUP = 150, 40
SPEC = make_spec("e-doebe", bases=["linear", "rbf"], features_per_basis=6)
LINEAR = make_spec("e-doebe", bases=["linear"])
TIMED = make_spec("doebe", bases=["linear"], warmup_posterior="prior")

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def stream(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 2)) * 3.0 + 10.0
    y = np.sin(X[:, :1]) + 0.3 * X[:, -1:] + 0.1 * rng.normal(size=(rows, 1))
    return X, y, np.cumsum(rng.exponential(size=rows)) + 1e6


def new(spec: Spec = LINEAR, timed: bool = False) -> StreamLearner:
    return StreamLearner(StreamSettings(spec, num_inputs=2, warmup=WARMUP, seed=3, timed=timed))


def learn(model: StreamLearner, X: np.ndarray, y: np.ndarray, times: np.ndarray | None = None) -> list[Predictive]:
    return [info.predictive for info in model.learn(X, y, times)]


def run(model: StreamLearner, chunk: int, *data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every row, learnt `chunk` rows at a time."""
    parts: list[Predictive] = []
    for at in range(0, len(data[0]), chunk):
        parts += learn(model, *(a[at : at + chunk] for a in data))
    moments = [mean_and_std(part) for part in parts]
    return np.concatenate([m for m, _ in moments]), np.concatenate([s for _, s in moments])


def mean_and_std(predictive: Predictive) -> tuple[np.ndarray, np.ndarray]:
    """Moments of the mixture in NumPy, which compiles nothing."""
    weights = np.exp(np.asarray(predictive.log_weights))[:, :, None]
    mean = np.sum(weights * predictive.loc, axis=1)
    spread = np.square(predictive.loc - mean[:, None])
    return mean, np.sqrt(np.sum(weights * (predictive.var + spread), axis=1))


def same(one: StreamLearner, other: StreamLearner) -> bool:
    """Whether all that two learners remember is equal bit for bit."""
    (structure, arrays), (others, other_arrays) = encode(one.to_tree()), encode(other.to_tree())
    return structure == others and all(np.array_equal(a, other_arrays[k], equal_nan=True) for k, a in arrays.items())


def test_copies_live_their_own_lives():
    X, y, _ = stream()
    model = new()
    learn(model, X[:20], y[:20])
    with jax.enable_x64(False):  # where JAX's own arrays would be unpickled in float32
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), StreamLearner.from_tree(model.to_tree())]
    tree = model.to_tree()
    frozen = {name: array.copy() for name, array in encode(tree)[1].items()}
    learn(model, X[20:30], -y[20:30])
    for twin in copies:
        assert not same(twin, model)
        learn(twin, X[20:], y[20:])
    expected = new()
    learn(expected, X[:20], y[:20])
    learn(expected, X[20:], y[20:])
    assert all(same(twin, expected) for twin in copies)
    now = encode(tree)[1]
    assert all(np.array_equal(now[name], frozen[name], equal_nan=True) for name in frozen)


def test_the_callers_arrays_may_be_used_again():
    X, y, times = stream()
    model, expected = new(TIMED, timed=True), new(TIMED, timed=True)
    buffers = [np.empty_like(a[:10]) for a in (X, y, times)]
    for at in range(0, 60, 10):
        for buffer, a in zip(buffers, (X, y, times), strict=True):
            buffer[:] = a[at : at + 10]
        learn(model, *buffers)
        learn(expected, X[at : at + 10], y[at : at + 10], times[at : at + 10])
    assert same(model, expected)


@cache
def undisturbed() -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of every row of the stream as it is."""
    X, y, _ = stream()
    return run(new(), ROWS, X, y)


# On both sides of row counts at which the warm-up's model is rebuilt, of its end, and of the filter's blocks.
@pytest.mark.parametrize("row", [0, 3, 16, 39, 103])
def test_no_prediction_has_seen_its_target_or_anything_later(row: int):
    X, y, _ = stream()
    mean, std = undisturbed()
    y[row:] = 50.0 - 7.0 * y[row:]
    X[row + 1 :] = 100.0 * X[row + 1 :, ::-1]
    changed_mean, changed_std = run(new(), ROWS, X, y)
    seen = slice(row + 1)
    np.testing.assert_array_equal(changed_mean[seen], mean[seen])
    np.testing.assert_array_equal(changed_std[seen], std[seen])
    if row + 1 < ROWS:
        assert not np.allclose(changed_mean[row + 1 :], mean[row + 1 :])


def test_prediction_of_the_next_row_is_what_learning_passes_through():
    X, y, times = stream()
    model = new(TIMED, timed=True)
    for row in (0, 1, 20, 39, 40, 41, 100):
        at = model.rows
        learn(model, X[at:row], y[at:row], times[at:row])
        ahead = model.predict(X[row : row + 1], times[row : row + 1])
        (passed,) = learn(model, *(a[row : row + 1] for a in (X, y, times)))
        np.testing.assert_allclose(passed.mean, ahead.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(passed.std, ahead.std, rtol=1e-9)
        np.testing.assert_allclose(passed.weights, ahead.weights, rtol=1e-9)


def test_weights_follow_bayes_rule_and_e_doebes_q():
    X, y, _ = stream()
    model = new(SPEC)
    parts = learn(model, X, y)
    late = [p for p in parts if p.loc.shape[1] == len(model.experts)][-1]
    dynamics = len(SPEC.dynamics)
    bases = len(model.experts) // dynamics
    one_basis = np.full((dynamics, dynamics), SPEC.delta) + np.eye(dynamics) * (1.0 - dynamics * SPEC.delta)
    Q = (1.0 - SPEC.share) * np.kron(np.eye(bases), one_basis) + SPEC.share / (bases * dynamics)
    np.testing.assert_allclose(Q.sum(0), 1.0)
    w = np.full(len(Q), 1.0 / len(Q))
    for row, target in enumerate(y[-len(late.loc) :, 0]):
        np.testing.assert_allclose(np.exp(late.log_weights[row]), w, rtol=1e-8, atol=1e-300)
        w = w * norm.pdf(target, late.loc[row, :, 0], np.sqrt(late.var[row, :, 0]))
        w = Q @ (w / w.sum())
    np.testing.assert_allclose(model.weights, w, rtol=1e-8)
    for part in parts:
        np.testing.assert_allclose(np.exp(part.log_weights).sum(1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("problem", "options"),
    [(KeyboardInterrupt, {}), (ValueError, {"lags": (1, 5)}), (KeyboardInterrupt, {"horizon": 3})],
)
def test_a_fit_that_fails_leaves_the_stretch_unlearnt(
    problem: type[BaseException], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """And the lags and the forecasts that wait as they were."""
    X, y, _ = stream()
    model, expected = (new(make_spec("linear", **options)) for _ in range(2))
    learn(model, X[:36], y[:36])
    learn(expected, X[:36], y[:36])

    def fail(*_: object, **__: object) -> None:
        raise problem

    with monkeypatch.context() as patched:
        patched.setattr(family, "fit_ensemble", fail)
        for _ in range(2):
            with pytest.raises(problem):
                learn(model, X[36:], y[36:])
            assert same(model, expected)
    learn(model, X[36:], y[36:])
    learn(expected, X[36:], y[36:])
    assert same(model, expected)


def test_first_predictions_are_useful():
    X, _, _ = stream()
    y = 5.0 * X[:, :1] - 2.0 * X[:, 1:] + 1e4
    mean, std = run(StreamLearner(StreamSettings(SPEC, num_inputs=2, warmup=1000)), 1, X[:60], y[:60])
    running = np.cumsum(y[:-1]) / np.arange(1, len(y))
    late = slice(40, 60)
    rmse = np.sqrt(np.mean((mean - y[:60])[late] ** 2))
    naive = np.sqrt(np.mean((running[39:59] - y[40:60, 0]) ** 2))
    assert rmse < 0.05 * naive
    assert (std[late] < 0.3 * naive).all()


def test_units_do_not_matter():
    X, y, times = stream()
    mean, std = run(new(TIMED, timed=True), ROWS, X, y, times)
    other = run(new(TIMED, timed=True), ROWS, X * 1e3 + 7.0, y * 1e-4 + 2.0, times * 60.0)
    # The first two rows come before there is a scale to go by.
    np.testing.assert_allclose(other[0][2:], (mean * 1e-4 + 2.0)[2:], rtol=1e-6)
    np.testing.assert_allclose(other[1][2:], (std * 1e-4)[2:], rtol=1e-4)


def test_doubt_grows_with_the_time_since_the_last_row():
    X, y, times = stream()
    model = new(TIMED, timed=True)
    learn(model, X, y, times)
    assert model.last_time == times[-1]
    std = np.asarray(model.predict(np.repeat(X[:1], 3, 0), times[-1] + np.array([1.0, 100.0, 10_000.0])).std)[:, 0]
    assert (np.diff(std) > 0.0).all()


@pytest.mark.parametrize("posterior", ["condition", "prior"])
def test_the_clock_runs_on_through_the_end_of_the_warm_up(posterior: str):
    X, y, times = stream()
    model = new(replace(TIMED, warmup_posterior=posterior), timed=True)
    learn(model, X[:WARMUP], y[:WARMUP], times[:WARMUP])
    assert model.is_warmed_up
    assert model.last_time == times[WARMUP - 1]


def test_rows_outside_are_counted_after_the_warm_up_only():
    X, y, _ = stream()
    model = new(make_spec("oebe", bases=["hilbert"], features_per_basis=6))
    X[10] += 500.0
    learn(model, X[:WARMUP], y[:WARMUP])
    assert model.state.outside_rows == 0
    far = X[WARMUP:].copy()
    far[[3, 50, 70]] += 1e6
    learn(model, far, y[WARMUP:])
    assert model.state.outside_rows == 3


def test_a_chunk_of_a_known_shape_compiles_nothing():
    X, y, _ = stream(rows=700)
    model = new()
    learn(model, X[:300], y[:300])
    learn(model, X[300:400], y[300:400])
    model.predict(X[:100])
    COMPILED.clear()
    learn(model, X[400:500], y[400:500])
    model.predict(X[100:200])
    assert COMPILED == []
    at = 500
    for size in (3, 1, 17, 5, 64, 33, 2, 40):  # of sizes not seen before: one row, and a piece that is filled up
        learn(model, X[at : at + size], y[at : at + size])
        model.predict(X[:size])
        at += size
    assert len(COMPILED) <= 4


@pytest.fixture
def float32_process() -> Iterator[None]:
    with jax.enable_x64(False):
        yield


@pytest.mark.usefixtures("float32_process")
@pytest.mark.parametrize("in_thread", [False, True])
def test_float64_inside_and_nothing_changed_outside(in_thread: bool):
    X, y, _ = stream()
    found: list[np.ndarray] = []
    settings: list[bool] = []

    def work() -> None:
        model = new()
        learn(model, X, y)
        predictive = model.predict(X[:3])
        found.extend([predictive.loc, predictive.var, predictive.log_weights, model.weights])
        settings.append(jax.config.read("jax_enable_x64"))

    if in_thread:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    assert {np.asarray(a).dtype for a in found} == {np.dtype(np.float64)}
    assert settings == [False]
    assert jax.config.read("jax_enable_x64") is False
    with jax.enable_x64(True):
        model = new()
        learn(model, X, y)
        np.testing.assert_allclose(found[0], model.predict(X[:3]).loc, rtol=1e-12)
