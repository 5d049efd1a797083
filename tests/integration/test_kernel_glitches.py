"""Glitches among the targets of learners with many kernels: drawn in, unless they are a change."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPRegressor, evaluate
from streamgp.numerics import keys
from streamgp.research.multikernel import (
    MultiKernel,
    Raker,
    SquaredLoss,
    draw_features,
    falling,
    squared_exponentials,
)

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"warmup": 60, "features_per_basis": 20}


def stream(rows: int = 500, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (rows, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=rows)


def errors(targets: np.ndarray, **settings: Any) -> np.ndarray:
    X, y = stream()
    return evaluate(StreamingGPRegressor(**SETTINGS | settings), X, targets).mean - y


@pytest.mark.parametrize("name", ["raker", "sfg-mkl"])  # the guard stands before every learner
def test_one_absurd_target_costs_nothing(name):
    _, y = stream()
    spoiled = y.copy()
    spoiled[250] = 1e6
    clean, found = (errors(targets, model=name, robust=True)[300:] for targets in (y, spoiled))
    # Draws hang on weights: those that come after are not the same.
    assert np.sqrt(np.mean(found**2)) < 1.15 * np.sqrt(np.mean(clean**2))


def test_papers_models_have_it_off():
    _, y = stream()
    y[250] = 1e6
    assert np.abs(errors(y, model="raker"))[300:].mean() > 0.5


def test_a_glitch_moves_a_model_less_the_further_out_it_is_and_five_are_a_change():
    with jax.enable_x64(True):
        bank = draw_features(squared_exponentials([0.5, 2.0]), 1, 20, keys.key(0))
        plain = MultiKernel(Raker(bank, SquaredLoss(2), falling()), ("a", "b"), 1)
        robust = MultiKernel(Raker(bank, SquaredLoss(2), falling()), ("a", "b"), 1, robust=True)
        X = jnp.asarray(np.random.default_rng(0).normal(size=(30, 1)))
        y = jnp.concatenate([jnp.sin(X), 0.3 * X], axis=1)
        state, _ = robust.update(robust.init(keys.key(0)), X, y)
        for one, other in zip(
            *(jax.tree.leaves(m.update(m.init(keys.key(0)), X, y)[0]) for m in (plain, robust)), strict=True
        ):
            assert_array_equal(one, other)  # of ordinary rows nothing is changed
        x = jnp.zeros((1, 1))
        before = robust.predict(state, x)
        moved = []
        for size in (20.0, 200.0, 2e6):
            after, _ = robust.update(state, x, before.mean + jnp.array([[size * float(before.std[0, 0]), 0.0]]))
            moved.append(np.abs(robust.predict(after, x).mean - before.mean)[0] / before.std[0])
            assert after.beyond.tolist() == [1, 0]
            assert_allclose(after.error[0] / state.error[0], 1.0 + (36.0 - 1.0) / 32.0, rtol=1e-9)
        assert moved[0][0] > 5.0 * moved[1][0] > 25.0 * moved[2][0]
        assert max(m[1] for m in moved) < 0.05  # the other target was as expected
        changed, _ = robust.update(state, jnp.zeros((6, 1)), jnp.broadcast_to(before.mean + 1e3, (6, 2)))
        assert robust.predict(changed, x).mean[0, 0] > 100.0


def test_chunks_single_rows_and_a_stop_give_the_same_numbers(tmp_path: Path):
    X, y = stream(260)
    rng = np.random.default_rng(2)
    y += 30.0 * (rng.random(260) < 0.04) * rng.choice([-1.0, 1.0], 260)
    y[180:] += 8.0
    settings = SETTINGS | {"model": "omkl-gf", "robust": True}
    whole = StreamingGPRegressor(**settings).partial_fit(X, y)
    parts = StreamingGPRegressor(**settings)
    for rows in np.split(np.arange(182), [3, 60, 61, 130]):
        parts.partial_fit(X[rows], y[rows])
    parts.save(tmp_path / "c")
    parts = StreamingGPRegressor.load(tmp_path / "c")
    for i in range(182, 260):
        parts.learn_one(X[i], y[i])
    for one, other in zip(whole.predict(X, return_std=True), parts.predict(X, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-9)


def test_a_jump_of_the_level_is_followed_as_it_is_without():
    _, y = stream()
    y[250:] += 10.0
    X, truth = stream()
    truth[250:] += 10.0
    found = {}
    for robust in (False, True):
        mean = evaluate(StreamingGPRegressor("raker", **SETTINGS, robust=robust), X, y).mean
        found[robust] = np.sqrt(np.convolve(np.square(mean - truth)[250:], np.ones(20) / 20, "valid"))
    # Four rows are taken for glitches, and not one more.
    assert (found[True][5:] < 1.1 * found[False][:-5] + 0.05).all()
