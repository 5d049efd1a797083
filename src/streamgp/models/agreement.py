"""Checks that a state belongs to its ensemble: both may come from a checkpoint that was changed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.filters.kalman import FilterState
from streamgp.numerics import tree
from streamgp.numerics.checkpoint.field_types import check_state, check_value
from streamgp.weights import WeightRule


def check_ensemble(
    rule: WeightRule,
    order: Sequence[int],
    stacks: Sequence[tuple[int, ...]],
    filters: tuple[Any, ...],
    weights: Any,
) -> None:
    """Raise ValueError if groups, the order of their experts, filters and weights do not belong together.

    Parameters
    ----------
    rule, order
        The ensemble's weight rule, and the places of its experts in the groups.
    stacks
        For each group, how many bases it has and how many experts each of them.
    filters, weights
        The state's beliefs, of which each group has a stack, and what its rule knows.
    """
    if sorted(order) != list(range(sum(bases * each for bases, each in stacks))):
        raise ValueError(f"expected an order of the experts of groups of {list(stacks)}, got {list(order)}")
    check_value("the filters", filters, tuple[FilterState, ...])
    found = [beliefs.mean.shape[:2] for beliefs in filters]
    if found != list(stacks):
        raise ValueError(f"expected filters for groups of {list(stacks)} experts, got some for {found}")
    check_state(rule, weights)
    for logs in tree.leaves(weights):
        # The comparison is also false for NaN.
        if not np.all(np.asarray(logs) < np.inf):
            raise ValueError("expected weights below infinity, got some that are not")
