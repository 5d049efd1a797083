"""Whether predictions have become worse: found when they have, and hardly ever when they have not."""

from itertools import pairwise

import numpy as np
import pytest

from streamgp.stream.error_watch import BLOCK, ErrorWatch


def errors(n: int, seed: int, change: int | None = None, factor: float = 2.0) -> np.ndarray:
    """Return absolute errors of n rows, larger by a factor from the row `change` on."""
    drawn = np.abs(np.random.default_rng(seed).normal(size=n))
    if change is not None:
        drawn[change:] *= factor
    return drawn


@pytest.mark.parametrize("step", [1, 7, 256, 1024])
def test_how_rows_are_cut_does_not_matter(step: int):
    drawn = errors(4000, 0, change=3000)
    watch = ErrorWatch()
    for start, stop in pairwise([*range(0, len(drawn), step), len(drawn)]):
        watch = watch.learn(drawn[start:stop], start)
    assert watch == ErrorWatch().learn(drawn, 0)
    assert watch.changed_at


@pytest.mark.parametrize("seed", range(5))
def test_errors_that_double_are_a_change_after_the_first_block_of_them(seed: int):
    change = 12 * BLOCK
    assert ErrorWatch().learn(errors(change, seed), 0).changed_at == 0
    found = ErrorWatch().learn(errors(change + BLOCK, seed, change), 0)
    assert found.changed_at == change + BLOCK
    assert found.blocks == 0, "what is usual is learnt anew"


def test_errors_of_one_size_are_no_change():
    """In 200 streams of 40 blocks: at four standard deviations, and a quarter, next to never."""
    false = sum(ErrorWatch().learn(errors(40 * BLOCK, seed), 0).changed_at > 0 for seed in range(200))
    assert false <= 2


def test_errors_that_fall_are_no_change():
    assert ErrorWatch().learn(errors(30 * BLOCK, 1, 15 * BLOCK, factor=0.2), 0).changed_at == 0


def test_outliers_are_not_counted():
    drawn = errors(20 * BLOCK, 2)
    marked = drawn.copy()
    marked[15 * BLOCK :: 3] = np.nan
    assert ErrorWatch().learn(marked, 0).changed_at == 0
    marked[15 * BLOCK :] = np.nan
    assert ErrorWatch().learn(marked, 0).blocks == 15


def test_a_stream_that_varies_much_needs_more_to_be_a_change():
    """Blocks whose means differ by themselves: what doubles once in a while is usual."""
    drawn = errors(40 * BLOCK, 3).reshape(40, BLOCK)
    drawn[::3] *= 2.0
    assert ErrorWatch().learn(drawn.ravel(), 0).changed_at == 0
