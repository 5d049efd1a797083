"""The interface of a basis expansion: a map phi from inputs to features, with named hyperparameters."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module

Evaluator: TypeAlias = Callable[[AnyArray], AnyArray]
"""Takes rows (n, D) to their features (..., n, F), as a `Basis` does."""

Pullback: TypeAlias = Callable[[np.ndarray], dict[str, Any]]
"""Takes the gradient of a number by the features (n, F) to that by each `trainable` field, in natural units."""


class Basis(Module):
    """phi: R^D -> R^F. A concrete basis stores its hyperparameters in natural units.

    Class attributes
    ----------------
    trainable
        The fields that empirical Bayes may move, each ``"positive"`` or ``"real"``.
    starts
        Initial lengthscales, as multiples of each input's range, from which the fit sets out. A basis
        without lengthscales has the single start 1.
    default_features
        The number of features to aim for where the user names none.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {}
    starts: ClassVar[tuple[float, ...]] = (1.0,)
    default_features: ClassVar[int] = 100

    @property
    def num_features(self) -> int:
        """Return F, the length of phi(x)."""
        raise NotImplementedError

    @property
    def num_inputs(self) -> int:
        """Return D, the length of x."""
        raise NotImplementedError

    @property
    def largest_product(self) -> float:
        """Return how many numbers the largest matrix has that a row is multiplied by: D F, or less.

        BLAS shares large products among threads.
        """
        return self.num_inputs * self.num_features

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Return the design matrix: one row phi(x)' for each row of `X`.

        In NumPy if both `X` and the hyperparameters are NumPy's, else in JAX. Hyperparameters with leading axes
        (a stack of bases) give a design matrix for each; a basis without hyperparameters gives a single one.
        A concrete basis has this method or `evaluator`.
        """
        if type(self).evaluator is Basis.evaluator:
            raise NotImplementedError(f"{type(self).__name__}.__call__")
        return self.evaluator()(X)

    def evaluator(self) -> Evaluator:
        """Return the map itself, with what does not depend on rows computed once: single rows ask for it often."""
        return self

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the design matrix of one basis, and the product of a vector with its Jacobian, in NumPy.

        A basis with `trainable` fields gives both in closed form.
        """
        if self.trainable:
            raise NotImplementedError(f"{type(self).__name__}.features_and_pullback")
        return self(X), lambda cotangent: {}

    def pullback(self, X: Float[np.ndarray, "n d"], cotangent: Float[np.ndarray, "n f"]) -> dict[str, np.ndarray]:
        """Return the gradient of a number by each `trainable` field, in natural units, from that by the features."""
        return self.features_and_pullback(X)[1](cotangent)

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows outside the region that the basis was built for (nowhere, by default)."""
        return namespace(X).zeros(X.shape[0], bool)

    @property
    def is_bounded(self) -> bool:
        """Return whether rows can be `outside`."""
        return type(self).outside is not Basis.outside

    def precomputed(self) -> "Basis":
        """Return the same basis with all that follows from its hyperparameters alone computed, for use on a stream.

        A fit returns such a basis. Its hyperparameters must not be replaced any more.
        """
        return self

    def search_steps(self, n: int) -> int | None:
        """Return after how many steps a search for the hyperparameters on n rows ends; None: when it is done."""
        return None

    def honest_rows(self, n: int) -> Any:
        """Return which of the n rows that it was built from it may be fitted to (all, by default).

        A basis that learns from targets says too much of those.
        """
        return slice(None)

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Basis":
        """Build the basis for standardised warm-up rows `X`.

        Parameters
        ----------
        X
            NumPy array of warm-up inputs, shape (n, D).
        num_features
            The number of features to aim for; the basis may round it to what its structure allows.
        start
            Initial lengthscales, as a multiple of each input's range.
        key
            Random key for whatever the basis draws.
        y
            Standardised warm-up targets, shape (n, E), for the few bases that look at them.
        """
        raise NotImplementedError


def input_ranges(X: Any) -> np.ndarray:
    """Return the range (max - min) of each column of `X`; 1 for a constant column, which has no scale of its own."""
    ranges = np.ptp(X, axis=0)
    return np.where(ranges > 0, ranges, 1.0)
