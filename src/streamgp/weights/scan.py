"""The rows of a stream, one after the other, through a rule: by any rule, in NumPy or inside a program of JAX."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_jax, namespace, scan
from streamgp.weights.base import OUTLIER_LOG_DENSITY, Weighed, WeightRule, quiet
from streamgp.weights.row import learn_row, weighed
from streamgp.weights.rules import BMA
from streamgp.weights.stacked import StackedRules


def scan_rule(
    rule: WeightRule,
    state: Any,
    log_density: Float[AnyArray, "n k"],
    mask: Bool[AnyArray, " n"] | None = None,
    is_outlier: Bool[AnyArray, "n k"] | None = None,
    outlier_log_density: float = OUTLIER_LOG_DENSITY,
    absent: Bool[AnyArray, " k"] | None = None,
) -> tuple[Any, Weighed]:
    """Update a rule row by row; return its state after all rows, and what it said before each, of the row.

    Rows with a false `mask` are passed over. What a row tells against an expert is bounded by `outlier_log_density`,
    in so far as the experts take it for an outlier (1 - `trust`). Experts that are `absent` from all these rows count
    as if they predicted what the others predict together, and keep their weights.
    """
    given: Any = log_density, mask, is_outlier, absent
    if not is_jax(*given, *tree.leaves((rule, state))):
        return _scan_in_numpy(rule, state, given, outlier_log_density)
    xp = namespace(*given, *tree.leaves((rule, state)))
    mask = xp.ones(len(log_density), bool) if mask is None else mask

    def learn(state: Any, row: tuple) -> tuple[Any, Any]:
        density, keep, outlier = row
        after = learn_row(rule, state, density, outlier, outlier_log_density, absent)
        return tree.map(lambda a, b: xp.where(keep, a, b), after, state), weighed(rule, state, absent)

    rows = tree.map(xp.asarray, (log_density, mask, is_outlier))
    return scan(learn, tree.map(xp.asarray, state), rows)


@quiet
def _scan_in_numpy(
    rule: WeightRule,
    state: Any,
    given: tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray | None],
    least: float,
) -> tuple[Any, Weighed]:
    """Do what `scan_rule` does, rules side by side where they can be, and no work for rows that are left out."""
    log_density, mask, is_outlier, absent = given
    if is_outlier is not None and mask is None and not is_outlier.any():
        is_outlier = None
    absent = None if absent is None or not absent.any() else absent
    mask = None if mask is None or mask.all() else mask
    learnt = slice(0, len(log_density)) if mask is None else np.flatnonzero(mask)
    at = learnt if mask is None else np.cumsum(mask) - mask
    if log_density.shape[1] == 1 and isinstance(rule, BMA) and not np.any(state):
        return state, Weighed(np.zeros(log_density.shape), None)  # a single expert has all weight for good
    log_density = log_density[learnt]
    is_outlier = None if is_outlier is None else is_outlier[learnt]
    stacked = StackedRules.of(rule, state, absent) if np.isfinite(log_density).all() else None
    if stacked is not None:
        return _scan_stacked(stacked, log_density, is_outlier, at, least)
    said = [weighed(rule, state, absent)]
    for i, density in enumerate(log_density):
        state = learn_row(rule, state, density, None if is_outlier is None else is_outlier[i], least, absent)
        said.append(weighed(rule, state, absent))
    return state, tree.map(lambda *a: np.stack(a)[at], *said)


def _scan_stacked(
    rules: StackedRules,
    log_density: Float[np.ndarray, "m k"],
    is_outlier: Bool[np.ndarray, "m k"] | None,
    at: Any,
    least: float,
) -> tuple[Any, Weighed]:
    """Learn rows by rules side by side; return the state after them, and what was said before those `at` places."""
    some = log_density[:, rules.here]
    outlying = None if is_outlier is None else is_outlier[:, rules.here]
    R, K = rules.weights.shape
    mixed, of_rules = np.empty((len(some) + 1, K)), np.empty((len(some) + 1, R))
    mixed[0], of_rules[0] = rules.log_mixed_here(), rules.of_rules
    rules.learn(some, outlying, least, mixed[1:], of_rules[1:])
    return rules.now, Weighed(rules.of_all(mixed[at]), rules.in_users_order(of_rules[at]))
