"""What stands for outliers among past targets: as much of their way as the rows after them bear out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.stream.lag_outliers import CONFIRMED, FAR_MEMORY, FAR_START, MAX_GROWTH, STEP, OutlierMemory
from streamgp.stream.lags import LaggedTargets

USUAL = np.array([[-3.0], [0.0], [5.0]])  # half of whose range is 4


def one(value: float) -> np.ndarray:
    return np.array([value])


def usual() -> OutlierMemory:
    return OutlierMemory.empty(1).with_usual(USUAL)


def after(size: float, part: float, expected: float | None, times: int = 1) -> OutlierMemory:
    """Return what is known after outliers from 1, when the next target and what was expected are off by parts."""
    memory = usual()
    for _ in range(times):
        memory, _ = memory.learn_outlier(one(1.0), one(1.0 + size))
        memory = memory.learn(one(1.0 + part * size), None if expected is None else one(1.0 + expected * size))
    return memory


def test_before_any_usual_target_the_prediction_stands_for_an_outlier():
    _, stands = OutlierMemory.empty(1).learn_outlier(one(2.0), one(7.0))
    assert_array_equal(stands, [2.0])


@pytest.mark.parametrize("away", [-4.0, 4.0 * MAX_GROWTH])
def test_what_could_be_a_usual_target_is_believed_from_the_start(away: float):
    _, stands = usual().learn_outlier(one(2.0), one(2.0 + away))
    assert_allclose(stands, [2.0 + away])


@pytest.mark.parametrize("away", [4.0 * MAX_GROWTH + 0.01, -100.0, 1e300, -np.inf])
def test_what_is_far_beyond_is_not_and_unlearns_nothing(away: float):
    memory, stands = usual().learn_outlier(one(2.0), one(2.0 + away))
    assert_array_equal(stands, [2.0])
    memory = memory.learn(one(2.3), one(2.3))
    assert_array_equal([memory.share, memory.reach], [[1.0], [4.0]])


def test_glitches_of_usual_size_are_believed_less_each_time():
    shares = [after(5.0, 0.0, 0.8, times).share[0] for times in (1, 2, 3, 10)]
    assert_allclose(shares, [1.0 - 0.8 * STEP, 1.0 - 1.6 * STEP, 1.0 - 2.4 * STEP, 0.0])


@pytest.mark.parametrize("size", [1.0, 2.0, 3.9])
def test_what_a_small_one_teaches_goes_by_its_square(size: float):
    assert_allclose(after(size, 0.0, 0.8).share, [1.0 - 0.8 * STEP * (size / 4.0) ** 2])


def test_the_share_comes_back_with_outliers_that_last():
    memory = after(5.0, 0.0, 1.0, times=10)
    memory, stands = memory.learn_outlier(one(0.0), one(4.0))
    assert_array_equal(stands, [0.0])
    memory = memory.learn(one(2.0), one(0.0))
    assert_allclose(memory.share, [0.5 * STEP])
    memory, _ = memory.learn_outlier(one(0.0), one(4.0))
    assert_allclose(memory.learn(one(9e9), one(0.0)).share, [1.5 * STEP])


@pytest.mark.parametrize(("slope", "lasting"), [(0.8, 0.4), (0.5, 0.5), (0.9, 0.7), (0.6, 0.9)])
def test_it_settles_where_the_squared_error_of_the_next_row_is_least(slope: float, lasting: float):
    memory = usual()
    for _ in range(200):
        memory, stands = memory.learn_outlier(one(0.0), one(5.0))
        memory = memory.learn(one(5.0 * lasting), slope * stands)
    best = min(np.linspace(0.0, 1.0, 1_001), key=lambda share: (lasting - slope * share) ** 2)
    assert_allclose(memory.share, [best], atol=2e-3)


def test_without_a_prediction_that_saw_it_the_target_itself_is_what_is_expected():
    assert_allclose(after(5.0, 0.6, None, times=50).share, [0.6])


@pytest.mark.parametrize(("part", "counts"), [(CONFIRMED - 0.01, False), (CONFIRMED + 0.01, True), (-1.0, False)])
def test_what_confirms_is_half_the_way_to_the_same_side(part: float, counts: bool):
    memory, _ = usual().learn_outlier(one(10.0), one(-90.0))
    memory = memory.learn(one(10.0 - 100.0 * part), one(10.0))
    assert_allclose(memory.reach, [4.0 * MAX_GROWTH if counts else 4.0])
    _, stands = memory.learn_outlier(one(0.0), one(14.0))
    assert bool(stands[0] > 0.0) is counts


def test_the_reach_grows_no_further_than_what_was_confirmed():
    memory, _ = usual().learn_outlier(one(0.0), one(5.0))
    assert_allclose(memory.learn(one(4.0), one(5.0)).reach, [5.0])


def test_glitches_that_confirm_each_other_by_chance_do_not_make_the_reach_grow():
    memory = usual()
    for _ in range(3):
        memory, _ = memory.learn_outlier(one(0.0), one(100.0))
        memory = memory.learn(one(0.1), one(0.0))
    assert_allclose(memory.far, [FAR_START * FAR_MEMORY**3])
    memory, _ = memory.learn_outlier(one(0.0), one(100.0))
    memory, stands = memory.learn_outlier(one(0.0), one(100.0), one(0.0))
    assert_array_equal([stands, memory.reach], [[0.0], [4.0]])


def test_only_the_next_row_tells():
    memory, _ = usual().learn_outlier(one(0.0), one(4.0))
    memory = memory.learn(one(4.0), one(4.0))
    assert not memory.is_waiting
    assert_array_equal(memory.learn(one(0.0), one(4.0)).share, [1.0])


def test_a_missing_target_tells_nothing():
    before = after(5.0, 0.4, 0.8, times=2)
    memory, stands = before.learn_outlier(one(1.5), one(np.nan))
    assert_array_equal(stands, [1.5])
    assert_array_equal(memory.learn(one(9.0), one(1.5)).share, before.share)
    memory, _ = before.learn_outlier(one(0.0), one(4.0))
    assert_array_equal(memory.learn(one(np.nan), one(3.0)).share, before.share)


def test_each_target_counts_for_itself():
    memory, stands = (
        OutlierMemory.empty(2).with_usual(USUAL.repeat(2, axis=1)).learn_outlier(np.zeros(2), np.array([5.0, 1000.0]))
    )
    assert_array_equal(stands, [5.0, 0.0])
    memory = memory.learn(np.array([0.0, 900.0]), np.array([5.0, 0.0]))
    assert_allclose(memory.share, [1.0 - STEP, 1.0])
    assert_allclose(memory.reach, [4.0, 4.0 * MAX_GROWTH])


@pytest.mark.parametrize(
    ("lags", "ahead", "share"), [((1,), 1, 1.0 - 0.5 * STEP), ((2,), 1, 1.0 - STEP), ((1,), 2, 1.0 - STEP)]
)
def test_a_prediction_tells_only_if_it_saw_what_stood_for_the_outlier(
    lags: tuple[int, ...], ahead: int, share: float
):
    past = LaggedTargets.empty(lags, 1)
    past = replace(past, outliers=usual())
    y, predicted = np.array([[5.0], [0.0]]), np.array([[0.0], [2.5]])
    _, outliers = past.standing_in(y, predicted, np.array([True, False]), ahead)
    assert_allclose(outliers.share, [share])
