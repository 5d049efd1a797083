"""The choice between NumPy and JAX by the arrays that are given, and what each of them spells in its own way."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import scipy.special

from streamgp.numerics import tree

AnyArray: TypeAlias = Any
"""An array of JAX or of NumPy: functions of this type compute with the library of what they are given."""


def namespace(*arrays: Any) -> ModuleType:
    """Return JAX's NumPy if one of these is an array of JAX, else NumPy, which must not wait for JAX."""
    return sys.modules["jax"].numpy if is_jax(*arrays) else np


def is_jax(*arrays: Any) -> bool:
    """Return whether one of these is an array of JAX."""
    jax = sys.modules.get("jax")
    kind = getattr(jax, "Array", None)  # not there yet where another thread is loading it
    return kind is not None and any(isinstance(a, kind) for a in arrays)


def is_traced(*trees: Any) -> bool:
    """Return whether JAX is tracing an array of these, so that it has no numbers."""
    jax: Any = sys.modules.get("jax")
    return hasattr(jax, "Array") and any(isinstance(a, jax.core.Tracer) for a in tree.leaves(trees))


def special(*arrays: Any) -> ModuleType:
    """Return SciPy's special functions, or JAX's if one of the arrays is of JAX."""
    return sys.modules["jax"].scipy.special if is_jax(*arrays) else scipy.special


def logsumexp(a: AnyArray, axis: int = -1, keepdims: bool = False) -> Any:
    """Return log sum exp along an axis; minus infinity where all is."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.exp(a - top).sum(axis, keepdims=True)
    if xp is np:
        with np.errstate(divide="ignore"):
            found = np.log(total) + top
    else:
        found = xp.log(total) + top
    return found if keepdims else xp.squeeze(found, axis)


def scan(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, rows: Any) -> tuple[Any, Any]:
    """Run `step` over the rows of a tree from a state on; return the state after all, and what each step gave."""
    each = tree.leaves(rows)
    if is_jax(*each, *tree.leaves(state)):
        return sys.modules["jax"].lax.scan(step, state, rows)
    given = []
    for i in range(len(each[0])):
        state, outputs = step(state, tree.map(lambda a, i=i: a[i], rows))
        given.append(outputs)
    return state, tree.map(lambda *parts: np.stack(parts), *given)
