"""A basis over some of the inputs."""

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
        return self.basis.num_features

    @property
    def num_inputs(self) -> int:
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        return self.basis(X[:, : self.basis.num_inputs])

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """True for rows whose first inputs lie outside the region of `basis`."""
        return self.basis.outside(X[:, : self.basis.num_inputs])

    def precomputed(self) -> "ActiveDims":
        return ActiveDims(self.basis.precomputed(), self.inputs)
