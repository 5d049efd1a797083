"""The prediction of boosted trees as a feature: scikit-learn's own, on rows that the trees have not seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.bases import Boosted
from streamgp.bases.boosted import LEARNING_RATE, LEAVES, MIN_ROWS, held_out
from streamgp.numerics import keys

KEY = keys.key(4)
N, D = 400, 3


def table(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and two targets."""
    X = np.random.default_rng(seed).normal(size=(n, D))
    return X, np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2], np.abs(X[:, 2])], axis=1)


def built(X: np.ndarray, y: np.ndarray, start: float = 1.0) -> Boosted:
    """Return a basis of 20 trees for each target."""
    return Boosted.from_data(X, num_features=20, start=start, key=KEY, y=y)


@pytest.mark.parametrize("start", [1.0, 1.5])
def test_it_says_what_scikit_learns_trees_say(start: float):
    X, y = table()
    kept = np.setdiff1d(np.arange(N), held_out(N))
    seed = int(keys.generator(np.asarray(jax.random.key_data(KEY))).integers(2**32, dtype=np.uint32))
    new = np.vstack([table(300, 1)[0], [[50.0, -50.0, 0.0]], X[:5]])
    found = np.asarray(built(X, y, start)(jnp.asarray(new)))
    assert found.shape == (len(new), D + 3)
    np.testing.assert_array_equal(found[:, : D + 1], np.c_[np.ones(len(new)), new])
    for target in range(2):
        trees = HistGradientBoostingRegressor(
            max_iter=20,
            max_leaf_nodes=LEAVES,
            min_samples_leaf=MIN_ROWS,
            learning_rate=start * LEARNING_RATE,
            early_stopping=False,
            random_state=seed,
        ).fit(X[kept], y[kept, target])
        np.testing.assert_allclose(found[:, D + 1 + target], trees.predict(new), rtol=1e-12, atol=1e-12)


def test_numpy_and_jax_and_a_stack_of_them_agree():
    X, y = table()
    one, other = (jax.tree.map(np.asarray, built(X, y, start)) for start in (1.0, 1.5))
    stack = jax.tree.map(lambda *a: np.stack(a), one, other)
    new = table(50, 2)[0]
    for basis, found in zip((one, other), stack(new), strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, np.asarray(basis(jnp.asarray(new))), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 8, 15, N])
def test_rows_that_are_held_out_teach_the_trees_nothing(n: int):
    X, y = table(n)
    apart = held_out(n)
    assert 0 < len(apart) <= max(1, n // 4)
    if n < 8:
        return
    moved = y.copy()
    moved[apart] = 1e3
    new = table(50, 2)[0]
    np.testing.assert_array_equal(built(X, y)(new), built(X, moved)(new))
    assert isinstance(built(X, y).honest_rows(n), np.ndarray)


def test_rows_that_are_held_out_lie_together_in_blocks():
    """Between neighbours in time there are trees that have seen the next row, which says too much."""
    apart = held_out(1_000)
    assert 0.1 < len(apart) / 1_000 < 0.2
    blocks = np.split(apart, np.flatnonzero(np.diff(apart) > 1) + 1)
    assert {len(block) for block in blocks} == {1_000 // 56}
    assert len(blocks) == 8


def test_few_rows_make_trees_without_a_split():
    X, y = table(12)
    found = np.asarray(built(X, y)(table(5, 1)[0]))[:, D + 1 :]
    np.testing.assert_allclose(found, np.tile(np.delete(y, held_out(12), axis=0).mean(axis=0), (5, 1)))


def test_targets_are_needed():
    with pytest.raises(ValueError, match=r"Boosted\.from_data: expected targets, got y=None"):
        Boosted.from_data(table()[0], num_features=5, start=1.0, key=KEY)
