"""The size and the start of a sudden change, and whether the model has followed it."""

from dataclasses import dataclass

import numpy as np

from streamgp.evaluation.move_tests import (
    ERROR,
    FIRST_OFF,
    FIRST_SCORE,
    ROW,
    SIDE,
    TIME,
    USUAL_SIZE,
    Found,
    MoveTests,
)


@dataclass(frozen=True)
class Move:
    """A sudden change.

    Attributes
    ----------
    kind
        ``level``, ``slope`` or ``scale``.
    since, time
        The row of its first error, and its time; None if rows have none.
    size
        Of a level by how much it moved; of errors how many times as large they are, of a slope the share of errors on
        the side of the prediction less that on the other; None where it is not known.
    deviations
        Of a level the same as standard deviations of what was predicted.
    followed
        After how many rows the model's own errors were less than half as large; None: they are not.
    """

    kind: str
    since: int
    time: float | None
    size: float | None
    deviations: float
    followed: int | None


def moved(tests: MoveTests, found: Found) -> Move:
    """Return what is known of a change that was found, from the latest rows."""
    kind, start, reference = found.kind, found.start, found.reference
    latest = tests.latest[~np.isnan(tests.latest[:, ROW])]
    latest = latest[latest[:, ROW] >= start] if np.isfinite(start) else latest[-1:]
    off, scores = latest[:, FIRST_OFF + reference], latest[:, FIRST_SCORE + reference]
    size = float(np.median(off))
    far = np.abs(off) > 0.5 * abs(size) if kind == "level" else np.abs(scores) > 1.0
    first = int(np.argmax(far))
    latest, off, scores = latest[first:], off[first:], scores[first:]
    errors = np.abs(latest[:, ERROR])
    time = float(latest[0, TIME])
    followed: int | None = None
    match kind:
        case "level":
            size = float(np.median(off))
            followed = _followed(errors, 0.5 * np.full(len(off), abs(size)))
        case "slope":
            size = float(np.mean(np.sign(off) * latest[:, SIDE]))
            followed = _followed(errors, 0.5 * np.maximum(np.abs(off), np.median(np.abs(off))))
        case _:
            size = float(np.median(np.abs(scores))) / USUAL_SIZE
    return Move(
        kind,
        int(latest[0, ROW]),
        None if np.isnan(time) else time,
        size if np.isfinite(size) else None,
        float(np.median(scores)),
        followed,
    )


def _followed(errors: np.ndarray, half: np.ndarray) -> int | None:
    """Return the first row from which on most errors are within the half of what they would have been."""
    within = errors <= half
    for row in range(1, len(errors)):
        if within[row] and within[row:].mean() > 0.5:
            return row
    return None
