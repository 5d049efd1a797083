"""The rules of a mixture in the kernel in C, `numerics/kernel/weights.c`; `StackedRules` is its oracle."""

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.native import address, addresses, function, structure

# The fields of `rules_t`, in order.
_COUNTS = "experts", "rules", "bayes", "shares", "soft", "pools", "most_groups", "is_linear"
_NUMBERS = "fresh", "least_total"
_ARRAYS = "weights", "of_rules", "keep", "add", "soft_old", "soft_new", "pool_share", "pool_group"
_ARRAYS += "pool_rate", "pooled", "mass", "left"
_Fields = structure(_COUNTS, _NUMBERS, _ARRAYS)


class CompiledRules:
    """Rules whose rows the kernel learns.

    Parameters
    ----------
    fields
        Those of `rules_t`. Arrays of integers are int64, the others float64, rows first; ``weights`` and ``of_rules``
        are changed in place. None: the array is not needed.

    Attributes
    ----------
    at
        Where the kernel finds them.
    room
        How many numbers it needs besides for a row.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._held = dict(fields)
        of_fields = {name: address(a) if isinstance(a, np.ndarray) else a for name, a in fields.items()}
        self._rules = _Fields(**of_fields)
        K, R = fields["experts"], fields["rules"]
        self.room = K + 2 * R * K + 2 * R + fields["most_groups"]
        memory = np.empty(self.room)
        self.at, self._memory = ctypes.addressof(self._rules), (memory, address(memory))
        self._mixed = np.empty(K)
        self._mixed_at = address(self._mixed)

    def learn(
        self,
        log_density: Float[np.ndarray, "n k"],
        is_outlier: Bool[np.ndarray, "n k"] | None,
        least: float,
        mixed: Float[np.ndarray, "n k"] | None,
        of_rules: Float[np.ndarray, "n r"] | None,
    ) -> int:
        """Learn rows as `StackedRules.learn` does; return how many, all before one that must be learnt in logs."""
        outliers = None if is_outlier is None else np.ascontiguousarray(is_outlier)
        density = np.ascontiguousarray(log_density, np.float64)
        rows, into = addresses(density, outliers), addresses(mixed, of_rules)
        return _learn()(self.at, len(density), *rows, least, *into, self._memory[1])

    def log_mixed(self) -> Float[np.ndarray, " k"]:
        """Return the log weights, by all rules together, of the experts that are there."""
        _mix()(self.at, self._mixed_at)
        return self._mixed.copy()


def is_compiled() -> bool:
    """Return whether the kernel was built."""
    return _learn() is not None


@cache
def _learn() -> Any:
    count, at, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
    return function("learn_weights", [at, count, at, at, number, at, at, at], count)


@cache
def _mix() -> Any:
    return function("mix_weights", [ctypes.c_void_p] * 2)
