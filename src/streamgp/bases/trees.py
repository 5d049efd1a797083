"""Leaves of boosted trees as features: piecewise constant functions, found in the warm-up."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from streamgp.bases.base import Basis
from streamgp.core import AnyArray, namespace
from streamgp.numerics import keys
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field
from streamgp.numerics.threads import one_openmp_thread

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

# The number of leaves of each tree.
LEAVES = 8
# So many rows are looked up together: what they are compared with stays in a core's cache.
_TOGETHER = 256
# Twice scikit-learn's: fewer trees say as much (30 here what 50 did there, on all of five data sets), and cost less.
LEARNING_RATE = 0.2


@register
class Trees(Basis):
    """phi(x): for each of T trees an indicator of the leaf that x falls into, over sqrt(T); F = 8 T, ||phi(x)|| = 1.

    It is its kernel exactly: phi(x)'phi(x') is the share of the trees in which x and x' share a leaf (the kernel of a
    forest: Breiman 2000; Davies and Ghahramani 2014). The leaves come from gradient boosting (Friedman 2001, as
    histograms in scikit-learn) on the warm-up's rows, and stay; what a leaf is worth is learnt on the stream.
    The evidence comes from the same targets that chose the leaves: it flatters trees, and finds too little noise.

    Leaves are looked up without walking down the trees (Lucchese et al. 2015): number a tree's leaves from left to
    right. Each split that sends x to the right rules out the leaves on its left; of those that no split rules out
    the leftmost is the leaf of x. Sets of leaves are the bits of an integer.

    Parameters
    ----------
    feature
        The input that each split of each tree looks at.
    threshold
        A split sends rows with larger values than this to the right; infinite where a tree has fewer splits.
    remaining
        The leaves that a split leaves in the race when it sends a row to the right, as bits.
    inputs
        D, the number of inputs.
    """

    default_features: ClassVar[int] = 30 * LEAVES

    feature: Int[AnyArray, "*stack t s"]
    threshold: Float[AnyArray, "*stack t s"]
    remaining: Int[AnyArray, "*stack t s"]
    inputs: int = static_field()

    @property
    def num_features(self) -> int:
        """Return 8 T, a feature for each leaf."""
        return self.threshold.shape[-2] * LEAVES

    @property
    def num_inputs(self) -> int:
        """Return D, as the trees were fitted to."""
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Flag the leaf of each tree that a row falls into, by the lowest bit that all splits leave."""
        xp = namespace(X, self.threshold)
        leaf = leaf_bits(X, self.feature, self.threshold, self.remaining)
        bits = np.left_shift(1, np.arange(LEAVES), dtype=np.int32).reshape(*(1,) * leaf.ndim, LEAVES)
        indicators = xp.moveaxis(leaf[..., None] == bits, -3, -2).astype(X.dtype)
        return indicators.reshape(*indicators.shape[:-2], -1) / np.sqrt(indicators.shape[-2])

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Trees":
        """Fit max(1, num_features // 8) trees of at most 8 leaves to `y`; `start` plays no part.

        With several targets they are fitted to the first principal component of the targets, the combination that
        varies most. Features of leaves that a tree lacks are zero.

        Raises
        ------
        ValueError
            If `y` is not given.
        """
        if y is None:
            raise ValueError("Trees.from_data: expected targets, got y=None; pass the warm-up's targets as y.")
        # The import is slow, and only the warm-up of trees needs it.
        from sklearn.ensemble import HistGradientBoostingRegressor

        *_, directions = np.linalg.svd(np.asarray(y) - np.mean(y, axis=0), full_matrices=False)
        booster = HistGradientBoostingRegressor(
            max_iter=max(1, num_features // LEAVES),
            max_leaf_nodes=LEAVES,
            learning_rate=LEARNING_RATE,
            early_stopping=False,  # type: ignore[arg-type]
            random_state=int(keys.generator(key).integers(2**32, dtype=np.uint32)),
        )
        with one_openmp_thread():
            booster.fit(X, np.asarray(y) @ directions[0])
        return look_up(booster)


def look_up(booster: "HistGradientBoostingRegressor") -> Trees:
    """Return the leaves of a fitted `booster`: at most 8 in each tree, no missing or categorical inputs."""
    feature, threshold, remaining = splits_of(booster, LEAVES)
    return Trees(feature, threshold, remaining, booster.n_features_in_)


def leaf_bits(
    X: Float[AnyArray, "n d"],
    feature: Int[AnyArray, "*stack t s"],
    threshold: Float[AnyArray, "*stack t s"],
    remaining: Int[AnyArray, "*stack t s"],
) -> Int[AnyArray, "*stack t n"]:
    """Return the leaf of each tree that a row falls into, as a bit: the lowest that all splits leave."""
    xp = namespace(X, threshold)
    if xp is np and len(X) > _TOGETHER:
        parts = (X[at : at + _TOGETHER] for at in range(0, len(X), _TOGETHER))
        return np.concatenate([leaf_bits(part, feature, threshold, remaining) for part in parts], axis=-1)
    right = xp.asarray(X.T).copy()[feature] > threshold[..., None]
    # Without a branch for each split, which no core could foresee: a row sent to the left rules out none (-1).
    left_over = xp.bitwise_and.reduce(remaining[..., None] | (right.astype(np.int32) - 1), axis=-2)
    return left_over & -left_over


def splits_of(booster: "HistGradientBoostingRegressor", leaves: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return feature, threshold and remaining leaves (T, leaves - 1) of the splits of a booster's trees."""
    # Nodes come parents before children and left before right; scikit-learn has no public name for them.
    trees = [_splits(predictor.nodes, leaves - 1) for (predictor,) in booster._predictors]
    feature, threshold, remaining = (np.stack(part) for part in zip(*trees, strict=True))
    return feature, threshold, remaining


def _splits(
    nodes: np.ndarray, most: int
) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"], Int[np.ndarray, " s"]]:
    """Return feature, threshold and remaining leaves of a tree's splits, padded with splits that never go right."""
    feature, remaining = np.zeros((2, most), np.int32)
    threshold = np.full(most, np.inf)
    splits = np.flatnonzero(nodes["is_leaf"] == 0)
    feature[: len(splits)], threshold[: len(splits)] = nodes["feature_idx"][splits], nodes["num_threshold"][splits]
    before = np.cumsum(nodes["is_leaf"], dtype=int) - nodes["is_leaf"]  # leaves on the left of each node
    for s, node in enumerate(splits):
        ruled_out = range(before[nodes["left"][node]], before[nodes["right"][node]])
        remaining[s] = ~sum(1 << leaf for leaf in ruled_out)
    return feature, threshold, remaining
