"""The calendar as inputs: where in a day, a week, a month and a year a time lies, and whether on a holiday."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from streamgp.numerics.coding import cycle

DAY = 86_400.0
# Lengths in seconds; those of months and of years are the Gregorian mean.
CYCLES = {"day": DAY, "week": 7.0 * DAY, "month": 2_629_746.0, "year": 31_556_952.0}
AUTO, NONE = "auto", "none"
WEEKEND = "weekend"  # an entry whose input is 1 on Saturdays and Sundays, and else 0
HOLIDAYS = "holidays "  # with a country, the entry of a calendar whose input is 1 on these days, and else 0


def calendar_names(name: str, calendar: Sequence[str]) -> list[str]:
    """Return the names of the columns that a column of times becomes by the entries of a calendar."""
    found: list[str] = []
    for entry in calendar:
        found += (
            [f"{name} {part} of {entry}" for part in ("sine", "cosine")] if entry in CYCLES else [f"{name} {entry}"]
        )
    return found


def calendar_columns(times: Float[np.ndarray, " n"], calendar: Sequence[str]) -> Float[np.ndarray, "n w"]:
    """Return the same columns of times in seconds since 1970, UTC; NaN for NaN.

    A month goes from its first day to its last, of whatever length; the other cycles have one length. An entry such
    as ``day/3`` is a cycle three times as fast: with some of them, the day may have any shape.
    """
    parts = [np.empty((len(times), 0))]
    for entry in calendar:
        name, times_faster = _cycle_of(entry)
        if name == "month":
            parts.append(cycle(times_faster * _months(times), 1.0))
        elif name in CYCLES:
            parts.append(cycle(times, CYCLES[name] / times_faster))
        elif name == WEEKEND:
            # 1970 began on a Thursday.
            parts.append((np.floor(times / DAY + 3.0) % 7.0 >= 5.0).astype(np.float64)[:, None])
        else:
            parts.append(_on_holidays(times, entry.removeprefix(HOLIDAYS))[:, None])
    return np.concatenate(parts, axis=1)


def calendar_width(calendar: Sequence[str]) -> int:
    """Count these columns."""
    return sum(2 if _cycle_of(entry)[0] in CYCLES else 1 for entry in calendar)


def _cycle_of(entry: str) -> tuple[str, int]:
    """Return the name of an entry's cycle, and how many times as fast it is."""
    name, _, faster = entry.partition("/")
    return name, int(faster or 1)


def _dates(times: Float[np.ndarray, " n"], unit: str) -> np.ndarray:
    """Return the days or months of times; of those that are no date, or beyond all calendars, not-a-time."""
    usable = np.abs(times) < 1e11  # some 3,000 years
    seconds = np.where(usable, times, 0.0).astype("datetime64[s]")
    return np.where(usable, seconds.astype(f"datetime64[{unit}]"), np.datetime64("NaT"))


def _months(times: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return how far through its month each time is, from 0 to 1."""
    first = _dates(times, "M").astype("datetime64[M]")
    start, end = ((first + more).astype("datetime64[s]") for more in (0, 1))
    share = (np.nan_to_num(times) - start.astype(np.float64)) / (end - start).astype(np.float64)
    return np.where(np.isnat(first), np.nan, share)


def _on_holidays(times: Float[np.ndarray, " n"], country: str) -> Float[np.ndarray, " n"]:
    days = _dates(times, "D").astype("datetime64[D]")
    known = ~np.isnat(days)
    years = np.unique(days[known].astype("datetime64[Y]").astype(int) + 1970).tolist()
    every = np.array([day for year in years for day in holidays_of(country, year)], "datetime64[D]")
    return np.where(known, np.isin(days, every), np.nan)


@lru_cache(maxsize=1_000)
def holidays_of(country: str, year: int) -> tuple[str, ...]:
    """Return the public holidays of a year, as ISO dates, by the package `holidays`.

    Parameters
    ----------
    country
        Its ISO 3166-1 code, such as DE, and if need be one of its parts: DE-BY.
    year
        Of the Gregorian calendar.

    Raises
    ------
    ValueError
        If the package is not installed, or does not know the country or the part.
    """
    try:
        import holidays
    except ImportError:
        raise ValueError("holidays: expected the package holidays; pip install 'streamgp[holidays]'") from None
    place, _, part = country.partition("-")
    try:
        found = holidays.country_holidays(place, subdiv=part or None, years=year)
    except NotImplementedError as error:
        raise ValueError(
            f"holidays: expected the code of a country, such as DE or DE-BY, got {country!r}: {error}"
        ) from None
    return tuple(day.isoformat() for day in sorted(found))
