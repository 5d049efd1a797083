"""The causal standardiser: running mean and scale of each column, over the rows seen so far."""

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module

_CLIP = 1e3
# A value further from the median than this many times the distance that nearly all keep to is not in the scale.
FAR = 10.0
# This share of the values that differ from the median, and one more, may be outliers of any size.
SHARE = 0.02
# With fewer values that differ from the median, no value counts as far.
MIN_VALUES = 10


@register
class Standardiser(Module):
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

    count: Float[AnyArray, ""]
    mean: Float[AnyArray, " d"]
    m2: Float[AnyArray, " d"]

    def check_restored(self) -> None:
        """Raise ValueError if these are no moments of finite rows."""
        count, mean, m2 = np.asarray(self.count), np.asarray(self.mean), np.asarray(self.m2)
        if not (np.all(count >= 0.0) and np.isfinite(mean).all() and np.all(m2 >= 0.0) and np.isfinite(m2).all()):
            raise ValueError(
                f"expected finite means and squared deviations of columns, got {mean} and {m2} of {count} rows"
            )

    @classmethod
    def empty(cls, num_columns: int) -> "Standardiser":
        """Return the standardiser before any row; it leaves its columns as they are."""
        return cls(np.zeros(()), np.zeros(num_columns), np.zeros(num_columns))

    def update(self, X: Float[np.ndarray, "n d"]) -> "Standardiser":
        """Return the standardiser that has also seen the finite rows `X`."""
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
        """Return the population standard deviation; 1 where it is zero (to rounding) or unknown."""
        std = np.sqrt(np.asarray(self.m2) / np.maximum(self.count, 1.0))
        rounding = 8 * np.finfo(std.dtype).eps * np.abs(np.asarray(self.mean))
        return np.where(std > rounding, std, 1.0)

    def transform(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return centred and scaled rows, clipped to +-1000: a value that far out says no more than that."""
        return standardise(X, np.asarray(self.mean), self.scale)


def standardise(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return centred and scaled rows, clipped to +-1000."""
    return np.minimum(np.maximum((X - mean) / scale, -_CLIP), _CLIP)


def robust_standardiser(X: Float[np.ndarray, "n d"]) -> Standardiser:
    """Return the standardiser of finite rows without values that are `far_out`: a glitch does not set the scale.

    Where nothing is far out it is the plain one. The values left out count as the mean of the others.
    """
    far = far_out(X)
    if not far.any():
        return Standardiser.empty(X.shape[1]).update(X)
    near = np.maximum((~far).sum(axis=0), 1)
    # The sums are about the median, so that neither an offset nor outliers reduce their accuracy.
    about = np.median(X, axis=0)
    shift = np.where(far, 0.0, X - about).sum(axis=0) / near
    m2 = np.where(far, 0.0, np.square(X - about - shift)).sum(axis=0)
    return Standardiser(np.asarray(float(len(X))), about + shift, m2 * (len(X) / near))


def far_out(X: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, "n d"]:
    """Find the values that lie so far out of their column that they must be glitches.

    Those are at most 2% of the values, and one, that lie more than 10 times as far from the median as any other
    does. Ordinary heavy tails do not: of a normal column nothing beyond some 25 standard deviations would be left
    out, of Student's t with 2 degrees of freedom one value in 2,000. Values equal to the median do not count, neither
    as near nor in the 2%, so pulses of a column that rests at exactly one value, flags, and rare categories stay. In
    a column that rests with some noise, pulses in less than 2% of the rows are taken for glitches if they outdo the
    noise tenfold.
    """
    if len(X) < MIN_VALUES:
        return np.zeros(X.shape, bool)
    distance = np.abs(X - np.median(X, axis=0))
    differing = (distance > 0.0).sum(axis=0)
    few = (SHARE * differing).astype(int) + 1
    others = np.take_along_axis(np.sort(distance, axis=0), (len(X) - 1 - few)[None], axis=0)
    return (distance > FAR * others) & (differing >= MIN_VALUES)
