"""Several targets of which some are missing in the warm-up: each is learnt as a stream with that target alone."""

from typing import Any

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, evaluate
from streamgp.evaluation.conformal import Conformal
from streamgp.models.registry import make_spec
from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.numerics.precision import float64
from streamgp.stream.apart import new_learner
from streamgp.stream.late_labels import LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streams import restored

pytestmark = pytest.mark.slow

ROWS, WARMUP, TARGETS = 220, 40, 3


def rows(first_gap: int = 6, glitch: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs with gaps, targets that come in 10, 8 and 3 of ten rows from some row on, and times."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(ROWS, 2))
    shared = rng.normal(size=(ROWS, 1))
    y = (
        X @ rng.normal(size=(2, TARGETS))
        + np.array([1.0, -0.7, 0.8]) * shared
        + 0.3 * rng.normal(size=(ROWS, TARGETS))
    )
    absent = rng.random(y.shape) > np.array([2.0, 0.8, 0.3])
    absent[:first_gap] = False
    y[absent] = np.nan
    y[12:15] = np.nan
    X[25, 0] = X[130, 1] = X[131, 0] = np.nan
    if glitch:
        y[170, 0] = 1e7
    return X, y, np.cumsum(rng.exponential(size=ROWS))


def first(y: np.ndarray) -> int:
    """Return the first row that has some of the targets and not all."""
    absent = np.isnan(y)
    return int(np.argmax(absent.any(1) & ~absent.all(1)))


def learner(targets: int, preset: str = "linear", **options: Any) -> StreamLearner:
    timed = options.pop("timed", False)
    spec = make_spec(preset, **options)
    return new_learner(StreamSettings(spec, num_inputs=2, num_outputs=targets, warmup=WARMUP, seed=1, timed=timed))


def predicted(infos: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of all rows."""
    with float64():
        return tuple(np.concatenate([np.asarray(getattr(i.predictive, n)) for i in infos]) for n in ("mean", "std"))  # type: ignore[return-value]


CASES: dict[str, dict[str, Any]] = {
    "linear": {},
    "with lags": {"lags": (1, 2)},
    "with times": {"timed": True, "dynamics": [0.01]},
    "several experts": {"preset": "doebe", "bases": ["rbf"], "features_per_basis": 12},
}


@pytest.mark.parametrize("name", CASES)
def test_each_target_is_learnt_as_if_it_were_alone(name):
    options = CASES[name]
    X, y, times = rows(glitch=True)
    given = times if options.get("timed") else None
    together = learner(TARGETS, **options)
    mean, std = predicted(list(together.learn(X, y, given)))
    assert len(together.state.models) > 1 and together.is_warmed_up
    assert together.rows == (~np.isnan(y)).any(1).sum()
    for e in range(TARGETS):
        alone = learner(1, **options)
        own_mean, own_std = predicted(list(alone.learn(X, y[:, [e]], given)))
        # The first rows, before one lacked a target, were predicted by a model of all.
        np.testing.assert_allclose(mean[first(y) :, [e]], own_mean[first(y) :], rtol=1e-9)
        np.testing.assert_allclose(std[first(y) :, [e]], own_std[first(y) :], rtol=1e-9)
        new = np.array([[0.3, -1.0], [0.0, np.nan]])
        at = None if given is None else np.full(2, times[-1] + 1.0)
        with float64():
            ahead, its = together.predict(new, at), alone.predict(new, at)
            np.testing.assert_allclose(np.asarray(ahead.mean)[:, [e]], its.mean, rtol=1e-9)
            np.testing.assert_allclose(ahead.quantile(0.1)[:, [e]], its.quantile(0.1), rtol=1e-9)


@pytest.mark.parametrize("stop", [7, 30, 150])
def test_in_pieces_and_resumed_the_numbers_are_the_same(stop):
    X, y, _ = rows(glitch=True)
    whole = predicted(list(learner(TARGETS).learn(X, y)))
    model = learner(TARGETS)
    infos = [info for i in range(stop) for info in model.learn(X[i : i + 1], y[i : i + 1])]
    model = restored(model)
    for at in range(stop, ROWS, 37):
        infos += list(model.learn(X[at : at + 37], y[at : at + 37]))
    for ours, theirs in zip(predicted(infos), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_no_prediction_sees_a_later_target():
    X, y, _ = rows()
    other = y.copy()
    other[100:] = -3.0 * y[100:]
    for ours, theirs in zip(
        predicted(list(learner(TARGETS).learn(X, y))), predicted(list(learner(TARGETS).learn(X, other))), strict=True
    ):
        np.testing.assert_array_equal(ours[:101], theirs[:101])
        assert not np.allclose(ours[110:], theirs[110:])


def test_targets_that_are_all_there_in_the_warm_up_stay_together():
    X, y, _ = rows(first_gap=ROWS)
    y[12:15] = 0.0
    y[100:200:10, 1] = y[130:140, 2] = np.nan
    model = learner(TARGETS)
    list(model.learn(X, y))
    assert model.is_warmed_up and len(model.state.models) == 1
    assert model.rows == (~np.isnan(y)).all(1).sum()


def test_a_target_whose_warm_up_takes_longer_is_waited_for():
    X, y, _ = rows()
    y[30:180, 2] = np.nan
    model = learner(TARGETS)
    list(model.learn(X[:180], y[:180]))
    assert model.rows > WARMUP and not model.is_warmed_up and not model.experts
    list(model.learn(X[180:], np.nan_to_num(y[180:])))
    assert model.is_warmed_up and model.experts


def test_scores_of_a_target_are_those_of_it_alone():
    X, y, _ = rows()
    both = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y, conformal=0.9, progress=False)
    each = both.metrics["per_target"]
    whole = (~np.isnan(y)).all(1)
    assert both.metrics["scored_rows"] == whole.sum() - WARMUP
    for e in range(TARGETS):
        alone = evaluate(StreamingGPRegressor("linear", warmup=WARMUP), X, y[:, e], conformal=0.9, progress=False)
        for name in ("nmse", "mae", "crps"):
            assert each[f"y{e}"][name] == pytest.approx(alone.metrics[name], rel=1e-6)
            naive = each[f"y{e}"]["naive"], alone.metrics["naive"]
        assert naive[0] == {k: pytest.approx(v) for k, v in naive[1].items()}
        assert each[f"y{e}"]["coverage"] == pytest.approx(alone.metrics["coverage"])
        seen = ~np.isnan(y[:, e])
        assert np.isnan(both.crps[~seen, e]).all()
        after = np.flatnonzero(seen)[first(y) :]
        np.testing.assert_allclose(both.crps[after, e], alone.crps[after], rtol=1e-5)
        own = both.metrics["conformal"]["per_target"][f"y{e}"]
        assert own["coverage"] == pytest.approx(alone.metrics["conformal"]["coverage"], abs=0.04)
    assert np.isnan(both.log_density[~whole]).all() and not np.isnan(both.log_density[whole]).any()
    joint = both.metrics["joint_pll"]
    assert joint > both.metrics["pll"] + 0.2, "the errors go together"


def test_conformal_bands_learn_of_each_target_from_the_rows_that_have_it():
    rng = np.random.default_rng(0)
    y, mean, std = rng.normal(size=(80, 2)), np.zeros((80, 2)), np.ones((80, 2))
    own = np.full((80, 2), -1.6), np.full((80, 2), 1.6)
    y[rng.random(80) < 0.4, 1] = np.nan
    bands = Conformal(0.8, ["a", "b"], warmup=5)
    pieces = [slice(at, at + 9) for at in range(0, 80, 9)]
    low = np.concatenate([bands.add(y[i], mean[i], std[i], (own[0][i], own[1][i]))[0] for i in pieces])
    seen = ~np.isnan(y[:, 1])
    alone = Conformal(0.8, ["b"], warmup=5)
    its = alone.add(
        y[seen][:, [1]], mean[seen][:, [1]], std[seen][:, [1]], (own[0][seen][:, [1]], own[1][seen][:, [1]])
    )
    np.testing.assert_array_equal(low[seen, 1], its[0][:, 0])
    for name, expected in alone.result().items():
        if name != "level":
            assert bands.result()["per_target"]["b"][name] == pytest.approx(expected)
    again = Conformal.from_tree(bands.to_tree())
    assert again.result() == bands.result()


def test_users_ask_as_they_do_of_targets_together():
    X, y, _ = rows()
    model = StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X, y)
    assert model.is_warm_ and model.error_correlation_[0, 1] < -0.5
    given = np.column_stack([y[:10, 0], np.full((10, 2), np.nan)])
    std = model.predict(X[:10], return_std=True, given=given)[1]
    assert (std[:, 1:] < model.predict(X[:10], return_std=True)[1][:, 1:]).all() and (std[:, 0] == 0.0).all()
    draws = model.sample(X[:2], 2_000)
    assert draws.shape == (2, TARGETS, 2_000) and np.corrcoef(draws[0])[0, 1] < -0.4
    assert set(model.feature_importance()) == {"x0", "x1"}
    found = model.explain(X[0])
    np.testing.assert_allclose(found.prediction, model.predict(X[:1])[0], rtol=1e-6)
    frame = model.forecast(2, X_future=X[:2])
    assert len(frame) == 2 * TARGETS
    low, high = model.predict_interval(X[:3], 0.9)
    assert (low < high).all() and low.shape == (3, TARGETS)
    model.learn_one(X[0], y[0])
    assert np.shape(model.predict_one(X[0])) == (2, TARGETS)


def dies(at: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and two targets; the second is there until a row after the warm-up, and then comes no more."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, 2))
    y = X @ np.array([[1.0, -0.5], [0.5, 2.0]]) + 0.3 * rng.normal(size=(ROWS, 2))
    y[at + 60 :, 0] += 3.0 * X[at + 60 :, 0]  # the first one changes after that
    y[at:, 1] = np.nan
    y[at - 45 : at - 40, 0] = np.nan
    return X, y


def test_when_one_target_dies_the_others_are_learnt_on():
    X, y = dies()
    model = learner(2, dynamics=[0.05])
    list(model.learn(X[:139], y[:139]))
    assert len(model.state.models) == 1, "fewer than 50 rows without it"
    before = model.predict(X[:5])
    rows = model.rows
    list(model.learn(X[139:140], y[139:140]))
    assert len(model.state.models) > 1 and model.rows == rows
    with float64():
        after = model.predict(X[:5])
        for name in ("mean", "std"):
            np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-9)
        np.testing.assert_allclose(after.quantile(0.9), before.quantile(0.9), rtol=1e-7)
        np.testing.assert_allclose(after.correlation, before.correlation, rtol=1e-9)
    mean = predicted(list(model.learn(X[140:], y[140:])))[0]
    late = slice(ROWS - 30, None)
    assert np.abs(mean[-30:, 0] - y[late, 0]).mean() < 0.6, "the change was learnt"


def test_a_target_that_dies_does_so_at_the_same_row_in_any_pieces():
    X, y = dies()
    options = {"preset": "fast", "lags": "none", "features_per_basis": 10}
    model = learner(2, **options)
    whole = predicted(list(model.learn(X, y)))
    again, infos = learner(2, **options), []
    for at in range(0, 100, 7):
        infos += list(again.learn(X[at : min(at + 7, 100)], y[at : min(at + 7, 100)]))
    again = restored(again)
    for i in range(100, ROWS):
        infos += list(again.learn(X[i : i + 1], y[i : i + 1]))
    assert len(again.state.models) > 1 and again.rows == model.rows
    for ours, theirs in zip(predicted(infos), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_rows_learnt_singly_count_as_those_in_chunks():
    X, y = dies()
    y[100:110, 1] = 0.0
    singly, chunks = (StreamingGPRegressor("linear", warmup=WARMUP).partial_fit(X[:90], y[:90]) for _ in range(2))
    for i in range(90, 150):
        singly.learn_one(X[i], y[i])
    chunks.partial_fit(X[90:150], y[90:150])
    assert singly._learner.state.scarce == chunks._learner.state.scarce == 4 * 10 - 10 + 4 * 40
    np.testing.assert_allclose(singly.predict(X[:3]), chunks.predict(X[:3]), rtol=1e-9)


def test_rows_predicted_while_others_wait_have_weights_of_each_target():
    X, y, _ = rows()
    model = learner(TARGETS, "default", bases=("linear",), dynamics=("static", "walk 0.1"), renew=False)
    for _ in model.learn(X[:150], y[:150]):
        pass
    late, whole = LateLabels(model), np.nan_to_num(y)
    for at in range(150, 190, 4):
        numbers = [number for part, _ in late.predict(X[at : at + 4]) for number in part]
        late.learn(numbers[::-1], whole[at : at + 4])
    assert len(late.weights) == TARGETS
    assert len({weights.experts.tobytes() for weights in late.weights}) == TARGETS
    ((numbers, _),) = late.predict(X[190:194])
    again = LateLabels.from_tree(restored(model), decode(*encode(late.to_tree()), {}))
    for each in (late, again):
        each.learn([numbers[2]], whole[192:193])
    ((_, info),), ((_, other),) = late.predict(X[194:196]), again.predict(X[194:196])
    for a, b in zip(predicted([info]), predicted([other]), strict=True):
        np.testing.assert_array_equal(a, b)
    for weights, same in zip(late.weights, again.weights, strict=True):
        np.testing.assert_array_equal(weights.experts, same.experts)
        np.testing.assert_array_equal(weights.rules, same.rules)
