"""A basis over some of the inputs."""

from typing import Any

from jaxtyping import Bool, Float

from streamgp.bases.base import Basis, Evaluator
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import static_field


@register
class ActiveDims(Basis):
    """phi(x) = psi(x_{k+1}, ..., x_{k+d}): a basis that looks at d consecutive inputs and at no other.

    Parameters
    ----------
    basis
        psi, over d inputs.
    inputs
        D, the number of all inputs.
    first
        k, the position of the first input that it looks at.
    """

    basis: Basis
    inputs: int = static_field()
    first: int = static_field(default=0)

    @property
    def num_features(self) -> int:
        """Return F of `basis`."""
        return self.basis.num_features

    @property
    def num_inputs(self) -> int:
        """Return the number of all inputs, those that `basis` does not use included."""
        return self.inputs

    @property
    def largest_product(self) -> float:
        """Return that of `basis`."""
        return self.basis.largest_product

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Apply `basis` to its inputs alone."""
        return self.basis(self._own(X))

    def evaluator(self) -> Evaluator:
        """Return the map with that of `basis`."""
        evaluate = self.basis.evaluator()
        return lambda X: evaluate(self._own(X))

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows whose inputs of `basis` lie outside its region."""
        return self.basis.outside(self._own(X))

    @property
    def is_bounded(self) -> bool:
        """Return whether `basis` is."""
        return self.basis.is_bounded

    def honest_rows(self, n: int) -> Any:
        """Return those of `basis`."""
        return self.basis.honest_rows(n)

    def precomputed(self) -> "ActiveDims":
        """Return the same with `basis` precomputed."""
        return ActiveDims(self.basis.precomputed(), self.inputs, self.first)

    def _own(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "n own"]:
        return X[:, self.first : self.first + self.basis.num_inputs]
