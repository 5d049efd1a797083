"""The time without rows after which a stream is stale, by its own clock or by the arrival of its rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.service.answers import FIRST_DATE, LAST_DATE

LEAST_SECONDS = 30.0
# Staleness is judged by so many of the latest rows.
ROWS = 2_000
# From so many moments on, the gaps between them are used.
_MOMENTS = 5
# The limits as multiples of the median gap, and of the 90% quantile of the gaps.
_SPACE = (10.0, 4.0)


def stale_after(columns: dict[str, Any], moments: Sequence[float] = ()) -> float | None:
    """Return the seconds without a row after which a stream is stale; None where its latest rows do not say it.

    Rows that came all together, after a backfill, say by their times how far apart such rows are. Where rows have no
    times, or times that are no dates, the moments count at which they came, unless all came within a short while.

    Parameters
    ----------
    columns
        Of the latest rows: ``time`` of each, NaN where it has none, and ``at``, when it came, in seconds since 1970.
    moments
        At some of which earlier ones came.
    """
    if not len(columns.get("row", ())):
        return None
    came = np.unique(np.round([*moments, *np.asarray(columns["at"], dtype=float)], 1))
    by_arrival, by_clock = _usual(came), _usual(_dates(columns["time"]))
    if by_arrival is not None and came[-1] - came[0] < LEAST_SECONDS:  # a burst says nothing of what is usual
        by_arrival = None
    found = [each for each in (by_clock, by_arrival) if each is not None]
    return max(found) if found else None


def _usual(moments: np.ndarray) -> float | None:
    """Return a limit from the gaps between moments that differ, in order."""
    if len(moments) < _MOMENTS:
        return None
    gaps = np.diff(moments)
    return float(max(LEAST_SECONDS, _SPACE[0] * np.median(gaps), _SPACE[1] * np.quantile(gaps, 0.9)))


def _dates(times: Any) -> np.ndarray:
    """Return the different times in seconds, in order; none where they are no dates, in seconds or milliseconds."""
    found = np.unique(np.asarray(times, dtype=float))
    found = found[np.isfinite(found)]
    for scale in (1.0, 1_000.0):
        if len(found) and found[0] / scale >= FIRST_DATE and found[-1] / scale < LAST_DATE:
            return found / scale
    return np.empty(0)
