"""Products of two inputs as features: what bends, and what depends on the hour, the season or the last target."""

import numpy as np
from jaxtyping import Float, Int

from streamgp.table.calendar import WEEKEND, calendar_width

# In products a value counts as at most so many scales out.
FAR = 6.0
# How many products there are at most; those that come last are left out.
MOST = 36
# The cycles whose waves, the slow ones first, are multiplied by inputs.
SEASONS = ("year", "day", "day/2", "day/3", "day/4")
DAYS = SEASONS[1:]

Pairs = Int[np.ndarray, "p 2"]


def chosen(lags: int, calendar: tuple[str, ...], inputs: int, with_lag: bool) -> Pairs:
    """Return which standardised inputs are multiplied: numbers of so many lags, of the calendar, then of `inputs`.

    Squares of inputs; the last target by each, `with_lag`; the weekend by the waves of the day; the waves of year and
    day by each input.
    """
    places, at = dict[str, list[int]](), lags
    for entry in calendar:
        places[entry] = list(range(at, at + calendar_width((entry,))))
        at += len(places[entry])
    numbers = range(at, at + inputs)
    found = [(i, i) for i in numbers]
    if with_lag:
        found += [(0, i) for i in numbers]
    waves_of_day = [wave for entry in DAYS for wave in places.get(entry, [])]
    found += [(weekend, wave) for weekend in places.get(WEEKEND, []) for wave in waves_of_day]
    found += [(wave, i) for entry in SEASONS for wave in places.get(entry, []) for i in numbers]
    return np.array(found[:MOST], np.int64).reshape(-1, 2)


def multiplied(Z: Float[np.ndarray, "n z"], pairs: Pairs) -> Float[np.ndarray, "n p"]:
    """Return the products of standardised inputs."""
    near = np.clip(Z, -FAR, FAR)
    return near[:, pairs[:, 0]] * near[:, pairs[:, 1]]


def slopes(Z: Float[np.ndarray, "n z"], pairs: Pairs, theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n z"]:
    """Return the derivative of the products' sum, weighted by `theta`, by each standardised input."""
    near, found = np.clip(Z, -FAR, FAR), np.zeros_like(Z)
    inside = np.abs(Z) < FAR
    for by, other in (pairs.T, pairs.T[::-1]):
        np.add.at(found.T, by, (theta * near[:, other] * inside[:, by]).T)
    return found
