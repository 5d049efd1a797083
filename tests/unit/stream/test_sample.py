"""The sample of all rows: uniform, and the same however rows come."""

from itertools import pairwise

import numpy as np
import pytest

from streamgp.stream.rows import RawRows
from streamgp.stream.sample import LEAST, MOST, RowSample

N = 5 * MOST + 77


def numbered(start: int, stop: int, width: int = 2) -> RawRows:
    numbers = np.arange(start, stop, dtype=float)
    return RawRows(np.tile(numbers[:, None], (1, width)), -numbers[:, None], None)


def filled(cuts: list[int], flagged: np.ndarray | None = None) -> RowSample:
    sample = RowSample.empty(2, 1)
    for start, stop in pairwise(cuts):
        sample = sample.offer(numbered(start, stop), None if flagged is None else flagged[start:stop])
    return sample


@pytest.mark.parametrize("step", [1, 64, 1000, 3001])
def test_it_does_not_depend_on_how_rows_came(step: int):
    whole, parts = filled([0, N]), filled([*range(0, N, step), N])
    np.testing.assert_array_equal(whole.rows.X, parts.rows.X)
    np.testing.assert_array_equal(whole.rows.y, -parts.rows.X[:, :1])
    np.testing.assert_array_equal(whole.numbers, parts.rows.X[:, 0])
    assert whole.offered == parts.offered == N


def test_it_is_uniform():
    numbers = filled([0, N]).numbers
    assert len(numbers) == MOST and (np.diff(numbers) > 0).all()
    counts, _ = np.histogram(numbers, bins=8, range=(0, N))
    assert (np.abs(counts - MOST / 8) < 4.0 * np.sqrt(MOST / 8)).all()


def test_few_rows_are_all_there_and_flagged_ones_never():
    np.testing.assert_array_equal(filled([0, 300]).numbers, np.arange(300))
    flagged = np.arange(N) % 3 == 0
    for cuts in ([0, N], [*range(0, N, 64), N]):
        numbers = filled(cuts, flagged).numbers
        assert len(numbers) == MOST and (numbers % 3 != 0).all()


def test_of_wide_rows_there_are_fewer():
    assert RowSample.empty(20, 1).most == MOST
    assert RowSample.empty(5000, 1).most == LEAST


def test_a_part_of_it_is_uniform_too():
    part = filled([0, N]).first(64)
    assert len(part.numbers) == len(part.rows.X) == 64
    assert part.numbers[31] == pytest.approx(N / 2, abs=4.0 * N / 16)
