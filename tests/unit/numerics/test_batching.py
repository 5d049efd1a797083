import pytest

from streamgp.numerics.batching import (
    BATCH_SIZES,
    COMPILED_BATCH_SIZES,
    MIN_FILLED_LATER,
    MIN_FILLED_ROWS,
    split_batches,
)


@pytest.mark.parametrize("sizes", [BATCH_SIZES, COMPILED_BATCH_SIZES, COMPILED_BATCH_SIZES[:1]])
@pytest.mark.parametrize("min_filled", [MIN_FILLED_ROWS, MIN_FILLED_LATER])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 64, 65, 191, 192, 767, 768, 1000, 1024, 1100, 1800, 5000])
def test_pieces_hold_every_row_once_and_are_of_few_sizes(n, min_filled, sizes):
    cut = list(split_batches(n, sizes, min_filled))
    assert [row for rows, _ in cut for row in range(n)[rows]] == list(range(n))
    for rows, size in cut:
        assert size in sizes
        assert rows.stop - rows.start <= size
    # What is added to fill pieces up is little beside the whole, or they are few.
    added, are_few = sum(size for _, size in cut) - n, len(cut) <= 1 + n // BATCH_SIZES[0]
    assert added <= max(COMPILED_BATCH_SIZES[0], n // 3) or (min_filled == MIN_FILLED_LATER and are_few)
