"""Mean and variance of a number that comes row by row, of which rows long past are forgotten."""

from jaxtyping import Float

from streamgp.numerics.arrays import AnyArray, namespace

MEMORY = 0.998  # discount of the rows
LEAST_VARIANCE = 0.01  # added to the variance: what differs by less is much the same
FURTHEST = 3.0  # standard deviations beyond which a number counts as that far off
KERNEL_CONSTANTS = MEMORY, LEAST_VARIANCE, FURTHEST


def learn(moments: Float[AnyArray, "... 3"], x: Float[AnyArray, "..."]) -> Float[AnyArray, "... 3"]:
    """Return the discounted number of rows, mean and variance after one more row."""
    xp = namespace(moments, x)
    rows, mean, variance = (moments[..., i] for i in range(3))
    most, rows = FURTHEST * xp.sqrt(variance + LEAST_VARIANCE), MEMORY * rows + 1.0
    off = xp.clip(x - mean, -most, most)
    variance = variance + (off * off * (1.0 - 1.0 / rows) - variance) / rows
    return xp.stack([rows, mean + off / rows, variance], axis=-1)
