"""The conformance suite passes sound models and catches each kind of broken one."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streamgp import conformance
from streamgp.bases import Fourier
from streamgp.conformance import CHECKS, check_online_model
from streamgp.filters.dynamics import parse
from streamgp.likelihoods import Predictive
from streamgp.models.contract import Described, Info
from streamgp.models.expert import Expert
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.weights import BMA, DMA, NewtonStep, share

pytestmark = pytest.mark.slow

N = 24
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.sin(X) + 0.1 * RNG.normal(size=(N, 2))
TIMES = np.cumsum(RNG.exponential(1.0, N))


def build(rule: Any) -> Ensemble:
    basis = Fourier(jnp.asarray(np.random.default_rng(1).normal(size=(5, 2))), jnp.ones(2))
    experts = [
        Expert(basis, jnp.asarray(1.0), jnp.asarray(noise), parse(name))
        for noise in (1e-3, 0.1)
        for name in ("static", "revert 0.9")
    ]
    return ensemble(experts, rule, num_outputs=2)


RULES = {
    "bma-shutdown": BMA(1e-16),
    "e-doebe": share([0, 0, 1, 1], 0.05),
    "dma": DMA(),
    "stacking-newton": NewtonStep(),
}


@pytest.mark.parametrize("name", RULES)
def test_ensembles_conform(name):
    check_online_model(build(RULES[name]), X, Y, TIMES if name == "e-doebe" else None)


class ReportsOtherWeights(Ensemble):
    def describe(self, state):
        return Described(np.full(4, 0.25))


class ForgetsTheTime(Ensemble):
    def update(self, *rows, **more):
        state, info = super().update(*rows, **more)
        return dataclasses.replace(state, last_time=jnp.asarray(jnp.nan)), info


@pytest.mark.parametrize(
    ("broken", "message"), [(ReportsOtherWeights, "describe: expected the weights"), (ForgetsTheTime, "last_time")]
)
def test_what_the_learner_asks_is_checked(broken, message):
    whole = build(RULES["e-doebe"])
    model = broken(**{field.name: getattr(whole, field.name) for field in dataclasses.fields(whole)})
    with pytest.raises(AssertionError, match=message):
        subject = conformance.Subject(
            model, jnp.asarray(X), jnp.asarray(Y), jnp.asarray(TIMES), keys.key(0), 1e-9, jnp.asarray(Y)
        )
        conformance.weights_and_times_are_reported(subject)


@dataclasses.dataclass
class Mean:
    """A sound toy: the running mean of the targets with a fixed variance, in NumPy."""

    num_inputs: int = 2
    num_outputs: int = 2

    def init(self, key) -> dict[str, np.ndarray]:
        return {"sum": np.zeros(2), "count": np.zeros(())}

    def belief(self, state) -> np.ndarray:
        return state["sum"] / (1.0 + state["count"])

    def predict(self, state, X, times=None) -> Predictive:
        return self.predictive(np.broadcast_to(self.belief(state), (len(X), 2)))

    def predictive(self, mean) -> Predictive:
        n = len(mean)
        return Predictive(np.zeros((n, 1)), np.array(mean)[:, None, :], np.ones((n, 1, 2)))

    def update(self, state, X, y, mask=None, times=None) -> tuple[dict[str, np.ndarray], Info]:
        y, keep = np.asarray(y), np.ones(len(y), bool) if mask is None else np.asarray(mask)
        means = np.zeros((len(y), 2))
        for i in range(len(y)):
            means[i] = self.belief(state)
            if keep[i]:
                state = self.step(state, y[i])
        return state, Info(self.predictive(means), jnp.zeros(len(y), bool))

    def step(self, state, y) -> dict[str, np.ndarray]:
        return {"sum": state["sum"] + y, "count": state["count"] + 1.0}


def test_the_toy_conforms():
    check_online_model(Mean(), X, Y)


class WeightsThatDoNotSumToOne(Mean):
    def predictive(self, mean):
        return eqx.tree_at(lambda p: p.log_weights, super().predictive(mean), np.full((len(mean), 1), -1e-6))


class NoVariance(Mean):
    def predictive(self, mean):
        return eqx.tree_at(lambda p: p.var, super().predictive(mean), np.zeros((len(mean), 1, 2)))


class OneOutputForAll(Mean):
    def predictive(self, mean):
        return jax.tree.map(lambda a: a[..., :1], super().predictive(mean))


class LearnsWhilePredicting(Mean):
    def predict(self, state, X, times=None):
        state["count"] += 1e-3
        return super().predict(state, X, times)


class DrawsItsPredictions(Mean):
    rng = np.random.default_rng(0)

    def predict(self, state, X, times=None):
        return self.predictive(self.belief(state) + self.rng.normal(size=(len(X), 2)))


class UpdatesInPlace(Mean):
    def step(self, state, y):
        state["sum"] += y
        state["count"] += 1.0
        return state


class RemembersOutsideItsState(Mean):
    seen = 0

    def step(self, state, y):
        type(self).seen += 1
        return {"sum": state["sum"] + y + 1e-3 * self.seen, "count": state["count"] + 1.0}


class LearnsBeforeItPredicts(Mean):
    def update(self, state, X, y, mask=None, times=None):
        new, _ = super().update(state, X, y, mask, times)
        return new, Info(self.predict(new, X), jnp.zeros(len(X), bool))


class PredictsWithoutItsPrior(Mean):
    def predict(self, state, X, times=None):
        return self.predictive(np.broadcast_to(state["sum"] / max(1.0, state["count"]), (len(X), 2)))


class CentresItsBatch(Mean):
    def predict(self, state, X, times=None):
        X = np.asarray(X)
        return self.predictive(self.belief(state) + X - X[:1])


class CountsChunks(Mean):
    def update(self, state, X, y, mask=None, times=None):
        new, info = super().update(state, X, y, mask, times)
        return {"sum": new["sum"], "count": new["count"] + 0.1}, info


class CountsMaskedRows(Mean):
    def update(self, state, X, y, mask=None, times=None):
        new, info = super().update(state, X, y, mask, times)
        masked = 0 if mask is None else int((~np.asarray(mask)).sum())
        return {"sum": new["sum"], "count": new["count"] + masked}, info


class Hoards(Mean):
    def init(self, key):
        return {**super().init(key), "rows": np.zeros((0, 2))}

    def step(self, state, y):
        return {**super().step(state, y), "rows": np.concatenate([state["rows"], y[None]])}


BROKEN = [
    (WeightsThatDoNotSumToOne, "predictions_are_distributions", "do not sum to one"),
    (NoVariance, "predictions_are_distributions", "variance is not positive"),
    (OneOutputForAll, "predictions_are_distributions", "expected log_weights, loc and variances of shapes"),
    (LearnsWhilePredicting, "predict_is_pure", "predict"),
    (DrawsItsPredictions, "predict_is_pure", "must not draw"),
    (UpdatesInPlace, "states_are_values", "must return a new one"),
    (RemembersOutsideItsState, "states_are_values", "keep all memory in the state"),
    (LearnsBeforeItPredicts, "targets_come_after", "predict each row before learning from it"),
    (PredictsWithoutItsPrior, "predict_agrees_with_update", "different predictions of the first row"),
    (CentresItsBatch, "rows_are_predicted_one_by_one", "rows must not interact"),
    (CountsChunks, "one_by_one_is_all_at_once", "give different"),
    (CountsMaskedRows, "masked_rows_cost_nothing", "rows left out by the mask changed"),
    (Hoards, "memory_is_bounded", "must keep its shapes and dtypes"),
]


@pytest.mark.parametrize(("broken", "check", "message"), BROKEN)
def test_each_broken_promise_is_caught(broken, check, message):
    rows = jnp.asarray(X), jnp.asarray(Y)
    far = rows[1] + 1e3 * (1.0 + jnp.abs(rows[1]))
    subject = conformance.Subject(broken(), *rows, None, keys.key(0), 1e-9, far)
    with pytest.raises(AssertionError, match=message):
        getattr(conformance, check)(subject)
    with pytest.raises(AssertionError):
        check_online_model(broken(), X, Y)


def test_a_state_that_the_disk_does_not_preserve_is_caught(monkeypatch):
    # `save` refuses what it cannot store, so the loss has to be staged.
    monkeypatch.setattr(conformance, "load", lambda directory: ({"sum": np.ones(2), "count": np.ones(())}, {}))
    with pytest.raises(AssertionError, match="saved and loaded goes on otherwise"):
        check_online_model(Mean(), X, Y)


def test_every_check_has_a_model_that_fails_it():
    caught = {check for _, check, _ in BROKEN} | {"saved_and_loaded_is_unbroken", "weights_and_times_are_reported"}
    assert caught == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (X[:3], Y[:3], "n >= 6"),
        (X, Y[:-1], "got"),
        (X[:, 0], Y, "shape"),
        (X[:, :1], Y, "2 columns in X and 2 in y"),
        (X, Y[:, :1], "got 2 and 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, targets, message):
    with pytest.raises(ValueError, match=message):
        check_online_model(Mean(), rows, targets)
