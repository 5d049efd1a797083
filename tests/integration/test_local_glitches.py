"""Glitches among the targets of local models: drawn in, unless they are a change; the same in any chunks."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import SplittingGPRegressor, StreamingGPRegressor
from streamgp.research.sparse.glitches import TargetGuard, draw_in_rows, replace_glitches

pytestmark = pytest.mark.slow

INDUCING: dict[str, Any] = {"num_inducing": 12, "batch_size": 25, "max_models": 5, "steps": 8}
SMALL: dict[str, Any] = {"warmup": 60, **INDUCING}


def stream(rows: int = 300, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (rows, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=rows)


def errors(model: Any, X: np.ndarray, y: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of the rows from 160 on, each predicted before its batch of 25 is learnt."""
    model.partial_fit(X[:160], y[:160])
    found = []
    for i in range(160, len(X), 25):
        rows = slice(i, i + 25)
        found.append(model.predict(X[rows]) - truth[rows])
        model.partial_fit(X[rows], y[rows])
    return np.concatenate(found)


@pytest.mark.parametrize("name", ["ovfe", "lgpr", "wgpr by the stream"])
def test_one_absurd_target_costs_nothing(name):
    name, _, mixed = name.partition(" ")
    settings = SMALL | ({"max_models": 1} if name == "ovfe" else {}) | ({"combination": "stream"} if mixed else {})
    X, y = stream()
    spoiled = y.copy()
    spoiled[150] = 1e6
    clean, found = (errors(SplittingGPRegressor(name, **settings), X, targets, y) for targets in (y, spoiled))
    assert np.sqrt(np.mean(found[40:] ** 2)) < 1.1 * np.sqrt(np.mean(clean[40:] ** 2))


def test_a_regressor_with_such_a_model_has_it_on_demand():
    X, y = stream(200)
    y[150] = 1e6
    settings: dict[str, Any] = {"model": "ovfe", "warmup": 60, "features_per_basis": 12}
    assert np.abs(StreamingGPRegressor(**settings, robust=True).partial_fit(X, y).predict(X)).max() < 3.0
    assert np.abs(StreamingGPRegressor(**settings).partial_fit(X, y).predict(X)).max() > 5.0  # as in the paper


@pytest.mark.parametrize("combination", ["nearest", "stream"])
def test_chunks_single_rows_and_a_stop_give_the_same_numbers(tmp_path: Path, combination: str):
    X, y = stream(260)
    rng = np.random.default_rng(2)
    y += 30.0 * (rng.random(260) < 0.04) * rng.choice([-1.0, 1.0], 260)
    y[180:] += 5.0
    settings = SMALL | {"threshold": 1.0, "combination": combination}
    whole = SplittingGPRegressor(**settings).partial_fit(X, y)
    parts = SplittingGPRegressor(**settings)
    for rows in np.split(np.arange(183), [3, 60, 61, 130, 178]):
        parts.partial_fit(X[rows], y[rows])
    parts.save(tmp_path / "c")
    parts = SplittingGPRegressor.load(tmp_path / "c")
    for i in range(183, 260):
        parts.learn_one(X[i], y[i])
    for one, other in zip(whole.predict(X, return_std=True), parts.predict(X, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-9)
    assert_allclose(parts.weights_, whole.weights_, rtol=1e-9)
    assert parts.models_ == whole.models_


def test_a_jump_of_the_level_is_learnt_as_it_would_be_without():
    X, y = stream()
    y[190:] += 10.0
    robust, plain = (
        errors(SplittingGPRegressor("ovfe", **SMALL | {"max_models": 1}, robust=on), X, y, y) for on in (True, False)
    )
    assert_allclose(robust[:40], plain[:40], rtol=0.02, atol=0.02)  # the batch of the jump among them
    assert np.sqrt(np.mean(robust[-40:] ** 2)) < 1.05 * np.sqrt(np.mean(plain[-40:] ** 2)) + 0.01


def test_a_target_far_out_is_drawn_in_the_more_the_further():
    mean, var = jnp.zeros((4, 1)), jnp.full((4, 1), 4.0)
    y = jnp.array([[2.0], [20.0], [2e6], [7e7]])
    guard, drawn = draw_in_rows(TargetGuard.empty(1), mean, var, y, jnp.array([True, True, True, False]))
    # Errors in standard deviations: 1, 10 at a level of 1, 1e6 at a level of .9 + .1 * 16.
    assert_allclose(drawn[:3, 0], [2.0, 20.0 / (100.0 / 25.0), 2e6 / (1e12 / 2.5 / 25.0)], rtol=1e-6)
    assert_allclose(guard.level, [0.9 * 2.5 + 0.1 * 16.0 * 2.5], rtol=1e-12)


def test_five_in_a_row_are_a_change_across_batches_as_well():
    y = np.arange(1.0, 11.0)[:, None]

    def learnt(beyond: list[int], run: int = 0) -> tuple[list[int], int]:
        drawn = y.copy()
        drawn[beyond] = 0.0
        guard, targets = replace_glitches(TargetGuard(jnp.ones(1), jnp.asarray(run)), y, drawn)
        assert_array_equal(targets[targets != 0.0], y[targets != 0.0])
        return np.flatnonzero(targets == 0.0).tolist(), int(guard.run)

    assert learnt([]) == ([], 0)
    assert learnt([2, 5, 6, 7, 8]) == ([2, 5, 6, 7, 8], 0)
    assert learnt([0, 3, 4, 5, 6, 7]) == ([0], 0)
    assert learnt([0, 1], run=2) == ([0, 1], 0)
    assert learnt([0, 1, 9], run=3) == ([9], 1)
    assert learnt(list(range(10)), run=3) == ([], 13)
    assert learnt([7, 8, 9]) == ([7, 8, 9], 3)
