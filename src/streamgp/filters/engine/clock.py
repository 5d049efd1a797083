"""Time along a stream: in rows, or by the rows' own time stamps in units of a time step."""

import sys

import numpy as np
from jaxtyping import Bool, Float

from streamgp.numerics.arrays import AnyArray, namespace


def elapsed(
    time_unit: AnyArray,
    last_time: AnyArray,
    X: Float[AnyArray, "n d"],
    times: Float[AnyArray, " n"] | None,
    horizon: int = 0,
) -> Float[AnyArray, " n"]:
    """Return the time from the last row learnt to each row of `X`: one or the horizon without time stamps."""
    xp = namespace(X, last_time)
    if times is None:
        return xp.full(X.shape[0], max(horizon, 1), X.dtype)
    since = xp.maximum((times - last_time) / xp.asarray(time_unit), 0.0)
    return xp.where(xp.isnan(last_time), 1.0, since)


def advance(
    time_unit: AnyArray,
    last_time: AnyArray,
    mask: Bool[AnyArray, " n"],
    times: Float[AnyArray, " n"] | None,
) -> tuple[Float[AnyArray, " n"], Float[AnyArray, ""]]:
    """Return the time since the last row learnt before these rows, in units, and the new last time.

    The clock stands still on rows left out, and on rows that come later than their time stamp.
    """
    xp = namespace(mask, last_time)
    unit = xp.asarray(time_unit)
    if times is None:
        return xp.cumsum(mask).astype(unit.dtype), last_time
    # The very first row of a stream comes one unit after an unobserved start.
    first = times[xp.argmax(mask)] - unit
    last = xp.where(xp.isnan(last_time), first, last_time)
    clock = xp.maximum(xp.where(mask, (times - last) / unit, 0.0), 0.0)
    newest = xp.maximum(last, xp.max(xp.where(mask, times, -xp.inf)))
    running = np.maximum.accumulate(clock) if xp is np else sys.modules["jax"].lax.cummax(clock)
    return running, xp.where(mask.any(), newest, last_time)
