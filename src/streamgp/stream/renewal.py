"""When experts are fitted anew, and to which rows."""

import math
from dataclasses import replace

import jax
import numpy as np

from streamgp.core import Info
from streamgp.models.base import RenewingFamily, WarmupRows
from streamgp.numerics.threads import one_blas_thread
from streamgp.precision import in_float64
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState

GROWTH = 1.25  # from one renewal to the next


def renewal_at(settings: StreamSettings, rows: int) -> int | None:
    """Return the number of the renewal, from 1, that is due after so many rows; None where none is."""
    k = round(math.log(max(rows / settings.warmup, 1.0), GROWTH))
    return k if settings.spec.renew and k > 0 and rows == _due(settings, k) else None


def next_renewal(settings: StreamSettings, rows: int) -> float:
    """Return the next row count at which a renewal is due; infinite where none ever is."""
    if not settings.spec.renew:
        return math.inf
    k = max(math.floor(math.log(max(rows / settings.warmup, 1.0), GROWTH)), 0)
    return next(due for due in (_due(settings, k + i) for i in range(4)) if due > rows)


def _due(settings: StreamSettings, number: int) -> int:
    """Return after how many rows a renewal is due."""
    return math.ceil(settings.warmup * GROWTH**number)


def with_rows(state: StreamState, rows: RawRows, info: Info) -> StreamState:
    """Return the state with rows that were learnt in its reservoir, those left out that were outliers."""
    if state.reservoir is None:
        return state
    kept = rows if info.flagged is None else rows.part(~np.asarray(info.flagged))
    return replace(state, reservoir=state.reservoir.add(kept))


def renewed(settings: StreamSettings, state: StreamState) -> StreamState:
    """Return the state with new experts, where some are due."""
    number = renewal_at(settings, state.rows)
    if number is None or state.reservoir is None:
        return state
    return refitted(settings, state, number)


@in_float64
def refitted(settings: StreamSettings, state: StreamState, number: int) -> StreamState:
    """Return the state with experts fitted to the reservoir; at the end of the warm-up the number is 0."""
    family = settings.family
    assert state.reservoir is not None and isinstance(family, RenewingFamily)
    X, y, times = state.reservoir.rows()
    targets = np.asarray((y - state.targets.mean) / state.targets.scale)
    rows = WarmupRows(state.inputs.standardised(X), targets, state.num_classes, 1.0)
    with one_blas_thread():
        model, model_state = jax.block_until_ready(
            family.renew(
                settings.spec, state.model, state.model_state, rows, times, number=number, seed=settings.seed
            )
        )
    return replace(state, model=model, model_state=model_state)
