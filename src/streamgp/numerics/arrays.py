"""The choice between NumPy and JAX by the arrays that are given."""

from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

AnyArray = Array | np.ndarray
"""An array of JAX or of NumPy: functions of this type compute with the library of what they are given."""


def namespace(*arrays: Any) -> ModuleType:
    """Return NumPy for its own arrays alone, which must not wait for JAX, and JAX's NumPy as soon as one is not."""
    return np if all(isinstance(a, np.ndarray | np.generic) for a in arrays) else jnp
