"""Labelled rows learnt in their order from a state that is remembered, and which states are."""

from collections.abc import Mapping, Sequence

import numpy as np

from streamgp.stream.learner import StreamLearner
from streamgp.stream.outlook import WaitingRow, as_raw
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

KEPT_STATES = 4  # between the oldest and the newest
BLOCK = 64  # rows learnt anew between two states that may be kept

Known = tuple[int, StreamState]
"""What is known when all labels that have come of the rows before a number are learnt."""


def replayed(
    learner: StreamLearner, rows: Mapping[int, WaitingRow], begin: Known, end: int, *, warming_up: bool
) -> list[Known]:
    """Return what is known after blocks of the rows up to `end`; unless `warming_up`, before the warm-up's last.

    Where past targets are inputs, a row without a label is one that is passed over.
    """
    settings, (at, state), found = learner.settings, begin, []
    learner = learner.at(settings, state, learner.progress)
    new = [number for number in range(at, end) if settings.spec.lags or rows[number].is_labelled]
    while new:
        free = warming_up or state.is_warmed_up
        part = new[: BLOCK if free else min(BLOCK, settings.warmup - 1 - state.rows)]
        if not part:
            return found
        block = as_raw([rows[each] for each in part], learner.timed)
        info, state = learner.learn_leading(block), learner.state
        at, new = part[len(info.outside) - 1] + 1, new[len(info.outside) :]
        found.append((at, state))
    return [*found, (end, state)] if at < end else found


def thinned(states: Sequence[Known], next_row: int) -> list[Known]:
    """Return so many states as may be kept, in ascending order: the older, the fewer."""
    kept = list(states[: KEPT_STATES + 2])
    for each in states[KEPT_STATES + 2 :]:
        kept.append(each)
        age = [next_row + 1 - end for end, _ in kept]
        # Without one of them, a label in the gap costs more by this factor.
        gaps = [age[i - 1] / age[i + 1] for i in range(1, len(age) - 1)]
        del kept[1 + int(np.argmin(gaps))]
    return kept


def due_fit(
    settings: StreamSettings, rows: Mapping[int, WaitingRow], oldest: Known, next_row: int, enough: int | None
) -> tuple[int, int | None]:
    """Return up to which row none is waited for any more, as the fit is due; 0 while it is not.

    `enough` is how many rows had come when there were enough labels for it, which is returned too.
    """
    at, state = oldest
    if state.is_warmed_up:
        return 0, enough
    labelled = [number for number, row in rows.items() if number >= at and row.is_labelled]
    needed = settings.warmup - state.rows
    if len(labelled) < needed:
        return 0, enough
    enough = next_row if enough is None else enough
    return labelled[needed - 1] + 1 if next_row >= enough + settings.warmup // 2 else 0, enough
