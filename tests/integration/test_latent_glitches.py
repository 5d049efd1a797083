"""Absurd cells of latent variable models: taken to be missing, unless they are a change; columns that stand still."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info

from streamgp import StreamingGPLVM
from streamgp.latent import LatentLearner, LatentSpec, glitches
from streamgp.latent import initial_fit as module
from streamgp.numerics.checkpoint.encoding import decode, encode

pytestmark = pytest.mark.slow

SMALL = LatentSpec(warmup=60, lengthscales=(0.7, 1.4), n_features=30, batch_size=8, robust=True)


def closed_curve(rows: int = 240, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, 2.0 * np.pi, rows)
    Y = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle), np.sin(3 * angle)], axis=1)
    return Y + 0.02 * rng.normal(size=Y.shape)


ROWS, LATER = closed_curve(), closed_curve(60, 1)


def learnt(Y: np.ndarray, chunk: int = 1000, learner: LatentLearner | None = None) -> LatentLearner:
    learner = learner or LatentLearner(SMALL, Y.shape[1])
    for i in range(0, len(Y), chunk):
        list(learner.learn(Y[i : i + chunk]))
    return learner


def expected(learner: LatentLearner, Y: np.ndarray = LATER) -> tuple[np.ndarray, np.ndarray]:
    """Errors at the places of rows, and their standard deviations."""
    mean, var = learner.reconstruct(learner.embed_rows(Y).posterior.coordinates[:, learner.leading])
    return mean - Y, np.sqrt(var)


@cache
def clean() -> LatentLearner:
    """Return a learner of rows without an absurd cell, which learns nothing more."""
    return learnt(ROWS)


@pytest.mark.parametrize(("row", "cells"), [(150, [2]), (150, [0, 4]), (150, [0, 1, 2, 3, 4]), (30, [1])])
def test_absurd_cells_cost_nothing(row, cells):
    Y = ROWS.copy()
    Y[row, cells] = 1e6
    learner = learnt(Y)
    assert learner.glitches.sum() == len(cells) and (learner.glitches[cells] == 1).all()
    error, std = expected(learner)
    assert np.sqrt(np.mean(error**2)) < 1.15 * np.sqrt(np.mean(expected(clean())[0] ** 2))
    assert 0.2 < np.mean((error / std) ** 2) < 1.5
    assert_allclose(learner.log_weights, clean().log_weights, atol=500.0)  # where it is learnt, by 1e8 and more


def test_the_estimator_has_it_on_and_the_spec_has_it_off():
    Y = ROWS[:80].copy()
    Y[70, 2] = 1e6
    model = StreamingGPLVM(warmup=60, n_features=10).partial_fit(Y)
    assert model.glitches_.tolist() == [0, 0, 1, 0, 0]
    assert LatentSpec().robust is False  # as in the paper
    assert StreamingGPLVM(robust=False).partial_fit(Y)._learner.spec.robust is False


def test_an_absurd_cell_does_not_move_the_place_but_the_density():
    spoiled = LATER.copy()
    spoiled[:, 3] = 50.0
    usual, found = clean().embed_rows(LATER), clean().embed_rows(spoiled)
    assert_array_equal(found.glitches, np.arange(5)[None] == np.full((60, 1), 3))
    apart = np.linalg.norm((usual.posterior.coordinates - found.posterior.coordinates)[:, clean().leading], axis=1)
    assert np.median(apart) < 0.1
    assert (found.log_density < usual.log_density - 1e3).all()


def test_ordinary_rows_are_placed_and_learnt_as_without():
    plain = LatentLearner(LatentSpec(**vars(SMALL) | {"robust": False}), 5)
    learnt(ROWS[:130], learner=plain)
    robust = learnt(ROWS[:130])
    assert robust.glitches.sum() == 0
    assert_array_equal(plain.neighbours.coordinates, robust.neighbours.coordinates)
    assert_array_equal(plain.log_weights, robust.log_weights)


def test_a_column_with_another_level_is_learnt_from_its_fifth_row_on():
    Y = ROWS.copy()
    Y[150:, 3] += 50.0
    learner = learnt(Y[:154])
    assert learner.glitches.tolist() == [0, 0, 0, 4, 0]
    later = LATER + 50.0 * (np.arange(5) == 3)
    first = np.abs(expected(learner, later)[0][:, 3]).mean()
    learnt(Y[154:], learner=learner)
    plain = learnt(Y, learner=LatentLearner(LatentSpec(**vars(SMALL) | {"robust": False}), 5))
    robust, without = (np.abs(expected(model, later)[0][:, 3]).mean() for model in (learner, plain))
    # Both lie between 0.02 and 0.25 for any level and column: which is better is the chance of two searches.
    assert robust < without + 0.25 and robust < 0.5 * first


def test_chunks_and_a_stop_give_the_same_numbers():
    rng = np.random.default_rng(5)
    Y = ROWS[:150].copy()
    Y[70:] += 1e3 * (rng.random((80, 5)) < 0.01)
    Y[110:, 1] += 4.0
    whole = learnt(Y, 150)
    parts = learnt(Y[:113], 7)
    node, arrays = encode(parts.to_tree())
    parts = learnt(Y[113:], 1, LatentLearner.from_tree(decode(node, arrays, {})))
    assert whole.glitches.sum() > 4
    assert_array_equal(parts.glitches, whole.glitches)
    # A place is where a density is largest. Rounding of the density, 1e-16, leaves its root of the place.
    assert_allclose(parts.neighbours.coordinates, whole.neighbours.coordinates, rtol=1e-6, atol=1e-6)
    assert_allclose(parts.log_weights, whole.log_weights, rtol=1e-6, atol=1e-6)
    for one, other in zip(expected(parts), expected(whole), strict=True):
        assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("still", [[0, 1, 2, 3, 4], [3]])
def test_after_a_warm_up_in_which_nothing_moved_bands_are_honest(still):
    Y = ROWS.copy()
    Y[: SMALL.warmup, still] = [0.1, 0.3, 0.7, 1.1, 1.3][: len(still)]
    learner = learnt(Y)
    error, std = expected(learner)
    assert 0.1 < np.mean((error[:, still] / std[:, still]) ** 2) < 4.0
    assert np.sqrt(np.mean(error**2)) < 0.5


def test_rounding_is_no_scale():
    Y = ROWS.copy()
    Y[:60] = [0.1, 0.3, 0.7, 1.1, 1.3]  # whose mean is another number in the last digit
    learner = LatentLearner(LatentSpec(**vars(SMALL) | {"robust": False}), 5)
    learnt(Y[:60], learner=learner)
    assert_array_equal(learner.scale, 1.0)


def test_fits_keep_to_one_thread_of_blas(monkeypatch):
    threads = []
    fit = module.fit_coordinates

    def told(*args: Any, **more: Any) -> Any:
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return fit(*args, **more, steps=2)

    monkeypatch.setattr(module, "fit_coordinates", told)
    learnt(ROWS[:60])
    assert set(threads) == {1}


def test_of_a_row_the_worst_cell_is_taken_away_first():
    """Rows are expected to have equal cells: one that is off makes the others look off."""

    def expect(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(np.nanmean(rows, axis=1, keepdims=True), rows.shape), np.ones(rows.shape)

    rows = np.array(
        [
            [1.0, 1.1, 0.9, 1.0, 1.0],
            [1.0, 1e4, 1.0, 1.0, 0.9],
            [1.0, 1e4, 1.0, -300.0, 0.9],
            [0.0, 40.0, 80.0, 120.0, 160.0],  # new
            [np.nan, np.nan, 1e4, 1.0, 1.1],
        ]
    )
    found = glitches.find_glitches(rows, expect(rows), expect)
    assert found.astype(int).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
    ]
