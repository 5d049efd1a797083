"""Reading of reported trials: one or many, checked before anything is changed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.bandits.space import Box, Candidates
from streamgp.table.cells import LARGEST
from streamgp.table.given import shown, to_floats


def is_one_point(space: Box | Candidates, x: Any) -> bool:
    """Return whether this is a point of the space, and not a sequence of them; `encode` checks which point."""
    if isinstance(space, Candidates) and space.labels is not None:
        return not isinstance(x, list | np.ndarray)
    if isinstance(space, Box) and space.names is not None:
        return isinstance(x, Mapping) or not isinstance(x, list | tuple | np.ndarray)
    return isinstance(x, Mapping | str) or np.ndim(x) < 2


def as_rewards(y: Any, n: int, name: str) -> Float[np.ndarray, " n"]:
    """Convert to n numbers, non-finite where there is none.

    Raises
    ------
    ValueError
        If they are something else, or not as many.
    """
    try:
        rewards = to_floats(name, y if np.ndim(y) else [y]).reshape(np.shape(y))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: expected {n} numbers, got {shown(y)}") from None
    if y is None or rewards.size != n or rewards.ndim > 2:
        raise ValueError(f"{name}: expected {n} numbers, one per point, got {_describe_shape(y)}")
    if (np.isfinite(rewards) & (np.abs(rewards) > LARGEST)).any():
        raise ValueError(f"{name}: expected numbers of at most {LARGEST:g}, or NaN, got {rewards.tolist()}")
    return rewards.reshape(-1)


def _describe_shape(y: Any) -> str:
    return "None" if y is None else f"shape {np.shape(y)}"
