"""Arrays that are scored together."""

from typing import Any

import numpy as np


def together(**given: Any) -> list[np.ndarray]:
    """Return arrays of numbers, by their names, in one shape; a single number stands for as many as there are.

    Raises
    ------
    ValueError
        If they have different ones: (n, 1) and (n,) would be scored as n times n pairs.
    """
    arrays = [np.asarray(each, dtype=np.float64) for each in given.values()]
    if len({array.shape for array in arrays if array.ndim}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise ValueError(f"{', '.join(given)}: expected arrays of one shape, got {shapes}")
    return list(np.broadcast_arrays(*arrays))


def positive(name: str, values: np.ndarray) -> None:
    """Check that all numbers but NaN are above zero.

    Raises
    ------
    ValueError
        If one is not.
    """
    wrong = np.argwhere(values <= 0.0)
    if len(wrong):
        place = tuple(wrong[0].tolist())
        raise ValueError(f"{name}: expected numbers above 0, got {values[place]:g} at {place}")
