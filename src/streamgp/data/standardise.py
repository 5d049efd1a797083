"""The causal standardiser: running mean and scale of each column, over the rows seen so far."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from streamgp.serialise import register

_CLIP = 1e3


@register
class Standardiser(eqx.Module):
    """Mean and population standard deviation of every column, kept block by block.

    Blocks are merged as in Chan, Golub and LeVeque (1983, Eq. 2.1), about the mean so far, so that
    neither a large offset nor the way the rows were cut into blocks costs accuracy.

    Parameters
    ----------
    count
        The number of rows seen.
    mean, m2
        Mean of each column, and its sum of squared deviations from that mean.
    """

    count: Float[np.ndarray | Array, ""]
    mean: Float[np.ndarray | Array, " d"]
    m2: Float[np.ndarray | Array, " d"]

    @classmethod
    def empty(cls, num_columns: int) -> "Standardiser":
        """The standardiser before any row; it leaves its columns as they are."""
        return cls(np.zeros(()), np.zeros(num_columns), np.zeros(num_columns))

    def update(self, X: Float[np.ndarray, "n d"]) -> "Standardiser":
        """The standardiser that has also seen the finite rows `X`."""
        if not len(X):
            return self
        count = np.asarray(self.count)
        new = len(X)
        total = count + new
        about = X[0] if count == 0 else np.asarray(self.mean)
        shift = np.mean(X - about, axis=0)
        m2 = np.sum(np.square(X - about - shift), axis=0)
        between = np.square(shift) * (count * new / total)  # zero for the first block, where count is 0
        return Standardiser(np.asarray(total), about + shift * (new / total), self.m2 + m2 + between)

    @property
    def scale(self) -> Float[np.ndarray, " d"]:
        """Population standard deviation; 1 where it is zero (to rounding) or unknown."""
        std = np.sqrt(np.asarray(self.m2) / np.maximum(self.count, 1.0))
        rounding = 8 * np.finfo(std.dtype).eps * np.abs(np.asarray(self.mean))
        return np.where(std > rounding, std, 1.0)

    def transform(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Centred and scaled rows, clipped to +-1000: a value that far out tells no more than that."""
        return standardise(X, np.asarray(self.mean), self.scale)


def standardise(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Centred and scaled rows, clipped to +-1000."""
    return np.minimum(np.maximum((X - mean) / scale, -_CLIP), _CLIP)
