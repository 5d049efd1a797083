"""Bounds of inputs: what is clipped, what widens them, and that chunks do not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from streamgp.numerics.checkpoint.encoding import decode, encode
from streamgp.stream.bounds import InputBounds

pytestmark = pytest.mark.slow


def seen(n: int = 200, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 2))


def test_a_range_and_its_width_on_either_side():
    X = np.array([[0.0, 5.0], [2.0, 5.0]])
    kept = InputBounds.of(X).clip(np.array([[4.0, 5.0], [4.5, 5.0], [-9.0, 5.0], [1.0, 5.1], [np.nan, 9.0]]))
    assert_array_equal(kept.X, [[4.0, 5.0], [4.0, 5.0], [-2.0, 5.0], [1.0, 5.0], [np.nan, 5.0]])
    assert_array_equal(kept.beyond.any(axis=1), [False, True, True, True, True])
    assert_array_equal(kept.doubtful, [[False, False]] * 5)


def test_a_glitch_in_the_warm_up_is_no_part_of_the_range():
    X = seen()
    X[7, 0], X[80, 1] = 1e9, -1e3
    assert np.abs(InputBounds.of(X).limits).max() < 3.1


def test_a_single_row_beyond_changes_nothing_however_far():
    bounds = InputBounds.of(seen())
    rows = seen(400, 1)
    rows[[50, 200, 350], 0] = 1e9
    after, kept = bounds.learn(rows)
    assert_array_equal(np.flatnonzero(kept.beyond.any(axis=1)), [50, 200, 350])
    assert np.abs(kept.X).max() < 3.1
    assert_array_equal(after.limits, bounds.limits)


def test_the_fifth_row_in_succession_is_a_change():
    bounds = InputBounds.of(seen())
    rows = seen(10, 1)
    rows[:, 1] = 100.0 + np.arange(10.0)
    after, kept = bounds.learn(rows)
    assert_array_equal(kept.beyond[:, 1], np.arange(10) < 5)
    assert_array_equal(kept.X[5:], rows[5:])
    assert after.edge[1] == 100.0  # as far as all five


def test_drift_is_followed_and_next_to_never_clipped():
    bounds = InputBounds.of(np.arange(100.0)[:, None])
    drift = np.arange(100.0, 100_000.0)[:, None]
    after, kept = bounds.learn(drift)
    assert kept.beyond.sum() < 100
    assert not kept.doubtful.any()
    assert np.abs(kept.X - drift).max() <= 5.0
    assert after.limits[0] > 100_000.0


@pytest.mark.parametrize(("period", "followed"), [(20, True), (100, False)])
def test_a_flag_that_begins_to_fire_is_followed_if_it_is_not_rare(period: int, followed: bool):
    rows = (np.arange(2000) % period == 0).astype(float)[:, None]
    after, kept = InputBounds.of(np.zeros((100, 1))).learn(rows)
    assert (after.limits[0] >= 1.0) == followed
    assert (kept.X[-200:].max() == 1.0) == followed


@pytest.mark.parametrize("code", [-9999.0, 99.9, -4.5])
@pytest.mark.parametrize("period", [1, 20])
def test_a_value_that_comes_again_stretches_nothing_and_is_in_doubt(code: float, period: int):
    bounds, rows = InputBounds.of(seen()), seen(400, 1)
    rows[::period, 0] = code
    after, kept = bounds.learn(rows)
    assert_array_equal(after.limits, bounds.limits)
    assert_array_equal(kept.beyond[:, 0], np.arange(400) % period == 0)
    assert_array_equal(kept.doubtful[1:], kept.beyond[1:])
    assert kept.doubtful[0, 0] == (abs(code) > 10.0)  # it was new


def test_several_codes_in_turn_stretch_nothing():
    bounds, rows = InputBounds.of(seen()), seen(600, 1)
    for at, code in enumerate((-9999.0, -999.0, -99.0, -8888.0)):
        rows[300 + at :: 4, 1] = code
    assert_array_equal(bounds.learn(rows)[0].limits, bounds.limits)


def test_values_far_out_are_in_doubt_until_they_are_a_change():
    bounds, rows = InputBounds.of(seen()), seen(10, 1)
    rows[:, 0] = 1000.0 + np.arange(10.0)
    after, kept = bounds.learn(rows)
    assert_array_equal(kept.doubtful[:, 0], np.arange(10) < 5)
    assert after.edge[0] == 1000.0


@pytest.mark.parametrize(("value", "followed"), [(5.0, True), (99.0, False)])
def test_in_a_column_of_levels_a_new_one_is_followed_but_not_a_code(value: float, followed: bool):
    levels = np.random.default_rng(0).integers(0, 3, (200, 1)).astype(float)
    after, kept = InputBounds.of(levels).learn(np.full((20, 1), value))
    assert (after.edge[0] == value) == followed
    assert kept.doubtful[-1, 0] == (not followed)


@pytest.mark.parametrize(("value", "followed"), [(-99.9, False), (-35.0, True)])
def test_in_a_column_of_rounded_readings_what_creeps_is_followed_but_not_a_code(value: float, followed: bool):
    readings = np.random.default_rng(0).uniform(0.0, 30.0, (1000, 1)).round(1)
    after, kept = InputBounds.of(readings).learn(np.full((20, 1), value))
    assert (after.edge[1] == -value) == followed
    assert kept.doubtful[-1, 0] == (not followed)


def test_a_counter_that_stays_for_many_rows_at_each_value_is_followed():
    hours = np.arange(200_000) // 24.0
    bounds = InputBounds.of(hours[:1000, None])
    after, kept = bounds.learn(hours[1000:, None])
    assert kept.beyond.sum() < 100
    assert after.limits[0] > hours[-1]


def test_past_targets_may_come_again():
    bounds = InputBounds.of(seen()).columns(slice(1, None), remembers=False)
    after, kept = bounds.learn(np.full((20, 1), 7.0))
    assert_array_equal(kept.beyond[:, 0], np.arange(20) < 5)
    assert after.edge[0] == 7.0


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 150), max_size=8), seed=st.integers(0, 2**32 - 1))
def test_however_rows_are_cut_the_outcome_is_the_same(cuts: list[int], seed: int):
    rng = np.random.default_rng(seed)
    bounds = InputBounds.of(seen())
    share = rng.choice([0.02, 0.1, 0.6])
    rows = rng.normal(size=(150, 2)) * np.where(rng.random((150, 2)) < share, 10.0, 1.0)
    rows = np.where(rng.random(rows.shape) < share, rng.choice([-99.0, 5.0, np.nan]), rows)
    whole, kept = bounds.learn(rows)
    parts = []
    for part in np.split(rows, sorted(cuts)):
        bounds, found = bounds.learn(part)
        parts.append(found)
    one_by_one = InputBounds.of(seen())
    for i, row in enumerate(rows):
        for all_rows, expected in zip(kept, one_by_one.clip(row[None]), strict=True):
            assert_array_equal(all_rows[i], expected[0])
        one_by_one = one_by_one.learn(row[None])[0]
    for each, expected in zip(zip(*parts, strict=True), kept, strict=True):
        assert_array_equal(np.concatenate(each), expected)
    for other in (bounds, one_by_one):
        for name in ("edge", "count", "least", "met"):
            assert_array_equal(getattr(other, name), getattr(whole, name))


def test_tails_are_light_unless_the_ends_lie_far_from_most_values():
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=1_000), rng.exponential(size=1_000), rng.standard_t(1.0, 1_000), np.ones(1_000)]
    upper, lower = np.split(np.asarray(InputBounds.of(np.stack(columns, axis=1)).lightness), 2)
    assert upper[0] == lower[0] == upper[1] == lower[1] == upper[3] == lower[3] == 1.0
    assert 0.0 < upper[2] < 0.5
    assert 0.0 < lower[2] < 0.5


def test_without_a_range_there_is_no_bound():
    rows = 1e9 * seen(20)
    after, kept = InputBounds.none(2).learn(rows)
    assert_array_equal(kept.X, rows)
    assert not kept.beyond.any()
    assert_array_equal(after.clip(rows[:0]).X, rows[:0])


def test_a_checkpoint_holds_it():
    rows = seen(6, 1) + 5.0
    bounds = InputBounds.of(seen()).learn(rows[:3])[0]
    restored = decode(*encode(bounds), {})
    assert_array_equal(restored.clip(rows).doubtful, np.arange(6)[:, None] < [3, 3])
    assert_array_equal(restored.learn(rows[3:])[0].limits, bounds.learn(rows[3:])[0].limits)
    assert restored.learn(rows[3:])[0].limits[0] > 6.0
