"""The reservoir: what it holds, however rows come."""

from itertools import pairwise

import numpy as np
import pytest

from streamgp.stream.reservoir import LATEST, SAMPLED, Reservoir
from streamgp.stream.rows import RawRows

N = 3 * (LATEST + SAMPLED) + 217


def numbered(start: int, stop: int, timed: bool = True) -> RawRows:
    """Return rows that tell their numbers."""
    numbers = np.arange(start, stop, dtype=float)
    return RawRows(np.stack([numbers, -numbers], axis=1), 2.0 * numbers[:, None], numbers if timed else None)


def filled(cuts: list[int], timed: bool = True) -> Reservoir:
    """Return a reservoir that took rows in parts."""
    reservoir = Reservoir.empty(2, 1, timed)
    for start, stop in pairwise(cuts):
        reservoir = reservoir.add(numbered(start, stop, timed))
    return reservoir


@pytest.mark.parametrize("n", [0, 1, LATEST, LATEST + 1, LATEST + SAMPLED, N])
def test_all_rows_are_there_until_it_is_full_and_the_latest_ones_always(n: int):
    rows = filled([0, n]).rows()
    numbers = rows.X[:, 0]
    assert len(numbers) == min(n, LATEST + SAMPLED)
    assert (np.diff(numbers) > 0).all()
    assert rows.times is not None
    np.testing.assert_array_equal(numbers[-LATEST:], np.arange(n)[-LATEST:])
    np.testing.assert_array_equal(rows.y[:, 0], 2.0 * numbers)
    np.testing.assert_array_equal(rows.times, numbers)


@pytest.mark.parametrize("step", [64, 1000, 5121])
def test_how_rows_are_cut_does_not_matter(step: int):
    whole, parts = filled([0, N]).rows(), filled([*range(0, N, step), N]).rows()
    np.testing.assert_array_equal(parts.X, whole.X)
    np.testing.assert_array_equal(parts.y, whole.y)


def test_every_row_is_as_likely_to_be_kept():
    """Counts in tenths of the stream are hypergeometric: within four standard deviations on either side."""
    old = N - LATEST
    counts = np.histogram(filled([0, N]).rows().X[:SAMPLED, 0], bins=10, range=(0, old))[0]
    share, tenth = SAMPLED / old, old / 10
    deviation = np.sqrt(tenth * share * (1.0 - share) * 0.9)
    assert (np.abs(counts - tenth * share) < 4.0 * deviation).all()
    assert counts.std() > 0.2 * deviation, "a sample at random is not even"


def test_it_keeps_copies_and_changes_nothing_in_place():
    rows = numbered(0, 100, timed=False)
    reservoir = Reservoir.empty(2, 1, timed=False).add(rows)
    later = reservoir.add(numbered(100, 200, timed=False))
    rows.X[:] = np.nan
    assert np.isfinite(reservoir.rows().X).all()
    assert len(reservoir.rows().X) == 100
    assert len(later.rows().X) == 200
    assert later.rows().times is None


def test_memory_is_bounded():
    reservoir = filled([*range(0, N, 61), N])
    assert len(reservoir.sample.X) + sum(len(part.X) for part in reservoir.latest) <= LATEST + SAMPLED + 1024 + 61
