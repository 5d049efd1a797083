"""How many rows there are in a minute, an hour, a day, a week and a year, by the times of the rows.

Rows are counted, so that a week of working days has five and a year of months twelve, whatever their lengths; gaps
matter as far as they fall within most of the cycles.
"""

import numpy as np
from jaxtyping import Float

MINUTE, HOUR, DAY, WEEK = 60.0, 3_600.0, 86_400.0, 604_800.0
# Of each cycle its length in seconds, and the fewest rows that it must have: an hour of four quarters is no season.
CYCLES = {
    "minute": (MINUTE, 12),
    "hour": (HOUR, 12),
    "day": (DAY, 4),
    "week": (WEEK, 4),
    "year": (365.2425 * DAY, 4),
}
EPOCH = 1e7  # seconds from 1970; times nearer to it are taken for plain numbers
MOST = 0.5  # of the rows must have one that lies a cycle after them, so many rows later
SEEN = 8  # rows that must have one
STEADY = 0.1  # of the usual gap, by which most gaps of a steady clock differ at most


def is_steady(times: Float[np.ndarray, " n"]) -> bool:
    """Return whether most rows follow each other at the usual gap."""
    gaps = np.diff(times)
    gaps = gaps[gaps > 0.0]
    return not len(gaps) or bool(np.mean(np.abs(gaps / np.median(gaps) - 1.0) <= STEADY) >= MOST)


def is_dated(times: Float[np.ndarray, " n"]) -> bool:
    """Return whether times are of a calendar: seconds since 1970."""
    return len(times) > 1 and bool(np.abs(times).min() >= EPOCH)


def rows_by_cycle(times: Float[np.ndarray, " n"]) -> tuple[int, ...]:
    """Return how many rows a cycle has, of those in which the rows come in step, the shortest first."""
    return tuple(cycles_by_rows(times))


def cycles_by_rows(times: Float[np.ndarray, " n"]) -> dict[int, str]:
    """Return the names of these cycles, by how many rows they have."""
    gaps = np.diff(times)
    gaps = gaps[gaps > 0.0]
    is_first = np.diff(times, prepend=-np.inf) > 0.0  # of the rows of its time
    found: dict[int, str] = {}
    for name, (cycle, least) in CYCLES.items() if len(gaps) else ():
        half = 0.5 * min(float(np.median(gaps)), cycle)
        after = np.searchsorted(times, times + cycle - half)
        starts = np.flatnonzero((after < len(times)) & is_first)
        if len(starts) < SEEN:
            continue
        rows = int(np.median(after[starts] - starts))
        starts = starts[starts + rows < len(times)]
        off = np.abs(times[starts + rows] - times[starts] - cycle)
        if rows >= least and len(starts) and np.mean(off <= half) >= MOST:
            found.setdefault(rows, name)
    return found
