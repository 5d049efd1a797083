"""What stands for outliers among past targets: their prediction, until rows after them have confirmed some."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.stream.lag_outliers import CONFIRMED, MAX_GROWTH, MEMORY, OutlierMemory


def one(value: float) -> np.ndarray:
    return np.array([value])


def confirmed(times: int, size: float = 5.0) -> OutlierMemory:
    """Return what is known after outliers of a size that the row after them confirmed."""
    memory = OutlierMemory.empty(1)
    for _ in range(times):
        memory, _ = memory.learn_outlier(one(1.0), one(1.0 + size))
        memory = memory.learn(one(1.0 + 0.9 * size))
    return memory


def test_at_first_the_prediction_stands_for_an_outlier():
    _, stands = OutlierMemory.empty(1).learn_outlier(one(2.0), one(1e9))
    assert_array_equal(stands, [2.0])


def test_glitches_are_never_believed():
    memory = OutlierMemory.empty(1)
    for size in np.linspace(5.0, 50.0, 40):
        memory, stands = memory.learn_outlier(one(2.0), one(2.0 + size))
        assert_array_equal(stands, [2.0])
        memory = memory.learn(one(2.3))


@pytest.mark.parametrize("times", [1, 4, 30])
def test_confirmed_outliers_are_believed_by_their_discounted_share(times: int):
    _, stands = confirmed(times).learn_outlier(one(0.0), one(-4.0))
    assert_allclose(stands, [-4.0 * (1.0 - MEMORY**times)])


def test_glitches_among_them_take_the_share_back():
    memory = confirmed(30)
    before = memory.share
    memory, _ = memory.learn_outlier(one(0.0), one(5.0))
    assert_allclose(memory.learn(one(0.1)).share, MEMORY * before)


def test_what_is_much_further_out_than_those_confirmed_is_not_believed():
    memory = confirmed(60, size=5.0)
    _, stands = memory.learn_outlier(one(1.0), one(1.0 - 5.0 * MAX_GROWTH))
    assert_allclose(stands, 1.0 - 5.0 * MAX_GROWTH * memory.share)
    for away in (5.0 * MAX_GROWTH + 0.01, 1e3, 1e300, -1e300, np.inf):
        _, stands = memory.learn_outlier(one(1.0), one(1.0 + away))
        assert_array_equal(stands, [1.0])


@pytest.mark.parametrize(("part", "counts"), [(CONFIRMED - 0.01, False), (CONFIRMED + 0.01, True), (-1.0, False)])
def test_what_confirms_is_half_the_way_to_the_same_side(part: float, counts: bool):
    memory, _ = OutlierMemory.empty(1).learn_outlier(one(10.0), one(4.0))
    assert bool(memory.learn(one(10.0 - 6.0 * part)).share > 0.0) is counts


def test_only_the_next_row_tells():
    memory, _ = OutlierMemory.empty(1).learn_outlier(one(0.0), one(4.0))
    assert_array_equal(memory.learn(one(0.0)).learn(one(4.0)).share, [0.0])


def test_a_missing_target_tells_nothing():
    memory, stands = confirmed(3).learn_outlier(one(1.5), one(np.nan))
    assert_array_equal(stands, [1.5])
    assert_array_equal(memory.learn(one(9.0)).share, confirmed(3).share)
    memory, _ = confirmed(3).learn_outlier(one(0.0), one(4.0))
    assert_array_equal(memory.learn(one(np.nan)).share, confirmed(3).share)


def test_each_target_counts_for_itself():
    memory, _ = OutlierMemory.empty(2).learn_outlier(np.zeros(2), np.array([1.0, 1000.0]))
    memory = memory.learn(np.array([0.9, 3.0]))
    assert_allclose(memory.share, [1.0 - MEMORY, 0.0])
    assert_allclose(memory.reach, [1.0, 0.0])
