"""Inputs that were taken for missing, and that their targets say were real."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from streamgp.models.contract import Info
from streamgp.stream.bounds import SURPRISES
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

SURPRISING = 4.0  # standard deviations off


def surprised(
    settings: StreamSettings, state: StreamState, rows: RawRows, info: Info
) -> tuple[int, Int[np.ndarray, " d"] | None]:
    """Return how many of the rows it takes until an input in doubt is to be believed: all, if none is.

    Return also how many surprises each column has had by then, or None where nothing was in doubt. An input that
    stands for a missing one leaves its targets as likely as ever; one that is real, as of a machine that is switched
    off, makes each of them a surprise.
    """
    n = len(rows.X)
    if settings.horizon or not (state.is_warmed_up and state.model.takes_extra_variance):
        return n, None
    doubtful = state.inputs.doubtful(rows.X)
    if not doubtful.any():
        return n, None
    off = np.abs(rows.y - np.asarray(info.predictive.mean)) / np.asarray(info.predictive.std)
    surprising: np.ndarray = np.any(off > SURPRISING, axis=1)
    count = np.asarray(state.inputs.bounds.surprises)
    for row in np.flatnonzero(doubtful.any(axis=1)):
        count = np.where(doubtful[row], count + 1 if surprising[row] else 0, count)
        if (count >= SURPRISES).any():
            return int(row) + 1, count
    return n, count


def with_surprises(state: StreamState, last: np.ndarray, count: Int[np.ndarray, " d"] | None) -> StreamState:
    """Return the state after a row (1, D) with what `surprised` found."""
    return state if count is None else replace(state, inputs=state.inputs.surprised(last, count))
