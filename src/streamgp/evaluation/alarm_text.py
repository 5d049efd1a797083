"""The text of an alarm, in one sentence."""

import numpy as np
from jaxtyping import Float

from streamgp.evaluation.metrics.shares import in_percent
from streamgp.evaluation.moves import Move
from streamgp.numerics.formats import clock, number, plural


def describe(
    kind: str,
    since: int,
    mean: Float[np.ndarray, " m"],
    target: str | None,
    *,
    value: float = np.nan,
    missing: bool = False,
) -> str:
    """Return what has changed, from the averages of the statistics of its test since it probably began.

    Parameters
    ----------
    kind, since
        Those of the alarm.
    mean
        The averages.
    target
        The name of a target, where there are several.
    value, missing
        Of a run: the last target, and whether targets are missing, rather than rows.
    """
    of = f" of {target}" if target is not None else ""
    about = f"since about row {since:,}"
    match kind:
        case "level":
            side = "above" if mean[0] > 0.0 else "below"
            shift = _number(abs(mean[0]))
            return f"{about} the targets{of} lie {side} what is predicted, by {shift} standard deviations on average"
        case "scale":
            ratio = float(np.sqrt(mean[1]))
            times = _number(ratio if ratio > 1.0 else 1.0 / max(ratio, 1e-9))
            return f"{about} the errors{of} are {times} times {'larger' if ratio > 1.0 else 'smaller'} than predicted"
        case "dependence":
            what = "have the same sign as the one before" if mean[2] > 0.5 else "change their sign"
            share = max(mean[2], 1.0 - mean[2])
            return f"{about} {100 * share:.0f}% of the errors{of} {what}, where half should"
        case "shape":
            tenths = 10.0 * mean[3:]
            place = int(np.argmax(tenths))
            times, where = _number(tenths[place]), _where(place, len(tenths))
            return f"{about} the targets{of} fall {times} times as often as predicted {where}"
        case "score":
            return f"{about} naive forecasts are better than the model, by {_number(mean[0])} nats a row"
        case "stuck":
            return f"since row {since:,} the target{of} has stood still at {value:.6g}"
        case _ if missing:
            return f"since row {since:,} the target{of} is missing"
        case _:
            return f"before row {since:,} no row came for unusually long"


def describe_coverage(group: str, since: int, coverage: float, level: float, target: str | None) -> str:
    """Return which rows a model's own band has covered otherwise than it says."""
    of = f" of {target}" if target is not None else ""
    return (
        f"rows with {group} have been covered {100 * coverage:.0f}% since about row {since:,}, "
        f"where the model's own bands{of} say {in_percent(level)}"
    )


def describe_move(move: Move, row: int, time: float | None, target: str | None) -> str:
    """Return what changed suddenly, where, and whether the model has followed; `row` and `time` are the alarm's."""
    of = f" of {target}" if target is not None else ""
    at = f"row {move.since:,}" if move.time is None else f"{clock(move.time)} (row {move.since:,})"
    match move.kind:
        case "level":
            what = f"the level{of} moved by {_signed(move)} at {at}"
        case "slope" if (move.size or 0.0) > 0.0:
            what = f"since {at} the targets{of} lie further from their mean than predicted, on the same side of it"
        case "slope":
            what = f"since {at} the targets{of} lie nearer to their mean than predicted, or on its other side"
        case _:
            size = "" if move.size is None else f"{_number(move.size)} times "
            return f"since {at} the errors{of} are {size}larger than predicted"
    if move.followed is not None:
        return f"{what}, followed after {plural(move.followed, 'row')}"
    now = f"row {row:,}" if time is None else f"{clock(time)} (row {row:,})"
    return f"{what}, not followed by {now}"


def _signed(move: Move) -> str:
    if move.size is None:
        return f"{move.deviations:+.2g} standard deviations".replace("-", "\N{MINUS SIGN}")
    return number(move.size) if move.size < 0.0 else f"+{number(move.size)}"


def _where(place: int, places: int) -> str:
    ends = {0: "into the lowest tenth of their range", places - 1: "into the highest tenth of their range"}
    return ends.get(place, f"between the {10 * place}% and {10 * (place + 1)}% quantiles")


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"
