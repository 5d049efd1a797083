"""Few rows that go together are learnt one by one: the numbers of a batch, without its price."""

from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, evaluate
from streamgp.numerics import tree
from streamgp.session import Session
from streamgp.stream import learner as learning
from streamgp.stream.driver import Driver

pytestmark = pytest.mark.slow

WARMUP = 100


def stream(targets: int = 1, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of which, after the warm-up, some in no order and then every second one have no target."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = np.sin(X[:, :1]) + X[:, 1:2] + 0.2 * (1.0 + np.abs(X[:, :1])) * rng.normal(size=(n, targets))
    missing = rng.random(n) < 0.3
    missing[200:] = np.arange(n - 200) % 2 > 0
    y[missing & (np.arange(n) >= WARMUP)] = np.nan
    return X, y if targets > 1 else y[:, 0]


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> StreamingGPRegressor:
    return StreamingGPRegressor("fast", warmup=WARMUP, random_state=0, **options).partial_fit(X[:150], y[:150])


def learnt(model: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return all that is told of rows, learnt in chunks of 64."""
    y = y.reshape(len(y), -1)
    infos = [info for at in range(0, len(X), 64) for info in model._learner.learn(X[at : at + 64], y[at : at + 64])]
    parts = [[*tree.leaves(info.predictive), info.rules, info.outside] for info in infos]
    return [np.concatenate([np.asarray(part[i]) for part in parts]) for i in range(len(parts[0]))]


@pytest.mark.parametrize(("targets", "options"), [(1, {}), (1, {"lags": [1, 2]}), (2, {})])
def test_the_numbers_are_those_of_batches(targets: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    X, y = stream(targets)
    found = learnt(few := fitted(X, y, **options), X[150:], y[150:])
    monkeypatch.setattr(learning, "FEW", 0)
    wanted = learnt(batches := fitted(X, y, **options), X[150:], y[150:])
    for each, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, want, rtol=1e-9, atol=1e-9)
    for each, want in zip(*(tree.leaves(m._learner.predict_next(X[:5], None)) for m in (few, batches)), strict=True):
        np.testing.assert_allclose(each, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("targets", "options"), [(1, {}), (1, {"lags": [1, 2]}), (2, {})])
def test_rows_with_gaps_do_not_bring_everything_together_each_time(
    targets: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    X, y = stream(targets)
    chunks, rows = fitted(X, y, **options), fitted(X, y, missing="skip", **options)
    flush, calls = Driver.flush, []
    monkeypatch.setattr(Driver, "flush", lambda driver: (calls.append(driver._row is not None), flush(driver))[1])
    chunks.partial_fit(X[200:290], y[200:290])
    assert calls.count(True) <= 2 and len(calls) <= 3
    calls.clear()
    for x, target in zip(X[200:290], y[200:290], strict=True):
        rows.predict_one(x)
        rows.learn_one(x, target)
    assert calls.count(True) <= 2 and len(calls) <= 3


def test_what_is_predicted_of_a_single_row_is_all_that_is_predicted_of_many():
    X, y = stream()
    model = fitted(X, y)
    want: Any = model._learner.predict_next(X[200:201], None)
    found, _ = model._learner.step_one(X[200], np.array([1.0]))
    assert tree.form(found) == tree.form(want)
    assert want.noise is not None
    for each, wanted in zip(tree.leaves(found), tree.leaves(want), strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-9)


def test_rows_whose_labels_come_late_are_scored_together(monkeypatch: pytest.MonkeyPatch):
    X, y = stream()
    score, sizes = Session.score, []

    def counted(session: Session, info: Any, rows: Any, by_experts: bool, **more: Any) -> Any:
        if by_experts:
            sizes.append(len(rows.X))
        return score(session, info, rows, by_experts, **more)

    monkeypatch.setattr(Session, "score", counted)
    evaluate(StreamingGPRegressor("fast", warmup=WARMUP, random_state=0), X[:200], np.nan_to_num(y[:200]), delay=3)
    assert sum(sizes) >= 90
    assert len(sizes) <= 6
