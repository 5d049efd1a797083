"""All groups of experts at work, each on the device that its work is for: see `streamgp.filters.engine.placement`."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine import cpu, placement
from streamgp.filters.engine.blocks import Group, in_blocks
from streamgp.filters.kalman import FilterState, Predicted

_Part = TypeVar("_Part")


def update_groups(
    groups: Sequence[Group],
    beliefs: Sequence[FilterState],
    rows: tuple[Any, Any, Any, Any, Any],
    live: Sequence[np.ndarray],
    later: Float[np.ndarray, "n d"] | None = None,
    horizon: int = 0,
) -> tuple[list[FilterState], list[Predicted], Bool[np.ndarray, " rows"]]:
    """Let the experts that are `live` learn rows.

    Parameters
    ----------
    groups, beliefs, live
        Of all experts.
    rows
        Inputs, targets, mask, clock and additional variance: see `streamgp.filters.engine.blocks.in_blocks`.
    later, horizon
        The rows to forecast, and how far ahead they are.
    """
    X, y, mask, clock, extra = rows
    sent: list[Future | None] = [None] * len(groups)
    if later is None:
        each = zip(groups, beliefs, live, strict=True)
        sent = [_sent(group, belief, alive, rows) for group, belief, alive in each]
    on_cpu = [i for i, job in enumerate(sent) if job is None]
    states, parts, flags = list(beliefs), [Predicted(X, X, None)] * len(groups), np.zeros(len(X), bool)

    def by_cpu(which: Sequence[int]) -> None:
        blocks = in_blocks(X, y, mask, clock, later, horizon, extra)
        some = _chosen(which, groups), _chosen(which, beliefs)
        new, said, outside = cpu.update_groups(*some, blocks, _chosen(which, live))
        for i, state, part in zip(which, new, said, strict=True):
            states[i], parts[i] = state, part
        flags[:] |= outside[: len(X)]

    if on_cpu:
        by_cpu(on_cpu)
    lost = []
    for i, job in enumerate(sent):
        if job is None:
            continue
        found = job.result()
        if found is None:
            lost.append(i)
        else:
            states[i], parts[i], outside = found
            flags |= outside
    if lost:
        by_cpu(lost)
    return states, parts, flags


def predict_groups(
    groups: Sequence[Group],
    beliefs: Sequence[FilterState],
    X: Float[np.ndarray, "n d"],
    tau: Float[np.ndarray, " n"],
    live: Sequence[np.ndarray],
) -> list[Predicted]:
    """Predict mean and variance of every row by every expert, each as if it came `tau` after the last one learnt.

    Experts whose beliefs are on an accelerator predict there, the others on the processor.
    """
    found: list[Predicted | None] = []
    for group, belief in zip(groups, beliefs, strict=True):
        there = placement.accelerator() if placement.is_resident(belief) else None
        programs = None if there is None else there.programs(group, belief, X, placement.waits())
        found.append(None if there is None or not programs else there.predict(programs, group, belief, X, tau))
    on_cpu = [i for i, part in enumerate(found) if part is None]
    said = cpu.predict_groups(_chosen(on_cpu, groups), _chosen(on_cpu, beliefs), X, tau, _chosen(on_cpu, live))
    for i, part in zip(on_cpu, said, strict=True):
        found[i] = part
    return [part for part in found if part is not None]


def _chosen(which: Sequence[int], of: Sequence[_Part]) -> list[_Part]:
    return [of[i] for i in which]


def _sent(group: Group, beliefs: FilterState, live: np.ndarray, rows: tuple[Any, ...]) -> Future | None:
    """Send a group to the accelerator; None if it is not for it, or not yet."""
    if not placement.wants_accelerator(beliefs, live, len(rows[0])):
        return None
    there = placement.accelerator()
    programs = None if there is None else there.programs(group, beliefs, rows[0], placement.waits())
    return (
        None if there is None or not programs else _pool().submit(there.update, programs, group, beliefs, rows, live)
    )


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the thread that waits for the accelerator while the processor serves other groups."""
    return ThreadPoolExecutor(1, thread_name_prefix="streamgp-accelerator")
