"""Bounds of inputs: what is clipped, what widens them, and that chunks do not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from streamgp.checkpoint.encoding import decode, encode
from streamgp.stream.bounds import InputBounds

pytestmark = pytest.mark.slow


def seen(n: int = 200, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 2))


def test_a_range_and_its_width_on_either_side():
    X = np.array([[0.0, 5.0], [2.0, 5.0]])
    clipped, beyond = InputBounds.of(X).clip(np.array([[4.0, 5.0], [4.5, 5.0], [-9.0, 5.0], [1.0, 5.1]]))
    assert_array_equal(clipped, [[4.0, 5.0], [4.0, 5.0], [-2.0, 5.0], [1.0, 5.0]])
    assert_array_equal(beyond, [False, True, True, True])


def test_a_glitch_in_the_warm_up_is_no_part_of_the_range():
    X = seen()
    X[7, 0], X[80, 1] = 1e9, -1e3
    assert np.abs(InputBounds.of(X).limits).max() < 3.1


def test_a_single_row_beyond_changes_nothing_however_far():
    bounds = InputBounds.of(seen())
    rows = seen(400, 1)
    rows[[50, 200, 350], 0] = 1e9
    after, clipped, beyond = bounds.learn(rows)
    assert_array_equal(np.flatnonzero(beyond), [50, 200, 350])
    assert np.abs(clipped).max() < 3.1
    assert_array_equal(after.limits, bounds.limits)


def test_the_fifth_row_in_succession_is_a_change():
    bounds = InputBounds.of(seen())
    rows = seen(10, 1)
    rows[:, 1] = 100.0 + np.arange(10.0)
    after, clipped, beyond = bounds.learn(rows)
    assert_array_equal(beyond, np.arange(10) < 5)
    assert_array_equal(clipped[5:], rows[5:])
    assert after.edge[1] == 100.0  # as far as all five


def test_drift_is_followed_and_next_to_never_clipped():
    bounds = InputBounds.of(np.arange(100.0)[:, None])
    drift = np.arange(100.0, 100_000.0)[:, None]
    after, clipped, beyond = bounds.learn(drift)
    assert beyond.sum() < 100
    assert np.abs(clipped - drift).max() <= 5.0
    assert after.limits[0] > 100_000.0


@pytest.mark.parametrize(("period", "followed"), [(20, True), (100, False)])
def test_a_flag_that_begins_to_fire_is_followed_if_it_is_not_rare(period: int, followed: bool):
    rows = (np.arange(2000) % period == 0).astype(float)[:, None]
    after, clipped, _ = InputBounds.of(np.zeros((100, 1))).learn(rows)
    assert (after.limits[0] >= 1.0) == followed
    assert (clipped[-200:].max() == 1.0) == followed


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 150), max_size=8), seed=st.integers(0, 2**32 - 1))
def test_however_rows_are_cut_the_outcome_is_the_same(cuts: list[int], seed: int):
    rng = np.random.default_rng(seed)
    bounds = InputBounds.of(seen())
    share = rng.choice([0.02, 0.1, 0.6])
    rows = rng.normal(size=(150, 2)) * np.where(rng.random((150, 2)) < share, 10.0, 1.0)
    whole, clipped, beyond = bounds.learn(rows)
    parts = []
    for part in np.split(rows, sorted(cuts)):
        bounds, *found = bounds.learn(part)
        parts.append(found)
    one_by_one = InputBounds.of(seen())
    for i, row in enumerate(rows):
        expected, out = one_by_one.clip(row[None])
        assert_array_equal(clipped[i], expected[0])
        assert beyond[i] == out[0]
        one_by_one = one_by_one.learn(row[None])[0]
    assert_array_equal(np.concatenate([part[0] for part in parts]), clipped)
    assert_array_equal(np.concatenate([part[1] for part in parts]), beyond)
    for other in (bounds, one_by_one):
        for name in ("edge", "count", "least"):
            assert_array_equal(getattr(other, name), getattr(whole, name))


def test_without_a_range_there_is_no_bound():
    rows = 1e9 * seen(20)
    after, clipped, beyond = InputBounds.none(2).learn(rows)
    assert_array_equal(clipped, rows)
    assert not beyond.any()
    assert_array_equal(after.clip(rows[:0])[0], rows[:0])


def test_a_checkpoint_holds_it():
    rows = seen(3, 1) + 50.0
    bounds = InputBounds.of(seen()).learn(rows)[0]
    restored = decode(*encode(bounds), {})
    assert_array_equal(restored.learn(rows)[0].limits, bounds.learn(rows)[0].limits)
    assert restored.learn(rows)[0].limits[0] > 50.0
