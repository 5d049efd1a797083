"""Tests of batches: every row once, and no more sizes than may be."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from streamgp.numerics.batching import LARGEST, SMALL, TOGETHER, apply_in_batches, split_batches


@pytest.mark.parametrize("sizes", [(), (SMALL,), (SMALL, 1), (LARGEST, SMALL, 1)])
@given(n=st.integers(0, 5 * LARGEST))
def test_batches_hold_every_row_once(sizes: tuple[int, ...], n: int) -> None:
    cut = list(split_batches(n, sizes))
    assert [i for rows, _ in cut for i in range(n)[rows]] == list(range(n))
    for rows, size in cut:
        held = rows.stop - rows.start
        assert held <= size if sizes else held == size <= TOGETHER
        assert not sizes or size in sizes
    assert all(rows.stop - rows.start == size for rows, size in cut[:-1])
    assert len(cut) == -(-n // max(sizes, default=TOGETHER))  # as few as can be


@pytest.mark.parametrize("step", [1, 3, 7, 10])
def test_what_batches_return_is_joined(step: int) -> None:
    rows = np.arange(21.0).reshape(7, 3)
    seen = []

    def function(whole: dict[str, np.ndarray], numbers: np.ndarray, nothing: None) -> tuple[np.ndarray, np.ndarray]:
        seen.append(len(numbers))
        return whole["rows"] * numbers[:, None], numbers

    product, numbers = apply_in_batches(function, step, {"rows": rows}, np.arange(7.0), None)
    np.testing.assert_array_equal(product, rows * np.arange(7.0)[:, None])
    np.testing.assert_array_equal(numbers, np.arange(7.0))
    assert max(seen) == min(step, 7)
    assert sum(seen) == 7
