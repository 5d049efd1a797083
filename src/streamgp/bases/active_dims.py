"""A basis over some of the inputs."""

from typing import Any

import equinox as eqx
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.checkpoint.encoding import formerly, register
from streamgp.core import AnyArray


@formerly("ActiveDims")
@register
class ActiveDims(Basis):
    """phi(x) = psi(x_1, ..., x_d): a basis that does not look at the inputs after the first d.

    Parameters
    ----------
    basis
        psi, over d inputs.
    inputs
        D, the number of all inputs.
    """

    basis: Basis
    inputs: int = eqx.field(static=True)

    @property
    def num_features(self) -> int:
        """Return F of `basis`."""
        return self.basis.num_features

    @property
    def num_inputs(self) -> int:
        """Return the number of all inputs, those that `basis` does not use included."""
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Apply `basis` to the first inputs alone."""
        return self.basis(X[:, : self.basis.num_inputs])

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows whose first inputs lie outside the region of `basis`."""
        return self.basis.outside(X[:, : self.basis.num_inputs])

    def honest_rows(self, n: int) -> Any:
        """Return those of `basis`."""
        return self.basis.honest_rows(n)

    def precomputed(self) -> "ActiveDims":
        """Return the same with `basis` precomputed."""
        return ActiveDims(self.basis.precomputed(), self.inputs)
