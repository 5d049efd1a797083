import pytest

from streamgp.numerics.batching import COMPILED, PIECES, pieces


@pytest.mark.parametrize("sizes", [PIECES, COMPILED, COMPILED[:1]])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 64, 65, 767, 768, 1000, 1024, 1100, 1800, 5000])
def test_pieces_hold_every_row_once_and_are_of_few_sizes(n, sizes):
    cut = list(pieces(n, sizes))
    assert [row for rows, _ in cut for row in range(n)[rows]] == list(range(n))
    for rows, size in cut:
        assert size in sizes
        assert rows.stop - rows.start <= size
    # What is added to fill pieces up is little beside the whole.
    assert sum(size for _, size in cut) - n <= max(COMPILED[0], n // 3)
