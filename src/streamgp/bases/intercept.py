"""A basis with a constant beside its features."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis, Pullback
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register


@register
class Intercept(Basis):
    """phi(x) = (psi(x), 1): the level of the function is one of the weights, and may drift like the others.

    Its hyperparameters are those of psi, under the names that they have there.

    Parameters
    ----------
    basis
        psi.
    """

    basis: Basis

    @property
    def trainable(self) -> Mapping[str, Literal["positive", "real"]]:  # type: ignore[override]
        """Return the fields that may be trained: those of psi."""
        return self.basis.trainable

    def __getattr__(self, name: str) -> Any:
        # Only what is not found here; psi itself is not, while an instance is being made.
        if name == "basis":
            raise AttributeError(name)
        return getattr(self.basis, name)

    @property
    def num_features(self) -> int:
        """Return one more than psi has."""
        return self.basis.num_features + 1

    @property
    def num_inputs(self) -> int:
        """Return D of psi."""
        return self.basis.num_inputs

    @property
    def largest_product(self) -> float:
        """Return that of psi."""
        return self.basis.largest_product

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Place a constant after the features of psi."""
        features = self.basis(X)
        np_or_jnp = namespace(features)
        ones = np_or_jnp.ones((*features.shape[:-1], 1), features.dtype)
        return np_or_jnp.concatenate([features, ones], axis=-1)

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features of psi with the constant, and the product with the Jacobian of psi."""
        features, pullback = self.basis.features_and_pullback(X)
        return np.column_stack([features, np.ones(len(X))]), lambda cotangent: pullback(cotangent[:, :-1])

    @property
    def is_bounded(self) -> bool:
        """Return whether psi is."""
        return self.basis.is_bounded

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows outside the region of `basis`."""
        return self.basis.outside(X)

    def precomputed(self) -> "Intercept":
        """Return the same with psi precomputed."""
        return Intercept(self.basis.precomputed())
