"""A stream some of whose filters rest: the same numbers however it is cut, on every engine, and hardly others."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamgp.evaluation.description import describe_unusual
from streamgp.filters.engine import cpu
from streamgp.models.gaussian import resting
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streams import close, learn, mixture, restored

pytestmark = pytest.mark.slow

WARMUP, ROWS, INPUTS = 64, 900, 3
SMALL = {
    "bases": ("linear", "hilbert", "fourier"),
    "features_per_basis": 12,
    "dynamics": ("static", "walk 0.01", "revert 0.9"),
    "noise": ("constant", "adaptive 0.9"),
}
CUTS = (0, 1, 40, 64, 65, 130, *range(190, 200), 255, 256, 300, *range(380, 390), 512, 700, *range(760, 775), ROWS)
STOPS = (200, 385, 768)  # where a run is stopped and taken up again


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let filters of a few features rest, after few rows."""
    monkeypatch.setattr(resting, "PERIOD", 128)
    monkeypatch.setattr(resting, "SMALL", 3)


def learner(**options: Any) -> StreamLearner:
    """Return a learner of a few small bases whose filters rest unless `options` say otherwise."""
    timed = options.pop("timed", False)
    spec = make_spec("fast", **(SMALL | options))
    return StreamLearner(StreamSettings(spec, num_inputs=INPUTS, warmup=WARMUP, seed=0, timed=timed))


def rows(timed: bool = False) -> tuple[np.ndarray, ...]:
    """Return rows with glitches, a gap, and another function in the middle."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, size=(ROWS, INPUTS))
    y = np.sin(2.0 * X[:, :1]) + 0.5 * X[:, 1:2] + 0.1 * rng.normal(size=(ROWS, 1))
    y[600:700] = -y[600:700] + 2.0 * X[600:700, 2:]
    y[rng.random(ROWS) < 0.02] += 30.0
    X[450, 1] = np.nan
    data = X, y
    return (*data, np.cumsum(rng.exponential(size=ROWS))) if timed else data


def by_parts(model: StreamLearner, data: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], StreamLearner, set[int]]:
    """Learn rows in parts, some singly, taking the run up again in between; return also how many rested."""
    found, asleep = [], set()
    for start, stop in pairwise(CUTS):
        part = [a[start:stop] for a in data]
        if stop - start == 1 and model.is_warmed_up and not np.isnan(part[0]).any():
            time = float(part[2][0]) if len(part) > 2 else np.nan
            predictive, _ = model.step_one(part[0][0], part[1][0], time)
            found.append(np.concatenate(mixture(predictive), axis=1)[0])
        else:
            found += learn(model, *part)
        if stop in STOPS:
            model = restored(model)
        if model.is_warmed_up:
            asleep.add(int(model.state.model_state.resting.asleep.sum()))
    return found, model, asleep


@pytest.mark.parametrize("options", [{}, {"lags": [1, 2]}, {"timed": True}], ids=["rows", "lags", "times"])
def test_however_it_is_cut_and_taken_up_the_numbers_are_the_same(options: dict[str, Any]):
    data = rows(bool(options.get("timed")))
    whole = learner(**options)
    expected = learn(whole, *data)
    found, model, asleep = by_parts(learner(**options), data)
    assert len(asleep) > 2, "nobody went to rest, or woke"
    close(found, expected)
    np.testing.assert_allclose(model.weights, whole.weights, rtol=1e-6, atol=1e-12)
    assert (model.state.model_state.resting.asleep == whole.state.model_state.resting.asleep).all()


def test_the_compiled_engine_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch):
    data = [a[:520] for a in rows()]
    expected = learn(learner(), *data)
    monkeypatch.setattr(cpu, "supports", lambda *_: False)
    model = learner()
    found = learn(model, *data)
    assert model.state.model_state.resting.asleep.any()
    close(found, expected)


def test_predictions_and_weights_are_of_those_that_work():
    model = learner()
    data = rows()
    learn(model, *(a[:520] for a in data))
    asleep = np.asarray(model.state.model_state.resting.asleep)
    assert asleep.any()
    weights = model.weights.reshape(len(asleep), -1)
    assert not weights[asleep].any()
    assert weights.sum() == pytest.approx(1.0)
    predictive = model.predict(data[0][520:523])
    assert not np.exp(np.asarray(predictive.log_weights)).reshape(3, len(asleep), -1)[:, asleep].any()
    assert not model.state.restarted, "who rests is not out of order"
    assert 0.3 < model.state.share_working < 1.0
    metrics: Any = SimpleNamespace(unlabelled_rows=0)
    share = f"{model.state.share_working:.0%} of the filters"
    assert any(share in note for note in describe_unusual(model, metrics, ["y"], 0))


def test_a_change_wakes_them_before_the_period_ends():
    model, data = learner(), rows()
    seen = {}
    for stop in range(520, 720, 8):
        learn(model, *(a[model.rows : stop] for a in data))
        seen[stop] = int(model.state.model_state.resting.asleep.sum())
    assert seen[600] > 0
    assert min(count for stop, count in seen.items() if 600 < stop < 640) == 0


def test_without_rest_or_with_a_horizon_none_does():
    data = [a[:300] for a in rows()]
    for options in ({"rest": False}, {"horizon": 2}):
        model = learner(**options)
        learn(model, *data)
        assert model.state.model_state.resting is None


def test_of_single_rows_each_block_of_scores_is_looked_at_once_and_once_more_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
):
    closed = []
    close_block = resting.Scores.close
    monkeypatch.setattr(resting.Scores, "close", lambda self: closed.append(1) or close_block(self))
    X, y = rows()
    model = learner()
    learn(model, X[:128], y[:128])
    closed.clear()
    for x, target in zip(X[128:240], y[128:240], strict=True):  # seven blocks, before the period ends
        model.learn_one(x, target)
    assert len(closed) == 7
    assert model.state.rows == 240
    assert len(closed) == 14
