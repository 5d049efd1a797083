"""Additive cubic B-splines on evenly spaced knots."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.bases.base import Basis
from streamgp.numerics.arrays import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key

_DEGREE = 3


@register
class Spline(Basis):
    """Cubic B-splines of each input, side by side: columns grouped by input, left to right; F = D (K - 4).

    The features of one input are non-negative and sum to one (de Boor 1978). The basis is its kernel
    phi(x)'phi(x') exactly: cubic between knots with two continuous derivatives, additive over inputs.
    Coordinates beyond the first or last knot are moved to it, and `outside` flags such rows.

    Parameters
    ----------
    knots
        K ascending knots for each input, in its units, the first and the last of them four times.
    """

    knots: Float[AnyArray, "*stack d k"]

    @property
    def num_features(self) -> int:
        """Return D (K - 4): the splines of each input side by side."""
        return self.num_inputs * (self.knots.shape[-1] - _DEGREE - 1)

    @property
    def num_inputs(self) -> int:
        """Return D, one sequence of knots for each input."""
        return self.knots.shape[-2]

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Evaluate each input's splines, side by side."""
        each = _cubic(X, self.knots[..., None, :, :])
        return each.reshape(*each.shape[:-2], self.num_features)

    def outside(self, X: Float[AnyArray, "n d"]) -> Bool[AnyArray, "*stack n"]:
        """Flag rows with a coordinate before its first knot or after its last."""
        knots = self.knots[..., None, :, :]
        return namespace(X, knots).any((knots[..., 0] > X) | (knots[..., -1] < X), axis=-1)

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Spline":
        """Build max(4, num_features // D) splines for each input, with even knots over its warm-up range.

        Four is the fewest that a cubic can have, so many inputs may give more than `num_features` features. A
        constant column gets a range of one around its value.
        """
        intervals = max(_DEGREE + 1, num_features // X.shape[1]) - _DEGREE
        low, high = X.min(axis=0), X.max(axis=0)
        widen = np.where(high > low, 0.0, 0.5)
        inner = np.linspace(low - widen, high + widen, intervals + 1, axis=1)
        return cls(np.pad(inner, ((0, 0), (_DEGREE, _DEGREE)), mode="edge"))


def _cubic(x: Float[AnyArray, "n d"], knots: Float[AnyArray, "*stack 1 d k"]) -> Float[AnyArray, "*stack n d f"]:
    """Evaluate all cubic B-splines on each input's `knots` at `x`, by the Cox-de Boor recursion."""
    xp, last = namespace(x, knots), knots.shape[-1] - _DEGREE - 2
    x = xp.clip(x, knots[..., 0], knots[..., -1])[..., None]
    # The last interval is closed on the right, so that the last knot belongs to the range.
    interval = xp.clip((x >= knots).sum(-1) - 1, _DEGREE, last)
    values = (interval[..., None] == np.arange(knots.shape[-1] - 1)[None, None]).astype(x.dtype)
    for degree in range(1, _DEGREE + 1):
        width = knots[..., degree:] - knots[..., :-degree]
        # Where knots coincide the spline of lower degree is zero, and so is its term.
        inverse = xp.where(width > 0, 1.0 / xp.where(width > 0, width, 1.0), 0.0)
        rising = (x - knots[..., :-degree]) * inverse
        falling = (knots[..., degree:] - x) * inverse
        values = rising[..., :-1] * values[..., :-1] + falling[..., 1:] * values[..., 1:]
    return values
