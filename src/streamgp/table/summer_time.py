"""Local times without a zone at the end of summer time, when an hour comes twice."""

from datetime import UTC, datetime

_HOUR = 3600.0
_MONTHS = (3, 4, 9, 10, 11)  # in which clocks are set back somewhere
_SATURDAY, _SUNDAY = 5, 6

SET_BACK = (
    "the clock seems to have been set back at the end of summer time, which local times do not tell: give times in "
    "UTC or with their offset, as 2024-10-27T02:00:00+01:00 (to sort them would mix the two hours)"
)


def advise_on_order(before: float, after: float, usual: str, dated: bool = True) -> str:
    """Say what to do about a time that does not follow the one before.

    Parameters
    ----------
    before, after
        The two times, in seconds since 1970 where they are dates.
    usual
        What to do unless it looks as if a clock was set back.
    dated
        Whether they are dates.
    """
    return SET_BACK if dated and _may_be_set_back(before, after) else usual


def _may_be_set_back(before: float, after: float) -> bool:
    """Return whether a time is at most an hour before the last one, in a night in which clocks may be set back."""
    if not 0.0 <= before - after <= _HOUR:
        return False
    moment = datetime.fromtimestamp(after, UTC)
    if moment.month not in _MONTHS:
        return False
    is_midnight = moment.hour == 0 and before == after  # a day that is there twice
    in_the_night = moment.weekday() == _SUNDAY and moment.hour < 3 and not is_midnight
    return in_the_night or (moment.weekday() == _SATURDAY and moment.hour == 23)
