"""Leaves of boosted trees as features: piecewise constant functions, found in the warm-up."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from streamgp.bases.base import Basis, Evaluator
from streamgp.bases.leaves import Splits, leaf_flags, splits_of
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field
from streamgp.numerics.threads import one_openmp_thread

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

# The number of leaves of each tree.
LEAVES = 8
# Twice scikit-learn's: fewer trees say as much (30 here what 50 did there, on all of five data sets), and cost less.
LEARNING_RATE = 0.2


@register
class Trees(Basis):
    """phi(x): for each of T trees an indicator of the leaf that x falls into, over sqrt(T); F = 8 T, ||phi(x)|| = 1.

    It is its kernel exactly: phi(x)'phi(x') is the share of the trees in which x and x' share a leaf (the kernel of a
    forest: Breiman 2000; Davies and Ghahramani 2014). The leaves come from gradient boosting (Friedman 2001, as
    histograms in scikit-learn) on the warm-up's rows, and stay; what a leaf is worth is learnt on the stream.
    The evidence comes from the same targets that chose the leaves: it flatters trees, and finds too little noise.

    Parameters
    ----------
    feature, threshold, remaining
        See `streamgp.bases.leaves.Splits`.
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

    def evaluator(self) -> Evaluator:
        """Return the map with the splits as the kernel in C reads them."""
        return leaf_flags(Splits(self.feature, self.threshold, self.remaining), LEAVES)

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
    return Trees(*splits_of(booster, LEAVES), booster.n_features_in_)
