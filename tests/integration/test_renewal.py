"""Experts fitted anew as the stream goes on: what they know, when they come, and that nothing else changes."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest

from streamgp.bases import Boosted, TrainedFourier
from streamgp.bases.boosted import held_out
from streamgp.filters.engine.blocks import member
from streamgp.models.gaussian.renewal import slots_of
from streamgp.models.registry import make_spec
from streamgp.numerics.checkpoint.encoding import encode
from streamgp.stream.learner import StreamLearner
from streamgp.stream.renewal import AFTER_CHANGE, GROWTH
from streamgp.stream.settings import StreamSettings
from streams import close, learn, restored

pytestmark = pytest.mark.slow

WARMUP, INPUTS = 64, 2
SMALL = {
    "bases": ("linear", "fourier-trained", "boosted"),
    "features_per_basis": 6,
    "dynamics": ("static", "walk 0.001"),
    "noise": ("constant", "adaptive 0.9"),
}
PLAIN = SMALL | {"dynamics": "static", "noise": "constant", "robust": False, "recalibrate": False}
DUE = [math.ceil(WARMUP * GROWTH**k) for k in range(1, 9)]
SEARCHED = DUE[make_spec("best").searched_every - 1]


def learner(warmup: int = WARMUP, **options: Any) -> StreamLearner:
    """Return a small learner whose experts are renewed."""
    return StreamLearner(
        StreamSettings(make_spec("best", **(SMALL | options)), num_inputs=INPUTS, warmup=warmup, seed=1)
    )


def rows(n: int, seed: int = 0, moved: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a function; from the row `moved` on the inputs lie elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, INPUTS))
    if moved is not None:
        X[moved:] += 3.0
    return X, np.sin(X[:, :1] ** 2 + X[:, :1]) * np.cos(2.0 * X[:, 1:]) + 0.05 * rng.normal(size=(n, 1))


@pytest.fixture(scope="module")
def long() -> StreamLearner:
    """Return a learner that was renewed several times, with trained frequencies once."""
    model = learner(**PLAIN)
    learn(model, *rows(SEARCHED))
    return model


def test_experts_are_due_after_each_quarter_more_rows():
    model, X_y = learner(), rows(DUE[-1])
    for start, stop in pairwise([0, *DUE]):
        before = {expert.since for expert in model.experts}
        learn(model, *(a[start:stop] for a in X_y))
        assert {expert.since for expert in model.experts} - before == ({stop} if before else {0, stop})


def test_which_are_replaced(long: StreamLearner):
    """Of two fits of a basis the one that counts for less, with all its dynamics and kinds of noise; no plane."""
    since = {kind: {e.since for e in long.experts if e.basis.startswith(kind)} for kind in ("linear", "fourier")}
    assert since == {"linear": {0}, "fourier": {0, SEARCHED}}
    assert SEARCHED in {e.since for e in long.experts if e.basis.startswith("boosted")}


def believes(model: Any, state: Any, slot: Any, X: np.ndarray, y: np.ndarray) -> bool:
    """Return whether a slot's static filter believes what these rows say, in closed form."""
    group, beliefs = model.groups[slot.group], state.model_state.filters[slot.group]
    Phi = np.asarray(member(group.basis, slot.number)(X))
    v, s2 = (float(a[slot.number, 0]) for a in group.noise)
    cov = np.linalg.inv(np.eye(Phi.shape[1]) / v + Phi.T @ Phi / s2)
    mean, found = cov @ Phi.T @ y / s2, np.asarray(beliefs.cov)[slot.number, 0]
    same = np.allclose(np.asarray(beliefs.mean)[slot.number, 0], mean, rtol=1e-5, atol=1e-7)
    return same and np.allclose(found, cov, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", [Boosted, TrainedFourier])
def test_a_new_expert_believes_what_its_rows_say(long: StreamLearner, kind: type):
    """The posterior of Bayesian linear regression in closed form; of trees, on the rows kept from them alone."""
    state = long.state
    model: Any = state.model
    X, y = rows(SEARCHED)
    X, y = state.inputs.standardised(X), np.asarray((y - state.targets.mean) / state.targets.scale)
    found = 0
    for slot in slots_of(model, kind)[0]:
        seen = held_out(SEARCHED) if kind is Boosted else np.arange(SEARCHED)
        found += believes(model, state, slot, X[seen], y[seen])
    assert found, "no expert has the beliefs of one that was fitted at the last row"


@pytest.mark.parametrize("renew", [False, True])
def test_after_the_warm_up_trees_are_worth_what_rows_kept_from_them_say(renew: bool):
    learner_ = learner(**PLAIN, renew=renew)
    X, y = rows(WARMUP)
    learn(learner_, X, y)
    state = learner_.state
    model: Any = state.model
    X, y = state.inputs.standardised(X), np.asarray((y - state.targets.mean) / state.targets.scale)
    (slots,) = slots_of(model, Boosted)
    for slot in slots:
        assert believes(model, state, slot, X[held_out(WARMUP)], y[held_out(WARMUP)])


def test_weights_of_the_new_ones_are_those_of_equal_experts():
    model = learner(**PLAIN, weights="bma")
    learn(model, *rows(SEARCHED))
    new = np.array([expert.since == SEARCHED for expert in model.experts])
    assert new.sum() == 2
    np.testing.assert_allclose(model.weights[new], 1.0 / len(new), rtol=1e-9)
    np.testing.assert_allclose(model.weights.sum(), 1.0, rtol=1e-9)


def test_rows_one_by_one_in_chunks_and_after_a_restart_are_the_same():
    X, y = rows(DUE[4] + 10)
    whole, chunks, single = learner(), learner(), learner()
    expected = learn(whole, X, y)
    found = [
        row for start in range(0, len(X), 7) for row in learn(chunks, X[start : start + 7], y[start : start + 7])
    ]
    close(found, expected)
    learn(single, X[: DUE[0] - 3], y[: DUE[0] - 3])
    for i in range(DUE[0] - 3, len(X)):
        if i in (DUE[1], DUE[2] - 1):  # right after a renewal, and right before one
            single = restored(single)
        single.predict_one(X[i])
        single.learn_one(X[i], y[i])
    for other in (chunks, single):
        assert other.experts == whole.experts
        np.testing.assert_allclose(other.weights, whole.weights, rtol=1e-7, atol=1e-12)
        following = [np.concatenate([p.mean, p.std], axis=1) for p in (other.predict(X[:9]), whole.predict(X[:9]))]
        np.testing.assert_allclose(*following, rtol=1e-9)


def test_what_was_predicted_of_a_row_knows_nothing_of_it_or_later(long: StreamLearner):
    """Rows from the next renewal on are changed: what was said of the rows before it, and of it, stands."""
    X, y = rows(DUE[3] + 30)
    other = y.copy()
    other[DUE[3] :] += 5.0
    close(learn(learner(), X, y)[: DUE[3] + 1], learn(learner(), X, other)[: DUE[3] + 1], rtol=0.0)


def test_nothing_grows():
    model, sizes, (X, y) = learner(), [], rows(DUE[6])
    for start, stop in pairwise([0, *DUE[:7]]):
        learn(model, X[start:stop], y[start:stop])
        tree = model.to_tree() | {"reservoir": None, "sample": None}  # which grow up to a most
        sizes.append(sum(a.nbytes for a in encode(tree)[1].values()))
    assert len(set(sizes)) == 1


def test_a_renewal_with_as_many_rows_compiles_nothing(long: StreamLearner):
    X, y = rows(DUE[7])
    model = learner()
    learn(model, X[: DUE[6]], y[: DUE[6]])
    compiled: list[str] = []

    def listen(event: str, _: float, **__: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    model.predict(X[:1])
    learn(model, X[DUE[6] : DUE[7] - 2], y[DUE[6] : DUE[7] - 2])
    learn(model, X[DUE[7] - 2 : DUE[7] - 1], y[DUE[7] - 2 : DUE[7] - 1])  # a row by itself
    jax.monitoring.register_event_duration_secs_listener(listen)
    learn(model, X[DUE[7] - 1 :], y[DUE[7] - 1 :])
    assert DUE[7] in {expert.since for expert in model.experts}
    assert not compiled


def test_without_renewal_no_expert_changes():
    model = learner(renew=False)
    learn(model, *rows(DUE[2]))
    assert {expert.since for expert in model.experts} == {0}
    assert model.state.reservoir is None


def test_inputs_that_move_where_no_row_has_been_are_followed():
    """Errors rise in a block after 256 rows, and 1,024 rows later experts are fitted to the rows since."""
    moved, warmup = 2560, 512
    X, y = rows(moved + 2048, moved=moved)
    ends = {}
    for renew in (True, False):
        model = learner(warmup, renew=renew, features_per_basis=40, dynamics="static")
        said = np.array([row[0] for row in learn(model, X, y)])
        ends[renew] = np.sqrt(np.mean((said - y[:, 0])[-512:] ** 2))
    assert model.state.errors.changed_at == 0, "nothing is watched where nothing is renewed"
    assert ends[True] < 0.1
    assert ends[False] > 2.0 * ends[True]


def test_a_change_is_noted_at_the_end_of_a_block_and_renewed_at_fixed_rows_after_it():
    moved = 2560
    X, y = rows(moved + 256 + AFTER_CHANGE[0], moved=moved)
    model = learner(512, dynamics="static")
    learn(model, X[:-1], y[:-1])
    assert model.state.errors.changed_at == moved + 256
    assert moved + 256 + AFTER_CHANGE[0] not in {expert.since for expert in model.experts}
    model.predict_one(X[-1])
    model.learn_one(X[-1], y[-1])
    assert moved + 256 + AFTER_CHANGE[0] in {expert.since for expert in model.experts}


@pytest.mark.parametrize("options", [{"lags": (1, 2)}, {"horizon": 3}, {"lags": (1,), "horizon": 2}], ids=str)
def test_with_lags_and_horizon(options: dict[str, Any]):
    X, y = rows(DUE[3] + 5)
    whole, chunks = learner(**options), learner(**options)
    expected = learn(whole, X, y)
    found = [
        row for start in range(0, len(X), 11) for row in learn(chunks, X[start : start + 11], y[start : start + 11])
    ]
    close(found, expected)
    assert DUE[3] in {expert.since for expert in whole.experts}


def test_absurd_rows_do_not_reach_the_fits():
    X, y = rows(DUE[3])
    y[WARMUP + 5 :: 20] = 1e6
    model = learner()
    learn(model, X, y)
    assert model.state.flagged_rows > 3
    assert model.state.reservoir is not None
    assert np.abs(model.state.reservoir.rows().y).max() < 10.0


def test_a_state_from_before_is_what_it_was():
    """States are values: a renewal changes none that exists."""
    X, y = rows(DUE[0])
    model = learner()
    learn(model, X[:-1], y[:-1])
    before = model.state
    arrays = {k: a.copy() for k, a in encode(model.to_tree())[1].items()}
    learn(model, X[-1:], y[-1:])
    assert DUE[0] in {expert.since for expert in model.experts}
    model.state = replace(before)
    for name, array in encode(model.to_tree())[1].items():
        np.testing.assert_array_equal(array, arrays[name])


def test_what_the_warm_up_could_not_show_may_come_later():
    """In pure noise no fit is worth anything: the plane is there as it was before its fit."""
    X, y = rows(DUE[2])
    y[:WARMUP] = np.random.default_rng(3).normal(size=(WARMUP, 1))
    model = learner()
    learn(model, X, y)
    assert {"linear", "linear unfitted"} & {expert.basis for expert in model.experts}
    assert {"boosted 1", "boosted 1.5"} <= {expert.basis for expert in model.experts}
