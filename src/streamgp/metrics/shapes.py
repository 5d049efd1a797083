"""Arrays that are scored together."""

from typing import Any

import numpy as np


def together(**given: Any) -> list[np.ndarray]:
    """Return arrays of numbers, by their names, in one shape.

    Raises
    ------
    ValueError
        If they have none in common.
    """
    arrays = [np.asarray(each, dtype=np.float64) for each in given.values()]
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise ValueError(f"{', '.join(given)}: expected arrays of one shape, got {shapes}") from None


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
