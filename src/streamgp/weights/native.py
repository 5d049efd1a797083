"""The recursion of weight rules in C: `streamgp.weights.base.scan_rule` of the rules that most use."""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.native import library
from streamgp.weights.mixture import Mixture, MixtureState
from streamgp.weights.rules import BMA, Share, SoftBayes

# The structures of weights.c, field by field.
_WHOLE, _REAL, _POINTER = np.int64, np.float64, np.uintp
_RULE = np.dtype(
    [("kind", _WHOLE), ("num_groups", _WHOLE), ("rate", _REAL), ("background", _REAL), ("groups", _POINTER)]
)
_SCORED = np.dtype(
    [("log_density", _POINTER), ("mask", _POINTER), ("is_outlier", _POINTER), ("absent", _POINTER), ("least", _REAL)]
)


class Scored(NamedTuple):
    """The rows, as `scan_rule` takes them."""

    log_density: Float[np.ndarray, "n k"]
    mask: Bool[np.ndarray, " n"]
    is_outlier: Bool[np.ndarray, "n k"] | None
    least: float
    absent: Bool[np.ndarray, " k"] | None


def scan(rule: Any, state: Any, rows: Scored) -> tuple[Any, Any] | None:
    """Return a rule's state after the rows and those before each; None where there is no kernel, or not for it."""
    compiled = _compiled()
    singles = rule.rules if isinstance(rule, Mixture) else (rule,)
    if compiled is None or not all(map(_is_known, singles)):
        return None
    each = state.rules if isinstance(state, MixtureState) else (state,)
    weights = np.array(each, np.float64)
    rules = np.array(state.log_weights, np.float64) if isinstance(state, MixtureState) else None
    (R, K), n = weights.shape, len(rows.mask)
    described, kept = _described(singles)
    given = [
        np.ascontiguousarray(rows.log_density, np.float64),
        np.ascontiguousarray(rows.mask, np.uint8),
        None if rows.is_outlier is None else np.ascontiguousarray(rows.is_outlier, np.uint8),
        None if rows.absent is None else np.ascontiguousarray(rows.absent, np.uint8),
    ]
    scored = np.zeros(1, _SCORED)
    for name, a in zip(_SCORED.names or (), given, strict=False):
        scored[name] = _address(a)
    scored["least"] = rows.least
    before, rules_before = np.empty((n, R, K)), None if rules is None else np.empty((n, R))
    share = rule.share if isinstance(rule, Mixture) else 0.0
    memory = np.empty(compiled.weights_work_size(R, K))
    arrays = (weights, rules, scored), (before, rules_before, memory)
    compiled.learn_weights(_address(described), R, K, share, *map(_address, arrays[0]), n, *map(_address, arrays[1]))
    del kept
    if rules is None:
        return weights[0], before[:, 0]
    return (
        MixtureState(tuple(weights), rules),
        MixtureState(tuple(before[:, r] for r in range(R)), rules_before),  # type: ignore[arg-type]
    )


def _is_known(rule: Any) -> bool:
    return isinstance(rule, Share | SoftBayes) or (isinstance(rule, BMA) and not rule.shuts_down)


def _described(rules: tuple[Any, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the rules as C takes them, and arrays that must live as long."""
    described, kept = np.zeros(len(rules), _RULE), []
    for one, rule in zip(described, rules, strict=True):
        if isinstance(rule, Share):
            groups = np.ascontiguousarray(rule.groups, np.int64)
            kept.append(groups)
            one["kind"], one["num_groups"], one["groups"] = 1, rule.num_groups, groups.ctypes.data
            one["rate"], one["background"] = rule.rate, rule.background
        elif isinstance(rule, SoftBayes):
            one["kind"], one["rate"] = 2, rule.rate
    return described, kept


def _address(a: np.ndarray | None) -> int:
    return 0 if a is None else a.ctypes.data


@cache
def _compiled() -> ctypes.CDLL | None:
    compiled = library()
    if compiled is not None:
        whole, pointer, real = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
        compiled.weights_work_size.argtypes, compiled.weights_work_size.restype = [whole] * 2, whole
        compiled.learn_weights.restype = None
        compiled.learn_weights.argtypes = [pointer, whole, whole, real, *[pointer] * 3, whole, *[pointer] * 3]
    return compiled
