"""The kernel's lookup of leaves against that in NumPy, which the tests of trees hold to scikit-learn's."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.bases import leaves
from streamgp.bases.leaves import Splits, leaf_flags, leaf_sums, splits_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5)).round(1)
Y = np.sin(3.0 * X[:, :2]) + X[:, 2:3] * X[:, 3:4]
NEW = np.concatenate([X, 1e3 * RNG.normal(size=(50, 5)), np.full((1, 5), np.nan), np.full((1, 5), -np.inf)])


def forests(num_leaves: int, stack: tuple[int, ...]) -> Splits:
    """Return forests of two targets (*stack, 2, 9, num_leaves - 1), some of their trees of fewer leaves."""
    each = []
    for seed in range(int(np.prod(stack)) * 2):
        few = HistGradientBoostingRegressor(
            max_iter=9, max_leaf_nodes=num_leaves, min_samples_leaf=20 + 30 * (seed % 2), early_stopping=False
        )
        each.append(splits_of(few.fit(X, Y[:, seed % 2] + 0.1 * seed * X[:, 4]), num_leaves))
    return Splits(*(np.stack(part).reshape(*stack, 2, *part[0].shape) for part in zip(*each, strict=True)))


@pytest.mark.parametrize("num_leaves", [3, 8, 16, 31])
@pytest.mark.parametrize("stack", [(), (1,), (3,)])
def test_the_kernel_finds_the_same_leaves(num_leaves, stack, monkeypatch):
    splits = forests(num_leaves, stack)
    one = Splits(*(a[..., 0, :, :] for a in splits))
    value = RNG.normal(size=(*splits.threshold.shape[:-1], num_leaves))
    if leaves._functions() is None:
        pytest.skip("needs the kernel in C, which was not built")
    flags, sums = leaf_flags(one, num_leaves)(NEW), leaf_sums(splits, value)(NEW[:, :])
    # Of a view whose rows are not in one piece, too.
    wide = np.asfortranarray(NEW)
    np.testing.assert_array_equal(leaf_flags(one, num_leaves)(wide), flags)
    monkeypatch.setattr(leaves, "_functions", lambda: None)
    np.testing.assert_array_equal(flags, leaf_flags(one, num_leaves)(NEW))
    np.testing.assert_allclose(sums, leaf_sums(splits, value)(NEW), rtol=0.0, atol=1e-13)
    np.testing.assert_allclose((flags**2).sum(-1), 1.0, atol=1e-15)
