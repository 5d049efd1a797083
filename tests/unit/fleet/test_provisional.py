"""Before the fit: what keys are taken to be like, whatever one of them, or one of their targets, is."""

from collections.abc import Callable

import numpy as np
import pytest

from streamgp.fleet.provisional import FIRST_KEYS, Provisional

KEYS, ROWS = 12, 70
Stream = Callable[[np.ndarray], None]


def normal(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, KEYS))


def learnt(y: np.ndarray) -> Provisional:
    found = Provisional()
    for row in y:
        for key, target in enumerate(row.tolist()):
            found.learn(key, target)
    return found


def stds(found: Provisional, keys: int = KEYS) -> np.ndarray:
    return np.sqrt([found.predict(key)[1] for key in range(keys)])


@pytest.mark.parametrize("seed", range(3))
def test_alike_keys_are_predicted_as_a_step_and_a_new_one_as_a_target(seed: int):
    found = learnt(normal(seed=seed))
    # A step is the difference of two targets. The standard error of a variance of n steps is some sqrt(3 / n).
    ratio = stds(found) ** 2 / 2.0
    assert abs(ratio.mean() - 1.0) < 4 * np.sqrt(3.0 / (ROWS * KEYS))
    mean, var = found.predict(KEYS)
    assert abs(mean) < 4 * np.sqrt(1.0 / KEYS)
    assert 0.5 < var < 2.0
    assert found.predict(-1) == (mean, var)


@pytest.mark.parametrize("at", [0, 1, 5, 10, ROWS - 1])
@pytest.mark.parametrize("size", [1e4, -1e4, 1e12, 1e99])
def test_a_glitch_is_not_a_change(at: int, size: float):
    y = normal()
    odd = y.copy()
    odd[at, 0] = size
    found, plain = learnt(odd), learnt(y)
    assert 1 / 1.5 < stds(found)[0] / stds(plain)[0] < 1.5
    np.testing.assert_allclose(stds(found)[1:], stds(plain)[1:], rtol=0.02)
    assert abs(found.predict(0)[0]) < 5.0
    for new, was in zip(found.predict(KEYS), plain.predict(KEYS), strict=True):
        assert abs(new - was) < 0.3


def test_a_glitch_leaves_the_next_predictions_as_they_were():
    y = normal()
    odd = y.copy()
    odd[40, 0] = 1e4
    found, plain = Provisional(), Provisional()
    for i in range(ROWS):
        if i > 40:
            off = found.predict(0)[0] - plain.predict(0)[0]
            assert abs(off) < (6.0 if i == 41 else 1e-9)  # the target before the glitch, and then the same ones
            assert found.predict(0)[1] < 2.25 * plain.predict(0)[1]
        for key in range(KEYS):
            found.learn(key, odd[i, key])
            plain.learn(key, y[i, key])


def test_glitches_in_several_keys():
    y = normal()
    for key in range(5):
        y[10 * key, key] = -(10.0 ** (3 + 2 * key))
    found = learnt(y)
    assert (stds(found) < 1.5 * np.sqrt(2.0)).all() and (stds(found) > np.sqrt(2.0) / 1.5).all()
    assert abs(found.predict(KEYS)[0]) < 1.5 and found.predict(KEYS)[1] < 4.0


@pytest.mark.parametrize("rows", [1, 2, 5, ROWS])
def test_a_key_that_lives_elsewhere_is_one_key(rows: int):
    y = normal(rows)
    y[:, 0] += 1e4
    found, plain = learnt(y), learnt(normal(rows))
    np.testing.assert_allclose(stds(found), stds(plain), rtol=0.6 if rows < ROWS else 0.1)
    assert abs(found.predict(0)[0] - 1e4) < 5.0
    mean, var = found.predict(KEYS)
    assert abs(mean) < 2.0 and var < 9.0


def test_keys_that_all_live_elsewhere_say_so_of_a_new_one():
    levels = 1e4 * np.random.default_rng(5).normal(size=KEYS)
    found = learnt(normal() + levels)
    mean, var = found.predict(KEYS)
    assert abs(mean) < 1e4 and 0.3 < np.sqrt(var) / 1e4 < 3.0
    np.testing.assert_allclose(stds(found), np.sqrt(2.0), rtol=0.4)


def test_scales_are_each_key_s_own():
    size = 10.0 ** np.linspace(-6, 6, KEYS)
    found = learnt(normal() * size)
    np.testing.assert_allclose(stds(found), np.sqrt(2.0) * size, rtol=0.5)
    two = learnt(normal() * np.where(np.arange(KEYS) < KEYS // 2, 1e-6, 1e6))
    np.testing.assert_allclose(stds(two), np.sqrt(2.0) * np.repeat([1e-6, 1e6], KEYS // 2), rtol=0.5)


def test_what_stands_still_is_predicted_to_stand_still():
    y = normal()
    y[:, 0] = 3.0
    found = learnt(y)
    assert found.predict(0)[0] == 3.0 and stds(found)[0] < 0.3
    y[20, 0] = 1e6
    odd = learnt(y)
    assert odd.predict(0)[0] == 3.0 and stds(odd)[0] < 1.5
    np.testing.assert_allclose(stds(odd)[1:], stds(found)[1:], rtol=0.02)
    still = learnt(np.full((20, KEYS), 3.0))
    mean, var = still.predict(0)
    assert mean == 3.0 and 0.0 < var <= 1.0  # nothing is known of any scale


def test_changes_are_followed():
    y = normal()
    y[30:, 0] += 1e4
    y[30:, 1] *= 100.0
    found = Provisional()
    for i, row in enumerate(y):
        if i >= 32:  # the second row shows that the first was none of its own
            assert abs(found.predict(0)[0] - 1e4) < 5.0
        if i == 42:
            assert 40.0 < np.sqrt(found.predict(1)[1]) < 400.0
        for key, target in enumerate(row.tolist()):
            found.learn(key, target)


def test_zeros_with_few_others_between_have_the_variance_that_they_have():
    rng = np.random.default_rng(0)
    y = (rng.random((200, KEYS)) < 0.05) * rng.exponential(10.0, size=(200, KEYS))
    found = learnt(y)
    steps = np.mean(np.diff(y, axis=0) ** 2)
    assert 0.3 < np.mean(stds(found) ** 2) / steps < 1.5


def test_the_first_keys_tell_what_all_have_in_common():
    found = Provisional()
    for _ in range(3):
        for key in range(FIRST_KEYS + 100):
            found.learn(key, float(key >= FIRST_KEYS) * 1e6)
    assert found.predict(FIRST_KEYS + 100)[0] == 0.0


def test_no_target_makes_anything_that_is_not_finite():
    rng = np.random.default_rng(1)
    found = Provisional()
    for i in range(400):
        key = int(rng.integers(5))
        mean, var = found.predict(key)
        assert np.isfinite(mean) and np.isfinite(var) and var > 0.0
        found.learn(key, float(rng.choice([0.0, 1e-99, 1.0, -1e100, 1e100, float(i)])))
