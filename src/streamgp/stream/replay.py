"""Which rows are learnt when labels come late, and which states are remembered to go back to."""

from collections.abc import Mapping, Sequence

import numpy as np

from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import WaitingRow
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

KEPT_STATES = 4  # between the oldest and the newest, which the learner has itself
BLOCK = 64  # rows learnt between two states that may be kept

Known = tuple[int, StreamState]
"""What is known when all labels that have come of the rows before a number are learnt."""


def to_learn(settings: StreamSettings, rows: Mapping[int, WaitingRow], at: int, end: int) -> list[int]:
    """Return which rows up to `end` are learnt.

    Where past targets are inputs, a row without a label is one that is passed over.
    """
    return [number for number in range(at, end) if settings.spec.looks_back or rows[number].is_labelled]


def thinned(states: Sequence[Known], next_row: int) -> list[Known]:
    """Return so many states as may be kept, in ascending order: the older, the fewer."""
    kept = list(states[: KEPT_STATES + 1])
    for each in states[KEPT_STATES + 1 :]:
        kept.append(each)
        age = [next_row + 1 - end for end, _ in kept]
        # Without one of them, a label in the gap costs more by this factor.
        gaps = [age[i - 1] / age[i + 1] for i in range(1, len(age) - 1)]
        del kept[1 + int(np.argmin(gaps))]
    return kept


def due_fit(
    settings: StreamSettings,
    rows: Mapping[int, WaitingRow],
    at: int,
    known: StreamState | StreamLearner,
    next_row: int,
    enough: int | None,
) -> tuple[int, int | None]:
    """Return up to which row none is waited for any more, as the fit is due; 0 while it is not.

    `known` is what is known of the rows before `at`, of which none waits. `enough` is how many rows had come when
    there were enough labels for the fit, which is returned too.
    """
    if known.is_warmed_up:
        return 0, enough
    labelled = [number for number, row in rows.items() if number >= at and row.is_labelled]
    needed = settings.warmup - known.rows
    if len(labelled) < needed:
        return 0, enough
    enough = next_row if enough is None else enough
    return labelled[needed - 1] + 1 if next_row >= enough + settings.warmup // 2 else 0, enough
