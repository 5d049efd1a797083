"""The running standardiser against NumPy's mean and standard deviation of all rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.numerics.standardise import Standardiser, far_out, robust_standardiser


def after(blocks: list[np.ndarray]) -> Standardiser:
    standardiser = Standardiser.empty(blocks[0].shape[1])
    for block in blocks:
        standardiser = standardiser.update(block)
    return standardiser


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=8), seed=st.integers(0, 2**32 - 1))
def test_equals_numpy_for_any_cut_into_blocks(cuts: list[int], seed: int) -> None:
    X = np.random.default_rng(seed).normal([0.0, 5.0, -3e3], [1.0, 1e-3, 1e4], (200, 3))
    standardiser = after(np.split(X, sorted(cuts)))
    assert standardiser.count == 200
    np.testing.assert_allclose(standardiser.mean, X.mean(0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(standardiser.scale, X.std(0), rtol=1e-11)
    expected = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(standardiser.transform(X), expected, rtol=1e-9, atol=1e-9)


def test_order_of_blocks_does_not_matter() -> None:
    blocks = np.split(np.random.default_rng(0).exponential(size=(300, 2)) * [1.0, 1e6], [1, 5, 100])
    one, other = after(blocks), after(blocks[::-1])
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-13)
    np.testing.assert_allclose(one.scale, other.scale, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_small_noise_on_a_huge_offset(size: int) -> None:
    """The exact answer by fractions; a sum of squares would keep no digit of it (1e18 against 1e-4)."""
    X = 1e9 + 1e-2 * np.random.default_rng(1).normal(size=(1000, 1))
    exact = [Fraction(float(x)) for x in X[:, 0]]
    mean = sum(exact) / 1000
    variance = sum((x - mean) ** 2 for x in exact) / 1000
    standardiser = after(np.split(X, range(size, 1000, size)))
    assert abs(float(Fraction(float(standardiser.mean[0])) - mean)) < 1e-6
    np.testing.assert_allclose(standardiser.scale[0], float(variance) ** 0.5, rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -1e-300])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_constant_columns_have_scale_one(value: float, size: int) -> None:
    X = np.full((100, 1), value)
    standardiser = after(np.split(X, range(size, 100, size)))
    np.testing.assert_array_equal(standardiser.scale, [1.0])
    np.testing.assert_allclose(standardiser.transform(X), 0.0, atol=1e-6)


def test_rounding_noise_counts_as_constant_but_a_real_spread_does_not() -> None:
    noise = np.where(np.arange(100) % 2, 1.0, -1.0)[:, None]
    below, above = after([0.3 + 1e-16 * noise]), after([0.3 + 1e-13 * noise])
    assert below.scale[0] == 1.0
    np.testing.assert_allclose(above.scale, [1e-13], rtol=1e-2)


def test_before_two_rows_the_scale_is_one() -> None:
    empty = Standardiser.empty(2)
    X = np.array([[3.0, -4.0]])
    np.testing.assert_array_equal(empty.transform(X), X)
    one = empty.update(X)
    np.testing.assert_array_equal(one.scale, [1.0, 1.0])
    np.testing.assert_array_equal(one.transform(X + 2.0), [[2.0, 2.0]])


def test_far_values_are_clipped() -> None:
    standardiser = after([np.array([[0.0], [2.0]])])
    np.testing.assert_array_equal(
        standardiser.transform(np.array([[1e9], [-1e9], [900.0]])), [[1e3], [-1e3], [899.0]]
    )


def test_update_is_pure() -> None:
    first = after([np.array([[1.0], [2.0]])])
    X = np.array([[5.0]])
    first.update(X)
    assert (float(first.count), float(first.mean[0]), float(first.m2[0]), X[0, 0]) == (2.0, 1.5, 0.5, 5.0)
    assert first.update(np.empty((0, 1))) is first


class TestRobust:
    """What a glitch does to the scale, and what is none."""

    @staticmethod
    def plain(X: np.ndarray) -> Standardiser:
        return Standardiser.empty(X.shape[1]).update(X)

    @pytest.mark.parametrize("value", [1e3, -1e9, 1e150])
    @pytest.mark.parametrize("rows", [1, 4])
    def test_glitches_leave_the_others_scale_as_it_was(self, value: float, rows: int):
        X = np.random.default_rng(0).normal([0.0, 1e6], [1.0, 0.1], (400, 2))
        clean = self.plain(X[rows:])
        X[:rows] = value
        found = robust_standardiser(X)
        np.testing.assert_allclose(found.mean, clean.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.scale, clean.scale, rtol=1e-9)
        assert self.plain(X).scale[0] > 20.0  # without it

    @pytest.mark.parametrize("n", [1, 8, 50, 1000])
    def test_where_nothing_is_far_out_it_is_the_plain_one(self, n: int):
        rng = np.random.default_rng(n)
        pulses = np.where(rng.random(n) < 0.03, rng.exponential(10.0, n), 0.0)
        flag = (np.arange(n) == n // 2).astype(float)
        rare = (rng.random(n) < 0.02).astype(float)
        resting = np.where(rng.random(n) < 0.05, 10.0, 1e-3 * rng.normal(size=n))
        X = np.column_stack(
            [
                rng.normal(size=n),
                rng.exponential(size=n),
                np.ones(n),
                pulses,
                flag,
                rare,
                rng.standard_t(3, n),
                resting,
            ]
        )
        found, plain = robust_standardiser(X), self.plain(X)
        for name in ("count", "mean", "m2"):
            np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))

    def test_a_glitch_among_pulses_is_found(self):
        rng = np.random.default_rng(0)
        pulses = np.where(rng.random(1000) < 0.03, rng.exponential(10.0, 1000), 0.0)[:, None]
        clean = self.plain(pulses)
        pulses[5] = 1e6
        np.testing.assert_allclose(robust_standardiser(pulses).scale, clean.scale, rtol=0.01)

    def test_few_values_of_heavy_tails_are_far(self):
        X = np.random.default_rng(0).standard_t(2, (20_000, 1))
        assert far_out(X).mean() < 1e-3
