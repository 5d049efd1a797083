"""Which cycles of the calendar are worth being inputs, by what the rows of the warm-up tell."""

import numpy as np
from jaxtyping import Float

from streamgp.numerics.coding import harmonics
from streamgp.stream.clock import is_dated
from streamgp.stream.lag_choice import ALL_LEARNT, CLOCK_ERRORS, LONGER_LAGS, Lags, gains, scores
from streamgp.stream.passed_rows import PassedRows
from streamgp.table.calendar import CYCLES, WEEKEND, calendar_columns

LEAST = 4.0  # usual steps of the clock that a cycle must have
_HARMONICS = 3  # by which a regression has the shape of a cycle


def choose_calendar(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n e"],
    lags: Lags,
    times: Float[np.ndarray, " n"],
    horizon: int = 0,
    delay: int = 0,
    passed: PassedRows = ALL_LEARNT,
) -> tuple[str, ...]:
    """Choose cycles by how well regressions on the inputs and them predict the later half of the rows.

    As lags are chosen (see `choose_lags`): the cycle that helps most joins, for a gain that is far beyond its own
    error, and then another one may follow. What a season's lag would tell is not held against them: a model makes
    more of both than a regression, whose weights the few rows with such a lag do not determine.

    Parameters
    ----------
    X, y, horizon, delay, passed
        As those of `choose_lags`.
    lags
        Of the targets, of which the short ones are inputs too.
    times
        Of the rows, in seconds since 1970.

    Returns
    -------
    tuple of str
        Of `streamgp.table.calendar.CYCLES`, in their order.
    """
    rest, found = list(candidates(times)), list[str]()
    lags = tuple(lag for lag in lags if lag - delay <= max(LONGER_LAGS[-1]))

    def score_of(names: list[str]) -> np.ndarray:
        columns = np.column_stack([X, _shape(times, names)]) if names else X
        return scores(columns, y, lags, horizon, delay, passed=passed)

    score = score_of([])
    while rest:
        each = [score_of([*found, name]) for name in rest]
        worth = [other.sum() if gains(other - score, CLOCK_ERRORS) else -np.inf for other in each]
        best = int(np.argmax(worth))
        if not worth[best] > score.sum():
            break
        score = each[best]
        found.append(rest.pop(best))
    return tuple(name for name in CYCLES if name in found)


def candidates(times: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    """Return the cycles that have some steps of the clock, and that the rows show whole."""
    return tuple(name for name in _with_steps(times) if CYCLES[name] <= np.ptp(times))


def longer_than(times: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    """Return the cycles that the rows are too few to show."""
    return tuple(name for name in _with_steps(times) if CYCLES[name] > np.ptp(times))


def _with_steps(times: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    gaps = np.diff(np.sort(times))
    gaps = gaps[gaps > 0.0]
    if not len(gaps) or not is_dated(times):
        return ()
    return tuple(name for name, length in CYCLES.items() if length >= LEAST * np.median(gaps))


def whole(times: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"] | None:
    """Return times without gaps: what is missing lies between its neighbours; None where all are missing."""
    known = np.isfinite(times)
    if not known.any():
        return None
    rows = np.arange(len(times))
    return times if known.all() else np.interp(rows, rows[known], times[known])


def _shape(times: Float[np.ndarray, " n"], names: list[str]) -> Float[np.ndarray, "n w"]:
    """Return the cycles' harmonics (Fourier series), of which a smooth function of the cycles is a weighted sum.

    Where there are a day and a week, Saturdays and Sundays have a day of another shape.
    """
    parts = {}
    for name in names:
        sine, cosine = calendar_columns(times, [name]).T
        parts[name] = np.concatenate(harmonics(sine, cosine, range(1, _HARMONICS + 1)), axis=1)
    columns = [*parts.values()]
    if {"day", "week"} <= parts.keys():
        weekend = calendar_columns(times, [WEEKEND])
        columns += [weekend, weekend * parts["day"]]
    return np.concatenate(columns, axis=1)
