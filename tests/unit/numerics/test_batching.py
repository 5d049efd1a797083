"""Tests of batches: every row once, and no more sizes than may be."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from streamgp.numerics.batching import LARGEST, SMALL, split_batches


@pytest.mark.parametrize("sizes", [(), (SMALL,), (SMALL, 1), (LARGEST, SMALL, 1)])
@given(n=st.integers(0, 5 * LARGEST))
def test_batches_hold_every_row_once(sizes: tuple[int, ...], n: int) -> None:
    cut = list(split_batches(n, sizes))
    assert [i for rows, _ in cut for i in range(n)[rows]] == list(range(n))
    for rows, size in cut:
        held = rows.stop - rows.start
        assert held <= size if sizes else held == size <= LARGEST
        assert not sizes or size in sizes
    assert all(rows.stop - rows.start == size for rows, size in cut[:-1])
    assert len(cut) == -(-n // max(sizes, default=LARGEST))  # as few as can be
