"""The range of transformed targets, against sorting, and what it leaves of a prediction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.likelihoods import Predictive
from streamgp.stream.target_range import FADE, MARGIN, RANK, TargetRange, limited

ROWS, TARGETS = 80, 2


def targets() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, TARGETS)).cumsum(axis=0)


def oracle(z: np.ndarray, flagged: np.ndarray) -> list[float]:
    """The ends for the row after these, of one target, by sorting."""
    known = np.sort(z[~flagged])
    if len(known) < RANK:
        return [-np.inf, np.inf]
    faded = FADE * np.arange(len(z))[::-1]
    return [min(known[RANK - 1], (z + faded).min()), max(known[-RANK], (z - faded).max())]


@pytest.mark.parametrize("some_flagged", [False, True])
def test_the_ends_are_those_of_sorted_targets(some_flagged: bool):
    z, flagged = targets(), np.zeros(ROWS, bool)
    flagged[::7] = some_flagged
    _, ends = TargetRange.empty(TARGETS).learn(z, flagged if some_flagged else None)
    for row in range(ROWS + 1):
        want = np.transpose([oracle(z[:row, e], flagged[:row]) for e in range(TARGETS)])
        assert_allclose(ends[row], want, rtol=1e-12)


def test_rows_and_chunks_of_any_size_give_the_same_range():
    z, flagged = targets(), np.arange(ROWS) % 9 == 4
    whole, ends = TargetRange.empty(TARGETS).learn(z, flagged)
    for cuts in (range(1, ROWS), [3, 50, 51]):
        part, found = TargetRange.empty(TARGETS), []
        for rows, flags in zip(np.split(z, cuts), np.split(flagged, cuts), strict=True):
            assert_allclose(part.ends, ends[[sum(map(len, found))]], rtol=1e-12)
            part, each = part.learn(rows, flags)
            found.append(each[:-1])
        assert_allclose(np.concatenate(found), ends[:-1], rtol=1e-12)
        assert_array_equal(part.furthest, whole.furthest)
        assert_allclose(part.latest, whole.latest, rtol=1e-12)


def test_a_target_never_moves_the_ends_before_it():
    z = targets()
    _, ends = TargetRange.empty(TARGETS).learn(z)
    z[40:] = 1e6
    _, other = TargetRange.empty(TARGETS).learn(z)
    assert_array_equal(ends[:41], other[:41])
    assert (ends[41:, 1] < other[41:, 1]).all()


def test_a_new_level_counts_at_once_and_two_glitches_are_forgotten():
    z = 0.1 * targets()[:, :1]
    usual, ends = TargetRange.empty(1).learn(z)
    after, of_glitch = usual.learn(np.concatenate([[[30.0]], z[-60:]]))
    assert of_glitch[1, 1] == 30.0
    assert_allclose(of_glitch[2, 1], 30.0 - FADE, rtol=1e-12)
    assert after.ends[0, 1] < ends[:, 1].max(where=np.isfinite(ends[:, 1]), initial=0.0) + 0.5
    again = after.learn(np.concatenate([[[40.0]], z[-80:]]))[0]
    assert_allclose(again.ends, after.ends, atol=0.5)
    level = after.learn(np.full((3, 1), 30.0))[0].learn(z[-80:])[0]
    assert level.ends[0, 1] == 30.0


def test_outliers_that_are_known_as_such_are_forgotten_however_many():
    z = 0.1 * targets()[:, :1]
    usual = TargetRange.empty(1).learn(z)[0]
    flagged = np.arange(ROWS) < 10
    after = usual.learn(np.where(flagged[:, None], -30.0, z), flagged)[0]
    assert_allclose(after.ends, usual.ends, atol=0.5)


def test_components_move_to_the_ends_and_keep_their_spread():
    loc = np.array([[-50.0, 0.5, 9.0], [0.0, 2.0, 700.0]])[:, :, None]
    p = Predictive(np.log(np.full((2, 3), 1.0 / 3.0)), loc, np.full((2, 3, 1), 4.0))
    known = TargetRange.empty(1).learn(np.array([[0.0], [1.0], [2.0], [-1.0], [0.5]]))[0]
    low, high = known.ends[0, :, 0]
    found = known.limit(p, np.array([1.0, 3.0]))
    margin = MARGIN * np.array([1.0, 3.0])[:, None, None]
    assert_allclose(found.loc, np.clip(loc, low - margin, high + margin))
    assert_array_equal(found.var, p.var)
    assert found.limits is not None
    assert_allclose(found.limits[:, :, 0], np.column_stack([low - margin[:, 0], high + margin[:, 0]]))


def test_too_few_targets_limit_nothing():
    p = Predictive(np.zeros((1, 1)), np.full((1, 1, 1), 99.0), np.ones((1, 1, 1)))
    known, ends = TargetRange.empty(1).learn(np.zeros((RANK - 1, 1)))
    assert np.isinf(ends).all()
    assert_array_equal(known.limit(p).loc, p.loc)
    assert np.isfinite(known.learn(np.zeros((1, 1)))[0].ends).all()


def test_the_range_of_one_target_is_as_if_it_had_been_alone():
    z = targets()
    both = TargetRange.empty(TARGETS).learn(z)[0].of_target(1)
    assert_array_equal(both.furthest, TargetRange.empty(1).learn(z[:, 1:])[0].furthest)
    assert_array_equal(both.ends, TargetRange.empty(1).learn(z[:, 1:])[0].ends)


def test_experts_that_failed_stay_without_a_number():
    p = Predictive(np.zeros((1, 1)), np.full((1, 1, 1), np.nan), np.ones((1, 1, 1)))
    assert np.isnan(limited(p, np.array([[[0.0], [1.0]]])).loc).all()
