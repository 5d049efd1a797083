"""The usual step from one row of a key to the next: a gap, or so many months where all dates are of the same day.

Where times have a zone, months and whole days are those of its clocks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.calendar import DAY

LAST_DAY = 31


@register
@dataclass(frozen=True)
class Steps:
    """How far apart the rows of a key are.

    Attributes
    ----------
    unit
        The median gap, in the unit of times.
    months
        How many months a step is; 0 where it is the gap.
    day
        Of the month, or its last one if it is shorter; 31: always the last.
    """

    unit: float
    months: int = 0
    day: int = 0

    @classmethod
    def of(cls, key: Int[np.ndarray, " n"], times: Float[np.ndarray, " n"], dated: bool, zone: str | None) -> "Steps":
        """Find the steps between rows; a day, or one, where no key has two."""
        order = np.argsort(key, kind="stable")
        follows = np.diff(key[order]) == 0
        gaps = np.diff(times[order])[follows]
        if not len(gaps):
            return cls(DAY if dated else 1.0)
        unit = float(np.median(gaps))
        if not dated or unit < 27.0 * DAY:
            return cls(unit)
        month, day, length, _ = _split(_on_the_clock(times[order], zone))
        between = np.diff(month)[follows]
        usual = LAST_DAY if (day == length).all() else int(day.max())
        if (between < 1).any() or (day != np.minimum(usual, length)).any():
            return cls(unit)
        return cls(unit, max(round(float(np.median(between))), 1), usual)

    def after(self, last: Float[np.ndarray, " k"], h: int, zone: str | None) -> Float[np.ndarray, "k h"]:
        """Return the times of the next h rows of keys whose last rows were at these."""
        ahead = np.arange(1, h + 1)
        if self.months:
            month, _, _, rest = _split(_on_the_clock(last, zone))
            first, length = _month(month[:, None] + self.months * ahead)
            return _off_the_clock((first + np.minimum(self.day, length) - 1) * DAY + rest[:, None], zone)
        if zone is None or self.unit % DAY:
            return last[:, None] + self.unit * ahead
        return _off_the_clock(_on_the_clock(last, zone)[:, None] + self.unit * ahead, zone)


def _month(month: Int[np.ndarray, "..."]) -> tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]:
    """Return the first day of months since 1970, in days since then, and how many days they have."""
    first, after = (
        each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for each in (month, month + 1)
    )
    return first, after - first


def _split(times: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the months of times, the days of the month from 1 on, how many days that has, and seconds of the day."""
    days = np.floor(times / DAY)
    month = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    first, length = _month(month)
    return month, days.astype(np.int64) - first + 1, length, times - days * DAY


def _on_the_clock(times: Float[np.ndarray, " n"], zone: str | None) -> Float[np.ndarray, " n"]:
    """Return times, which are seconds of UTC, in seconds as the clocks of a zone showed them."""
    if zone is None:
        return times
    stamps = _stamps(times).dt.replace_time_zone("UTC").dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return _seconds(stamps)


def _off_the_clock(times: Float[np.ndarray, "k h"], zone: str | None) -> Float[np.ndarray, "k h"]:
    """Return what `_on_the_clock` is the other way round; of an hour that comes twice the first, or the next one."""
    if zone is None:
        return times
    stamps = _stamps(times.ravel())
    local: Any = stamps.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    later: Any = stamps.dt.offset_by("1h").dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return _seconds(local.fill_null(later).dt.convert_time_zone("UTC")).reshape(times.shape)


def _stamps(times: Float[np.ndarray, " n"]) -> pl.Series:
    return pl.Series(np.round(times * 1e6).astype(np.int64)).cast(pl.Datetime("us"))


def _seconds(stamps: pl.Series) -> Float[np.ndarray, " n"]:
    return stamps.dt.timestamp("us").to_numpy() / 1e6
