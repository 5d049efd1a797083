"""Times in steps, where a step is the usual time between a user's trials."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.numerics.checkpoint.encoding import register

# The unit of time is the median of so many gaps.
_RECENT = 50


@register
@dataclass(frozen=True, eq=False)
class Clock:
    """A converter of times into steps.

    Attributes
    ----------
    unit
        How much time is a step; None: the median gap of the last trials that were not at one time.
    last
        When the last trial was.
    gaps
        The last few gaps, where `unit` is not given.
    """

    unit: float | None = None
    last: float = 0.0
    gaps: Float[np.ndarray, " g"] = field(default_factory=lambda: np.zeros(0))

    def advance(self, time: float | None, first: bool) -> tuple["Clock", float]:
        """Return the clock after a trial at a time, and how many steps that took; None is one step after the last.

        The `first` trial is one step after nothing. A gap counts by the unit that it is a part of, so that what is
        usual may change, and the first gap of all is one step.
        """
        if time is None:
            return replace(self, last=self.last + self._unit), 1.0
        if first:
            return replace(self, last=time), 1.0
        gap = time - self.last
        gaps = np.append(self.gaps, gap)[-_RECENT:] if self.unit is None and gap > 0.0 else self.gaps
        clock = replace(self, last=time, gaps=gaps)
        return clock, gap / clock._unit

    @property
    def _unit(self) -> float:
        if self.unit is not None:
            return self.unit
        return float(np.median(self.gaps)) if len(self.gaps) else 1.0


def as_unit(unit: Any) -> float | None:
    """Convert a time unit that the user gave to seconds, or leave it in whatever times are in.

    Raises
    ------
    ValueError
        If it is no time span.
    """
    if unit is None:
        return None
    if isinstance(unit, np.timedelta64):
        unit = unit / np.timedelta64(1, "s")
    try:
        seconds = unit.total_seconds() if isinstance(unit, timedelta) else float(unit)
    except (TypeError, ValueError):
        seconds = np.nan
    if isinstance(unit, bool) or not 0.0 < seconds < np.inf:
        raise ValueError(f"time_unit: expected a positive number, a timedelta or None, got {unit!r}")
    return seconds


def as_times(t: Any, n: int, last: float, name: str = "t") -> list[float]:
    """Convert to n times that never go back, nor before the last; dates and datetimes as seconds since 1970.

    Raises
    ------
    ValueError
        If they are something else.
    """
    given = [t] if n == 1 and np.ndim(t) == 0 else list(t) if np.ndim(t) == 1 else []
    if len(given) != n:
        raise ValueError(f"{name}: expected {n} times, one per point, got shape {np.shape(t)}")
    times = []
    for i, one in enumerate(given):
        label = name if n == 1 else f"{name}[{i}]"
        time = _as_number(one, label)
        if not np.isfinite(time) or time < last:
            raise ValueError(
                f"{label}: expected a finite number, at least {last:.15g}, the time of the last, got {one!r}; "
                f"leave t out where only the order is known"
            )
        times.append(time)
        last = time
    return times


def _as_number(t: Any, name: str) -> float:
    try:
        if isinstance(t, np.datetime64):
            return np.nan if np.isnat(t) else float((t - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
        if isinstance(t, datetime):
            return (t if t.tzinfo else t.replace(tzinfo=UTC)).timestamp()
        return float(t)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a number, such as seconds since 1970, or a datetime, got {t!r}") from None
