"""What an alarm says, in a sentence."""

import numpy as np
from jaxtyping import Float


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


def _where(place: int, places: int) -> str:
    ends = {0: "into the lowest tenth of their range", places - 1: "into the highest tenth of their range"}
    return ends.get(place, f"between the {10 * place}% and {10 * (place + 1)}% quantiles")


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"
