"""Tests of random keys: those of JAX, by name and by branch."""

import jax
import numpy as np
import pytest

from streamgp.numerics import keys

SEEDS = (0, 1, 7, 2**31, 2**40 + 3, -1)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_their_branches_are_those_of_jax(seed: int) -> None:
    ours, theirs = keys.key(seed), jax.random.key(seed)
    np.testing.assert_array_equal(ours, jax.random.key_data(theirs))
    for number in (0, 1, 2_000, 2**32 - 1):
        branch = jax.random.fold_in(theirs, np.uint32(number))
        np.testing.assert_array_equal(keys.fold_in(ours, number), jax.random.key_data(branch))
    for count in (1, 2, 5):
        np.testing.assert_array_equal(keys.split(ours, count), jax.random.key_data(jax.random.split(theirs, count)))


def test_branches_draw_apart() -> None:
    draws = [keys.generator(keys.fold_in(keys.key(3), i)).normal(size=500) for i in range(20)]
    related = np.corrcoef(draws) - np.eye(20)
    assert np.abs(related).max() < 0.25
