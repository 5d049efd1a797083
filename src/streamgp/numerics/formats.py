"""Numbers, counts, shares and times as people read them."""

import math
from datetime import UTC, datetime


def number(value: float | int | None, digits: int = 4) -> str:
    """Return a number with `digits` significant digits; a dash where there is none."""
    if value is None:
        return "–"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-3 <= size < 1e7:
        text = f"{value:.3g}"
    elif size >= 10**digits:
        text = f"{value:,.0f}"
    else:
        # Trailing zeros stay: they show how precisely the number is known, and columns line up.
        decimals = digits - 1 - math.floor(math.log10(size))
        text = f"{value:,.{max(decimals, 0)}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def plural(count: int, noun: str) -> str:
    """Return a counted noun, ``1 row`` or ``1,000 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def share(value: float | int | None) -> str:
    """Return a share as a percentage with one decimal; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.1f}%"


def signed_share(value: float) -> str:
    """Return a share as a percentage, with the sign of a negative one."""
    return share(value).replace("-", "\N{MINUS SIGN}")


def clock(value: float) -> str:
    """Return a time stamp as a date where it can only be seconds since 1970, else as the number it is."""
    if 1e8 <= value < 1e10:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{value:g}"


def clock_within(value: float, first: float, last: float) -> str:
    """Return a time stamp as short as a chart from `first` to `last` allows."""
    if not (1e8 <= first < 1e10 and 1e8 <= last < 1e10):
        return f"{value:g}"
    days = (last - first) / 86400.0
    style = "%Y" if days > 3000 else "%Y-%m" if days > 150 else "%m-%d" if days > 6 else "%m-%d %H:%M"
    return datetime.fromtimestamp(value, UTC).strftime(style)
