"""Several bases side by side in one expert, each with a prior variance of its own."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis, Evaluator, Pullback
from streamgp.bases.explicit import Linear
from streamgp.bases.fourier import Fourier
from streamgp.bases.nystrom import Nystrom
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key


@register
class Concatenation(Basis):
    """phi(x) = (s_1 phi_1(x), s_2 phi_2(x), ...): the sum of independent functions, one for each part.

    Its kernel is sum_g s_g^2 phi_g(x)'phi_g(x'), so that with the prior variance v of its expert part g has the prior
    variance v s_g^2, found by the evidence; the part's own hyperparameters stay as they are. v and a common
    factor of all s^2 say the same, which leaves the optimum flat along one line and does no harm: only their product
    enters any prediction.

    A row is outside where it is outside of any part.

    Parameters
    ----------
    parts
        The bases, over the same inputs.
    scales
        s, one for each part.
    """

    trainable: ClassVar[Mapping[str, Literal["positive", "real"]]] = {"scales": "positive"}

    parts: tuple[Basis, ...]
    scales: Float[AnyArray, "*stack g"]

    @property
    def num_features(self) -> int:
        """Return the sum of the parts' numbers of features."""
        return sum(part.num_features for part in self.parts)

    @property
    def num_inputs(self) -> int:
        """Return D, which all parts share."""
        return self.parts[0].num_inputs

    @property
    def largest_product(self) -> float:
        """Return the largest of the parts'."""
        return max(part.largest_product for part in self.parts)

    def evaluator(self) -> Evaluator:
        """Return the map with those of the parts."""
        parts = [(self.scales[..., g, None, None], part.evaluator()) for g, part in enumerate(self.parts)]

        def evaluate(X: AnyArray) -> AnyArray:
            each = [scale * part(X) for scale, part in parts]
            return namespace(*each).concatenate(each, axis=-1)

        return evaluate

    def features_and_pullback(self, X: Float[AnyArray, "n d"]) -> tuple[Float[AnyArray, "n f"], Pullback]:
        """Return the features, and the product with their Jacobian by the scales."""
        each = [part(X) for part in self.parts]
        ends = np.cumsum([part.shape[1] for part in each])[:-1]

        def pullback(cotangent: np.ndarray) -> dict[str, Any]:
            pairs = zip(np.split(cotangent, ends, axis=1), each, strict=True)
            return {"scales": np.array([np.sum(own * part) for own, part in pairs])}

        scaled = [scale * part for scale, part in zip(self.scales, each, strict=True)]
        return np.concatenate(scaled, axis=1), pullback

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows outside the region of any part."""
        bounded = [part for part in self.parts if part.is_bounded]
        return reduce(or_, (part.outside(X) for part in bounded)) if bounded else super().outside(X)

    @property
    def is_bounded(self) -> bool:
        """Return whether any part is."""
        return any(part.is_bounded for part in self.parts)

    def precomputed(self) -> "Concatenation":
        """Return the same with every part precomputed."""
        return Concatenation(tuple(part.precomputed() for part in self.parts), self.scales)

    @classmethod
    def of(cls, parts: Sequence[Basis], prior_vars: Sequence[float]) -> "Concatenation":
        """Join parts that have been fitted one by one, each with its share of the prior variance it had alone."""
        return cls(tuple(parts), np.sqrt(np.asarray(prior_vars, float) / len(parts)))

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Concatenation":
        """Build linear, Fourier and Nystrom parts in equal shares; the last two with half of `num_features` each."""
        settings: dict[str, Any] = {"num_features": max(1, num_features // 2), "start": start, "y": y}
        parts_of_key = keys.split(key, 3)
        bases = (Linear, Fourier, Nystrom)
        parts = [basis.from_data(X, key=k, **settings) for basis, k in zip(bases, parts_of_key, strict=True)]
        return cls.of(parts, [1.0] * len(parts))


PARTS = {"linear": None, "fourier": 100, "nystrom": 200}
"""The parts of the concatenation that users name (trend, function, local detail), and the most features of each."""
