"""A basis of boosted trees: their prediction as a feature, beside a plane."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from streamgp.bases.base import Basis, Evaluator
from streamgp.bases.leaves import Splits, leaf_sums, splits_of
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field
from streamgp.numerics.threads import one_openmp_thread

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

# Half as many leaves as scikit-learn's default, of fewer rows: as good on seven tables, and found in half the time.
LEAVES, MIN_ROWS = 16, 10
LEARNING_RATE = 0.1
# One block of rows in so many is held out from the trees.
_HELD_OUT = 7
# Whole blocks of successive rows are held out, since neighbours in time reveal a row's target.
_BLOCKS = 56


def held_out(n: int) -> Int[np.ndarray, " m"]:
    """Return which of n rows `Boosted.from_data` keeps from the trees: of those they say what is honest."""
    block = np.arange(n) // max(n // _BLOCKS, 1)
    return np.flatnonzero(block % _HELD_OUT == min(_HELD_OUT // 2, n - 1))


def beside_plane(X: Float[AnyArray, "n d"], predicted: Float[AnyArray, "*stack n e"]) -> Float[AnyArray, "..."]:
    """Place a constant and the inputs before what something predicts."""
    xp = namespace(X, predicted)
    if xp is np:
        D = X.shape[1]
        found = np.empty((*predicted.shape[:-1], D + 1 + predicted.shape[-1]), X.dtype)
        found[..., 0], found[..., 1 : D + 1], found[..., D + 1 :] = 1.0, X, predicted
        return found
    plane = xp.concatenate([xp.ones_like(X[:, :1]), X], axis=1)
    return xp.concatenate([xp.broadcast_to(plane, (*predicted.shape[:-1], plane.shape[1])), predicted], axis=-1)


@register
class Boosted(Basis):
    """phi(x) = (1, x_1, ..., x_D, f_1(x), ..., f_E(x)): a plane beside what boosted trees predict of each target.

    The trees (Friedman 2001, as histograms in scikit-learn) are fitted to most of the rows, and stay. What their
    prediction is worth is learnt from rows that they have not seen (`held_out`, and all that come later): stacking
    (Breiman 1996) with the plane. On the rows of their own fit they would look far too good.

    Parameters
    ----------
    feature, threshold, remaining
        The splits of the T trees of each target, as those of `Trees`.
    value
        What each leaf adds to the prediction.
    offset
        The prediction before any tree.
    """

    starts: ClassVar[tuple[float, ...]] = (1.0, 1.5)
    default_features: ClassVar[int] = 100

    feature: Int[AnyArray, "*stack e t s"]
    threshold: Float[AnyArray, "*stack e t s"]
    remaining: Int[AnyArray, "*stack e t s"]
    value: Float[AnyArray, "*stack e t l"]
    offset: Float[AnyArray, "*stack e"]
    inputs: int = static_field()

    @property
    def num_features(self) -> int:
        """Return D + 1 + E: a plane, and a prediction of each target."""
        return self.inputs + 1 + self.offset.shape[-1]

    @property
    def num_inputs(self) -> int:
        """Return D, as the trees were fitted to."""
        return self.inputs

    def evaluator(self) -> Evaluator:
        """Return the map with the splits as the kernel in C reads them."""
        sums, offset = leaf_sums(Splits(self.feature, self.threshold, self.remaining), self.value), self.offset
        return lambda X: beside_plane(X, (sums(X) + offset[..., None, :]).astype(X.dtype))

    def honest_rows(self, n: int) -> Int[np.ndarray, " m"]:
        """Return the rows that are `held_out`."""
        return held_out(n)

    def anew(self, X: Any, y: Any, key: Key) -> "Boosted":
        """Return as many trees fitted to other rows."""
        return self.from_data(X, num_features=self.value.shape[-2], start=1.0, key=key, y=y)

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Boosted":
        """Fit trees to all rows that are not `held_out`.

        `num_features` is their number, and `start` multiplies their learning rate.

        Raises
        ------
        ValueError
            If `y` is not given.
        """
        if y is None:
            raise ValueError("Boosted.from_data: expected targets, got y=None; pass the warm-up's targets as y.")
        # The import is slow, and only the warm-up of trees needs it.
        from sklearn.ensemble import HistGradientBoostingRegressor

        kept = np.setdiff1d(np.arange(len(X)), held_out(len(X)))
        seed = int(keys.generator(key).integers(2**32, dtype=np.uint32))
        boosters = []
        for target in np.asarray(y)[kept].T:
            booster = HistGradientBoostingRegressor(
                max_iter=max(1, num_features),
                max_leaf_nodes=LEAVES,
                min_samples_leaf=MIN_ROWS,
                learning_rate=start * LEARNING_RATE,
                early_stopping=False,  # type: ignore[arg-type]
                random_state=seed,
            )
            with one_openmp_thread():
                boosters.append(booster.fit(np.asarray(X)[kept], target))
        splits = zip(*(splits_of(booster, LEAVES) for booster in boosters), strict=True)
        feature, threshold, remaining = (np.stack(part) for part in splits)
        value = np.stack([_values(booster) for booster in boosters])
        offset = np.array([float(np.ravel(booster._baseline_prediction)[0]) for booster in boosters])
        return cls(feature, threshold, remaining, value, offset, X.shape[1])


def _values(booster: "HistGradientBoostingRegressor") -> Float[np.ndarray, "t l"]:
    """Return what each leaf of each tree adds, from left to right."""
    values = np.zeros((len(booster._predictors), LEAVES))
    for row, (predictor,) in zip(values, booster._predictors, strict=True):
        leaves = predictor.nodes["value"][predictor.nodes["is_leaf"] == 1]
        row[: len(leaves)] = leaves
    return values
