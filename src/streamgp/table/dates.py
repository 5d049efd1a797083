"""Dates as text: which part comes first, and why some cannot be read."""

import re
from collections.abc import Iterable
from typing import Literal

# What dates with the year at their end begin with; "" where there are none, or where nothing tells.
Order = Literal["", "day", "month"]

IS_CLOCK = "it holds times of day without a date"
IS_UNSURE = "its dates may begin with the day or with the month"
NO_DATE = (
    "they hold times of day without a date, or dates that may begin with the day or with the month; write both in "
    "one column, as 2024-01-31T12:00:00"
)

_DAYS = r"(?P<a>\d{1,4})(?P<mark>[-/.])(?P<b>\d{1,2})(?P=mark)(?P<c>\d{1,4})"
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<rest>\d{2}(?::\d{2}(?:[.,]\d+)?)?)\s*(?P<half>[AaPp][Mm])?"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)
_DATE = re.compile(rf"{_DAYS}(?:(?:T|\s+){_CLOCK})?")
_CLOCK_ALONE = re.compile(_CLOCK)


def find_order(cells: Iterable[object]) -> Order:
    """Return what the dates of a column begin with, of those that have the year at their end.

    A part above 12 is a day, and between dots the day is first; one that can be either is never guessed.
    """
    found: set[Order] = set()
    for cell in cells:
        if (date := _year_last(cell)) is None:
            continue
        first, second = int(date["a"]), int(date["b"])
        if date["mark"] == "." or first > 12:
            found.add("day")
        elif second > 12:
            found.add("month")
    return found.pop() if len(found) == 1 else ""


def to_iso(text: str, order: Order = "") -> str:
    """Write a date as ISO 8601 has it; leave all else as it is, a date of which the order is not known too."""
    date = _DATE.fullmatch(text)
    if date is None:
        return text
    first, second, third = date["a"], date["b"], date["c"]
    if len(first) == 4 and len(third) <= 2:
        year, month, day = first, second, third
    elif _year_last(text) and order:
        day, month = (first, second) if order == "day" else (second, first)
        year = third
    else:
        return text
    days = f"{year}-{month:0>2}-{day:0>2}"
    if date["hour"] is None:
        return days
    hour = int(date["hour"])
    if date["half"] is not None:
        if not 1 <= hour <= 12:
            return text
        hour = hour % 12 + 12 * (date["half"].lower() == "pm")
    return f"{days}T{hour:02d}:{date['rest'].replace(',', '.')}{date['zone'] or ''}"


def advise_on_date(cell: object) -> str | None:
    """Say why a text that looks like a date or a time of day is no time stamp, and what to do; None of others."""
    text = cell.strip() if isinstance(cell, str) else ""
    if _CLOCK_ALONE.fullmatch(text):
        return "a time of day alone is no time stamp; write it with its date, as 2024-01-31T12:00:00"
    if _year_last(text) is not None:
        return (
            "that may begin with the day or with the month, and the first rows do not tell; write the year first, as "
            "2024-01-31"
        )
    return None


def why_unreadable(cells: Iterable[object]) -> str | None:
    """Return why a column of texts that look like dates holds no time stamps, as notes on columns say it."""
    advice = next((each for each in map(advise_on_date, cells) if each is not None), None)
    return None if advice is None else IS_CLOCK if advice.startswith("a time of day") else IS_UNSURE


def _year_last(cell: object) -> re.Match[str] | None:
    date = _DATE.fullmatch(cell.strip()) if isinstance(cell, str) else None
    return date if date is not None and len(date["a"]) <= 2 and len(date["c"]) == 4 else None
