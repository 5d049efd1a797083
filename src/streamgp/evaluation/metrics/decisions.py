"""Decisions by what errors cost."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Decisions(NamedTuple):
    """What acting by a threshold costs, in the mean over the rows, beside what one would do without a model.

    Attributes
    ----------
    threshold
        The probability from which on to act.
    cost, never, always
        Of acting by it, of never acting, and of acting in each row.
    missed, false_alarms
        How many events were missed, and in how many other rows there was an alarm.
    rows
        How many there are.
    """

    threshold: float
    cost: float
    never: float
    always: float
    missed: int
    false_alarms: int
    rows: int


def cost_threshold(missed: float, false_alarm: float) -> float:
    """Return the probability of an event from which on to act costs less than to wait (Elkan 2001, Eq. 2).

    Parameters
    ----------
    missed, false_alarm
        What it costs not to act before an event, and to act where none comes, both beside the right decision.

    Raises
    ------
    ValueError
        If a cost is not finite and above 0.
    """
    for name, cost in (("missed", missed), ("false_alarm", false_alarm)):
        if not (np.isfinite(cost) and cost > 0.0):
            raise ValueError(f"{name}: expected a finite cost above 0, got {cost}")
    return false_alarm / (false_alarm + missed)


def decisions(
    probability: Float[np.ndarray, " n"], happened: Bool[np.ndarray, " n"], missed: float, false_alarm: float
) -> Decisions:
    """Return what it would have cost to act wherever an event was likely enough: see `cost_threshold`.

    Parameters
    ----------
    probability
        Of an event in each row, as it was predicted.
    happened
        In which rows it came.
    missed, false_alarm
        As in `cost_threshold`.

    Raises
    ------
    ValueError
        If there is no row, or a cost is not finite and above 0.
    """
    threshold, rows = cost_threshold(missed, false_alarm), len(probability)
    if not rows:
        raise ValueError("probability: expected at least one row, got none")
    act = probability >= threshold
    lost, alarms = int(np.sum(happened & ~act)), int(np.sum(act & ~happened))
    events = int(np.sum(happened))
    cost = (missed * lost + false_alarm * alarms) / rows
    never, always = missed * events / rows, false_alarm * (rows - events) / rows
    return Decisions(threshold, cost, never, always, lost, alarms, rows)
