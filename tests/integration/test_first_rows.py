"""The rows of the warm-up with the first fits: the same numbers on every path, and no harm by glitches."""

from functools import cache

import numpy as np
import pytest

from streamgp.models.gaussian import provisional
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.slow

N, INPUTS = 300, 8


def stream(glitches: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, INPUTS))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=N)  # which a few of the inputs decide
    if glitches:
        y[rng.integers(5, N, 8)] = 1e12
        y[[11, 70]] = np.nan
        X[rng.integers(5, N, 8), 1] = np.nan
        X[40, 2] = 1e12
    return X, y


def learner() -> StreamLearner:
    return StreamLearner(StreamSettings(make_spec("fast"), num_inputs=INPUTS, warmup=N + 1))


def scored(X: np.ndarray, y: np.ndarray, chunk: int, put_back: int = 0) -> np.ndarray:
    """Means and log densities, in chunks; after so many chunks by a learner that is put together anew."""
    model, found = learner(), []
    for i, at in enumerate(range(0, len(y), chunk)):
        if i and i == put_back:
            model = StreamLearner.from_tree(model.to_tree())
        now = at
        for info in model.learn(X[at : at + chunk], y[at : at + chunk, None]):
            target = y[now : now + len(info.outside), None]
            p = info.predictive
            found.append(np.column_stack([p.mean, np.asarray(p.log_density(np.nan_to_num(target))).reshape(-1, 1)]))
            now += len(target)
    return np.concatenate(found)


@cache
def whole(glitches: bool) -> np.ndarray:
    return scored(*stream(glitches), N)


@pytest.mark.parametrize("glitches", [False, True])
@pytest.mark.parametrize(("chunk", "put_back"), [(1, 0), (7, 0), (50, 2)])
def test_chunks_and_resumed_runs_give_the_same_numbers(chunk: int, put_back: int, glitches: bool):
    np.testing.assert_allclose(scored(*stream(glitches), chunk, put_back), whole(glitches), rtol=1e-9, atol=1e-9)


def test_no_prediction_sees_its_target():
    X, y = stream()
    y[200:] = 100.0
    np.testing.assert_array_equal(scored(X, y, N)[:200, 0], whole(False)[:200, 0])


def test_the_fits_are_worth_half_a_nat(monkeypatch: pytest.MonkeyPatch):
    X, y = stream()
    with_fits = whole(False)[128:, 1].mean()
    monkeypatch.setattr(provisional, "first_fits", lambda rows, seed: [])
    assert with_fits > scored(X, y, N)[128:, 1].mean() + 0.5


def test_glitches_leave_the_other_rows_as_they_are():
    _, y = stream(glitches=True)
    clean = (np.abs(y) < 10.0) & (np.arange(N) >= 128)
    loss = whole(False)[clean, 1].mean() - whole(True)[clean, 1].mean()
    assert loss < 0.3


def test_five_hundred_inputs_are_not_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 500)), rng.normal(size=40)
    model = StreamLearner(StreamSettings(make_spec("fast"), num_inputs=500, warmup=100))
    means = np.concatenate([info.predictive.mean for info in model.learn(X, y[:, None])])
    assert np.isfinite(means).all()
    assert not any(name.startswith("first fit") for name in model.state.model.names)
