"""Local models: the contract, which model a batch belongs to, what breaks, what they predict together."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.conformance import check_online_model
from streamgp.numerics import keys
from streamgp.research.annex import COMBINATIONS
from streamgp.research.sparse import (
    BatchOptimiser,
    KernelHyperparameters,
    LocalGPs,
    combining,
    relative_change,
    splitting,
)
from streamgp.research.sparse.local import LocalModels

pytestmark = pytest.mark.slow

COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)


def shared(inputs: int = 1, noise_var: float = 0.05) -> KernelHyperparameters:
    return KernelHyperparameters(jnp.ones(inputs), jnp.ones(()), noise_var * jnp.ones(()))


def build(method: str = "wgpr", **changes: Any) -> LocalGPs:
    settings: dict[str, Any] = {
        "num_inputs": 1,
        "num_outputs": 1,
        "num_inducing": 8,
        "batch_size": 20,
        "max_models": 1 if method == "ovfe" else 6,
        "threshold": 5.0 if method == "wgpr" else 0.5,
        "combination": "nearest" if method in ("ovfe", "wgpr") else "distance",
        "optimiser": BatchOptimiser(steps=8),
        "hyperparameters": shared() if method == "lgpr" else None,
    }
    return LocalGPs(method=method, **{**settings, **changes})


def regimes(rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Along a line: slow and small, then fast and large."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 20.0, rows)
    f = np.where(x < 10.0, 0.5 * np.sin(0.5 * x), 4.0 * np.sin(1.5 * x))
    return x[:, None], (f + 0.1 * rng.normal(size=rows))[:, None]


@pytest.mark.parametrize("method", ["ovfe", "wgpr", "solar-gp", "lgpr", "wgpr by the stream"])
def test_they_keep_the_contract(method):
    method, _, stream = method.partition(" ")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(13, 2))
    y = np.stack([np.sin(X[:, 0]), X[:, 1]], 1)
    two = shared(2) if method == "lgpr" else None
    model = build(
        method, num_inputs=2, num_outputs=2, num_inducing=4, batch_size=4, max_models=3, hyperparameters=two
    )
    model = replace(model, optimiser=BatchOptimiser(steps=3), max_models=1 if method == "ovfe" else 3)
    if stream:
        model = replace(model, combination="stream", threshold=0.0)
    check_online_model(model, X, y, np.arange(13.0) if method == "wgpr" else None)


def test_a_change_of_regime_makes_a_second_model_and_only_that():
    X, y = regimes()
    model = build(num_inducing=15)
    state, info = model.update(model.init(keys.key(0)), X, y)
    assert int(state.models.count) == 2
    assert int(state.models.each.born[1]) == 100
    assert info.weights[-1].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert_allclose(np.asarray(state.models.each.rows[:2]).sum(), 200)
    assert 2 * float(state.models.each.hyperparameters.variance[0]) < float(
        state.models.each.hyperparameters.variance[1]
    )


def test_thresholds_at_both_ends_make_one_model_and_one_of_every_batch():
    X, y = regimes()
    for threshold, count in ((np.inf, 1), (0.0, 6)):  # there is room for six
        model = build(threshold=threshold)
        assert int(model.update(model.init(keys.key(0)), X, y)[0].models.count) == count


def test_change_has_no_units_and_is_about_one_where_nothing_changes():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 6.0, (20, 1))
    y = np.sin(X) + 0.1 * rng.normal(size=X.shape)
    found = []
    for scale in (1.0, 50.0):
        batch = splitting.Batch(jnp.asarray(X), jnp.asarray(scale * y), jnp.ones(20, bool))
        models = build().init(keys.key(0)).models
        new = BatchOptimiser(0).begin(  # hyperparameters as the batch's own scale has them
            keys.key(1), batch, models[0], 0
        )
        assert new is not None
        again = splitting.Batch(jnp.asarray(X[::-1] + 0.05), jnp.asarray(scale * np.sin(X[::-1] + 0.05)), batch.mask)
        updated = BatchOptimiser(0).learn(keys.key(2), new, again)
        assert updated is not None
        found.append(float(relative_change(new, updated, new, again.X)))
    assert_allclose(found[0], found[1], rtol=1e-3)
    assert 0.01 < found[0] < 2.0


def test_a_candidate_whose_update_breaks_is_none_and_nothing_else_changes(monkeypatch):
    X, y = regimes(60)
    model = build(threshold=0.0)
    state, _ = model.update(model.init(keys.key(0)), X, y)
    assert int(state.models.count) == 3
    learn = BatchOptimiser.learn
    whole = replace(model, threshold=np.inf)
    expected, _ = whole.update(state, X[:20], y[:20])
    chosen = int(np.argmax(np.asarray(expected.models.each.rows) - np.asarray(state.models.each.rows)))
    broken: list[int] = []

    def fails(self: BatchOptimiser, key: Any, candidate: Any, batch: Any) -> Any:
        if int(candidate.born) == 20 * chosen:
            broken.append(chosen)
            return None
        return learn(self, key, candidate, batch)

    monkeypatch.setattr(BatchOptimiser, "learn", fails)
    after, info = whole.update(state, X[:20], y[:20])
    assert broken == [chosen]
    assert np.isfinite(np.asarray(info.predictive.mean)).all()
    before, now = jax.tree.leaves(state.models.each), jax.tree.leaves(after.models.each)
    same = [all(np.array_equal(a[j], b[j]) for a, b in zip(before, now, strict=True)) for j in range(3)]
    assert same[chosen]
    assert sum(same) == 2  # one other took the batch
    monkeypatch.setattr(BatchOptimiser, "learn", lambda *_: None)
    none, _ = whole.update(state, X[:20], y[:20])
    assert int(none.models.count) == 4  # no candidate at all: a new model
    monkeypatch.setattr(BatchOptimiser, "begin", lambda *_: None)
    lost, info = whole.update(state, X[:20], y[:20])
    assert int(lost.models.count) == 3
    assert np.isfinite(np.asarray(info.predictive.variance)).all()


def test_local_models_that_keep_their_rows_are_exact_and_let_the_oldest_go():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (40, 1))
    y = np.sin(2.0 * X)
    model = build("lgpr", num_inducing=30, threshold=0.0)
    state, _ = model.update(model.init(keys.key(0)), X, y)
    kept = np.sort(np.asarray(state.models.each.sparse.inducing[0, :, 0]))
    assert_allclose(kept, np.sort(X[10:, 0]))
    X_new = rng.uniform(-1.0, 1.0, (7, 1))
    got = model.predict(state, X_new)
    difference = X[10:] - X[10:].T
    K = np.exp(-0.5 * difference**2) + 0.05 * np.eye(30)
    k = np.exp(-0.5 * (X_new - X[10:].T) ** 2)
    assert_allclose(np.asarray(got.mean)[:, 0], k @ np.linalg.solve(K, y[10:, 0]), rtol=1e-6)
    assert_allclose(np.asarray(got.variance)[:, 0], 1.05 - np.sum(k * np.linalg.solve(K, k.T).T, axis=1), rtol=1e-6)


@pytest.fixture(scope="module")
def several() -> tuple[LocalGPs, Any]:
    X, y = regimes()
    model = build(threshold=0.0)
    return model, model.update(model.init(keys.key(0)), X, y)[0]


def each(state: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the models alive, one by one."""
    found = [state.models[j] for j in range(int(state.models.count))]
    means = [np.asarray(m.posterior.mean(m.hyperparameters, jnp.asarray(X)))[:, 0] for m in found]
    spreads = [
        np.asarray(m.posterior.variance(m.hyperparameters, jnp.asarray(X)) + m.hyperparameters.noise_var)
        for m in found
    ]
    return np.array(means), np.array(spreads)


def test_the_nearest_model_owns_the_nearest_inducing_input(several):
    model, state = several
    X = np.linspace(-1.0, 21.0, 9)[:, None]
    distance = np.abs(np.asarray(state.models.each.sparse.inducing)[:6, :, 0][..., None] - X[:, 0]).min(axis=1)
    owner = distance.argmin(axis=0)
    mean, var = each(state, X)
    got = model.predict(state, X)
    assert_allclose(np.asarray(got.mean)[:, 0], mean[owner, range(9)], rtol=1e-9)
    assert_allclose(np.asarray(got.variance)[:, 0], var[owner, range(9)], rtol=1e-9)


def test_a_product_of_experts_weighs_precisions_by_nats(several):
    model, state = several
    X = np.linspace(0.0, 20.0, 9)[:, None]
    mean, var = each(state, X)
    hyper = state.models.each.hyperparameters
    prior = np.asarray(hyper.variance + hyper.noise_var)[:6, None]
    nats = 0.5 * np.log(prior / var) + 1e-12
    strength = nats / nats.sum(axis=0)
    precision = (strength / var).sum(axis=0)
    got = replace(model, combination="precision").predict(state, X)
    assert_allclose(np.asarray(got.mean)[:, 0], (strength / var * mean).sum(axis=0) / precision, rtol=1e-7)
    assert_allclose(np.asarray(got.variance)[:, 0], 1.0 / precision, rtol=1e-7)


def test_the_five_nearest_centres_weigh_by_the_kernel(several):
    model, state = several
    X = np.linspace(0.0, 20.0, 9)[:, None]
    mean, _ = each(state, X)
    models = state.models.each
    scaled = (X - np.asarray(models.centre)[:6, 0]) / np.asarray(models.hyperparameters.lengthscales)[:6, 0]
    kernel = np.exp(-0.5 * scaled**2)
    kernel[np.arange(9), kernel.argmin(axis=1)] = 0.0  # of six models
    got = replace(model, combination="distance").predict(state, X)
    assert_allclose(np.asarray(got.mean)[:, 0], (kernel * mean.T).sum(1) / kernel.sum(1), rtol=1e-7)


def test_weights_by_past_predictions_are_those_of_fixed_share_by_hand(several):
    _, state = several
    X, y = regimes(60, seed=5)
    mean, var = each(state, X)
    density = np.exp(-0.5 * (y[:, 0] - mean) ** 2 / var) / np.sqrt(2.0 * np.pi * var)
    weights, used = np.full(6, 1.0 / 6.0), []
    for t in range(60):
        used.append(weights)
        after = weights * density[:, t] / (weights @ density[:, t])
        weights = (1.0 - combining.SWITCH) * after + combining.SWITCH * (1.0 - after) / 5.0
    models = LocalModels(state.models.each, state.models.count)
    log_weights, _, mixed, _ = combining.learn_weights(
        models, jnp.asarray(X), jnp.asarray(y), jnp.ones(60, bool), combining.initial_weights(6)
    )
    assert_allclose(mixed.weights, used, rtol=1e-6, atol=1e-9)
    assert_allclose(np.exp(log_weights), weights, rtol=1e-6)


def test_models_not_born_yet_have_no_weight_and_newcomers_get_their_share():
    X, y = regimes(100)
    model = build(combination="stream", threshold=0.0, max_models=6)
    state, info = model.update(model.init(keys.key(0)), X[:40], y[:40])
    assert_allclose(info.weights[20:40, 0], 1.0)
    _, info = model.update(state, X[40:60], y[40:60])
    assert (info.weights[:, 2:] == 0.0).all()
    assert_allclose(info.weights[0, :2], 0.5, rtol=0.2)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_every_combination_predicts_before_the_first_batch(combination):
    model = build(combination=combination)
    got = model.predict(model.init(keys.key(0)), np.zeros((3, 1)))
    assert_allclose(got.mean, 0.0, atol=1e-12)
    assert_allclose(got.variance, 1.1, rtol=1e-9)


def test_nothing_is_compiled_as_models_are_added():
    X, y = regimes(120)
    model = build(threshold=0.0)
    state, _ = model.update(model.init(keys.key(0)), X[:41], y[:41])
    state, _ = model.update(state, X[41:42], y[41:42])
    model.predict(state, X[:50])
    COMPILED.clear()
    state, _ = model.update(state, X[42:], y[42:])
    model.predict(state, X)
    assert int(state.models.count) == 6
    assert not COMPILED


HOSTILE = {
    "sorted": lambda rng: (np.sort(rng.normal(size=(120, 2)), axis=0), rng.normal(size=120)),
    "repeated": lambda rng: (np.repeat(rng.normal(size=(2, 2)), 60, axis=0), rng.normal(size=120)),
    "constant": lambda rng: (rng.normal(size=(120, 2)), np.zeros(120)),
    "constant inputs": lambda rng: (np.ones((120, 2)), rng.normal(size=120)),
    "a far jump": lambda rng: (
        rng.normal(size=(120, 2)) + 1e6 * (np.arange(120)[:, None] > 70),
        rng.normal(size=120) + 1e6 * (np.arange(120) > 70),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("method", ["ovfe", "wgpr", "solar-gp", "lgpr"])
def test_hostile_streams_give_numbers(method, kind):
    two = shared(2, 1e-3) if method == "lgpr" else None
    model = build(method, num_inputs=2, hyperparameters=two)
    for seed in range(2):
        X, y = HOSTILE[kind](np.random.default_rng(seed))
        state, info = model.update(model.init(keys.key(seed)), X, y[:, None])
        ahead = model.predict(state, X[::7])
        for made in (info.predictive, ahead):
            assert np.isfinite(np.asarray(made.mean)).all()
            assert (np.asarray(made.variance) > 0.0).all()
            assert np.isfinite(np.asarray(made.variance)).all()
