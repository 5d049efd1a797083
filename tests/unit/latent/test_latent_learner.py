"""Latent variable models along a stream: chunks, causality, missing entries, neighbours, capacity."""

import sys
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.latent import LatentLearner, LatentSpec
from streamgp.latent.neighbours import Neighbours
from streamgp.latent.warmup import fill_gaps
from streamgp.numerics.checkpoint.encoding import decode, encode

pytestmark = pytest.mark.slow

SMALL = LatentSpec(warmup=30, lengthscales=(0.7, 1.4), n_features=20, batch_size=8, n_starts=2)


def circle(rows: int = 90, entries: int = 6) -> np.ndarray:
    """Rows on a closed curve in many dimensions, in random order, with a little noise."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, rows)
    truth = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return 3.0 + np.tanh(truth @ rng.normal(size=(2, entries))) + 0.02 * rng.normal(size=(rows, entries))


def learnt(spec: LatentSpec, Y: np.ndarray, chunks: int) -> tuple[LatentLearner, np.ndarray]:
    """The learner after all rows, and their places."""
    learner = LatentLearner(spec, Y.shape[1])
    parts = [part for i in range(0, len(Y), chunks) for part in learner.learn(Y[i : i + chunks])]
    return learner, np.concatenate([part.posterior.coordinates for part in parts])


@pytest.mark.parametrize("batch_size", [1, 8])
def test_it_does_not_matter_how_rows_are_cut_into_calls(batch_size):
    Y, spec = circle(45), replace(SMALL, batch_size=batch_size)
    whole, places = learnt(spec, Y, 45)
    for chunks in (1, 7):
        other, found = learnt(spec, Y, chunks)
        assert_allclose(found, places, rtol=1e-9, atol=1e-9)
        assert_allclose(other.log_weights, whole.log_weights, rtol=1e-9, atol=1e-9)
    assert whole.rows == 45
    whole.flush()
    assert whole.rows == len(whole.neighbours) == 45


@pytest.mark.parametrize("at", [20, 43])
def test_one_that_was_kept_goes_on_as_if_nothing_had_happened(at):
    Y = circle(60)
    through, places = learnt(SMALL, Y, 60)
    first, found = LatentLearner(SMALL, 6), []
    found += [part.posterior.coordinates for part in first.learn(Y[:at])]
    node, arrays = encode(first.to_tree())
    for other in (LatentLearner.from_tree(decode(node, arrays, {})), deepcopy(first)):
        rest = [part.posterior.coordinates for part in other.learn(Y[at:])]
        assert_allclose(np.concatenate([*found, *rest]), places, rtol=1e-9, atol=1e-9)
        assert_allclose(other.log_weights, through.log_weights, rtol=1e-9, atol=1e-9)


def test_rows_are_placed_without_those_that_come_after_and_explained():
    Y = circle()
    learner, places = learnt(SMALL, Y, 90)
    assert places.shape == (90, 2, 2)
    changed = Y.copy()
    changed[54:] += 1.0
    _, other = learnt(SMALL, changed, 90)
    assert_allclose(other[:54], places[:54])
    assert not np.allclose(other[54:], places[54:])
    mean, var = learner.reconstruct(places[60:, learner.leading])
    error = np.sqrt(np.mean(np.square(mean - Y[60:])))
    assert error < 0.1 * Y.std()
    assert 0.2 * error < np.sqrt(var.mean()) < 5.0 * error


def test_placing_learns_nothing():
    Y = circle()
    learner, _ = learnt(SMALL, Y[:60], 60)
    learner.flush()
    before = learner.log_weights.copy()
    first = learner.embed_rows(Y[60:75])
    assert_allclose(learner.embed_rows(Y[60:75]).posterior.coordinates, first.posterior.coordinates)
    assert np.array_equal(before, learner.log_weights)
    assert learner.rows == len(learner.neighbours) == 60


def test_missing_entries_move_a_place_little_and_are_filled_in():
    Y = circle()
    learner, _ = learnt(SMALL, Y[:80], 80)
    holes = Y[80:].copy()
    holes[np.arange(10), np.arange(10) % 6] = np.nan
    k = learner.leading
    whole, part = (learner.embed_rows(rows).posterior.coordinates[:, k] for rows in (Y[80:], holes))
    assert np.median(np.linalg.norm(whole - part, axis=1)) < 0.1
    filled, var = learner.reconstruct(part)
    gone = np.isnan(holes)
    assert np.abs(filled - Y[80:])[gone].mean() < 0.1
    assert (np.abs(filled - Y[80:])[gone] < 4.0 * np.sqrt(var)[gone]).mean() >= 0.8
    told = [*learner.learn(holes)]
    assert (
        all(np.isfinite(part.posterior.coordinates).all() for part in told) and np.isfinite(learner.log_weights).all()
    )


def test_neighbours_are_the_nearest_and_the_oldest_go():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(120, 5)).astype(np.float32)
    index = Neighbours(5, 100)
    assert index.add(rows[:60]) == 0
    squared = np.square(rows[60:70, None] - rows[None, :60]).sum(axis=2)
    assert np.array_equal(index.search(rows[60:70], 3), np.argsort(squared, axis=1)[:, :3])
    assert index.add(rows[60:]) == 70
    assert_allclose(index.rows, rows[70:])
    assert index.search(rows[119:], 1).tolist() == [[49]]
    few = Neighbours(5, 100)
    few.add(rows[:2])
    assert few.search(rows[:1], 4).tolist() == [[0, 1, 0, 0]]


def test_places_stay_with_their_rows_when_the_oldest_go():
    Y = circle()
    learner, places = learnt(replace(SMALL, max_neighbours=70), Y, 90)
    learner.flush()
    kept = len(learner.neighbours)
    assert kept < 70
    assert_allclose(learner.neighbours.coordinates, places[90 - kept :])


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ModuleNotFoundError, match=r"streamgp\[latent\]"):
        Neighbours(3, 10)


def test_gaps_of_the_warm_up_are_filled_in_by_what_the_others_say():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 7))
    seen = rng.random(truth.shape) > 0.2
    filled = fill_gaps(np.where(seen, truth, 0.0), seen, 2)
    assert np.array_equal(filled[seen], truth[seen])
    assert np.sqrt(np.mean((filled - truth)[~seen] ** 2)) < 0.3 * np.sqrt(np.mean(truth[~seen] ** 2))


def test_rows_without_gaps_do_not_care_for_those_with():
    Y = circle()
    learner, _ = learnt(SMALL, Y[:80], 80)
    mixed = Y[80:88].copy()
    mixed[[1, 4], 0] = np.nan
    whole, alone, both = (learner.embed_rows(some).posterior for some in (Y[80:88], mixed[1:2], mixed))
    rest = [0, 2, 3, 5, 6, 7]
    for found, expected, rows in ((both, whole, rest), (both, alone, [1])):
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one[rows], other[rows if len(other) > 1 else [0]], rtol=1e-6, atol=1e-8)


def test_after_the_warm_up_no_expert_has_gained_and_the_one_that_fits_best_leads():
    learner, _ = learnt(replace(SMALL, warmup=60), circle(60), 60)
    assert_allclose(learner.log_weights, -np.log(2.0))
    assert (
        learner.leading == int(np.argmax(learner.warmup_log_joint))
        and learner.warmup_log_joint[0] != learner.warmup_log_joint[1]
    )


def test_an_entry_that_comes_late_is_learnt_and_one_that_never_comes_is_not_made_up():
    Y = circle(300)
    Y[:150, 2] = np.nan
    Y[:, 2] += 50.0
    Y[:, 4] = np.nan
    learner, _ = learnt(SMALL, Y, 300)
    learner.flush()
    clean = circle(300)[240:]
    holes = clean.copy()
    holes[:, [2, 4]] = np.nan
    found, k = learner.embed_rows(holes).posterior, learner.leading
    mean, var = learner.reconstruct(found.coordinates[:, k], found.precision[:, k])
    error = mean[:, 2] - clean[:, 2] - 50.0
    assert np.sqrt(np.mean(error**2)) < 0.3 * clean[:, 2].std()
    assert np.mean(np.abs(error) < 1.645 * np.sqrt(var[:, 2])) > 0.75
    assert np.isnan(mean[:, 4]).all() and np.isfinite(mean[:, [0, 1, 2, 3, 5]]).all()


def test_bands_follow_the_errors_of_each_entry():
    rng = np.random.default_rng(6)
    noise = np.array([0.01, 0.01, 0.01, 0.01, 0.01, 0.1])
    Y = circle(400) + noise * rng.normal(size=(400, 6))
    learner, _ = learnt(SMALL, Y[:300], 300)
    places = learner.embed_rows(Y[300:]).posterior.coordinates[:, learner.leading]
    mean, var = learner.reconstruct(places)
    held = np.mean(np.abs(Y[300:] - mean) < 1.645 * np.sqrt(var), axis=0)
    assert (held > 0.75).all() and 0.8 < held.mean() < 0.97


def test_a_row_that_is_unlike_everything_stays_on_the_map():
    learner, _ = learnt(SMALL, circle(), 90)
    found = learner.embed_rows(1e6 * circle(9)).posterior
    assert (np.abs(found.coordinates) <= 10.0).all() and np.isfinite(found.log_density).all()
