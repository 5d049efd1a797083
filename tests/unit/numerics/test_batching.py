import pytest

from streamgp.numerics.batching import BATCH_SIZES, COMPILED_BATCH_SIZES, split_batches


@pytest.mark.parametrize("sizes", [BATCH_SIZES, COMPILED_BATCH_SIZES, COMPILED_BATCH_SIZES[:1]])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 64, 65, 767, 768, 1000, 1024, 1100, 1800, 5000])
def test_pieces_hold_every_row_once_and_are_of_few_sizes(n, sizes):
    cut = list(split_batches(n, sizes))
    assert [row for rows, _ in cut for row in range(n)[rows]] == list(range(n))
    for rows, size in cut:
        assert size in sizes
        assert rows.stop - rows.start <= size
    # What is added to fill pieces up is little beside the whole.
    assert sum(size for _, size in cut) - n <= max(COMPILED_BATCH_SIZES[0], n // 3)
