"""The records behind alarms: rows that were predicted and scored, hits of tests, and alarms."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from streamgp.evaluation.error_tests import LARGEST
from streamgp.evaluation.move_tests import MovedRows
from streamgp.evaluation.references import KINDS as REFERENCES
from streamgp.evaluation.references import Experts, references


@dataclass(frozen=True)
class Alarm:
    """A change that was found.

    Attributes
    ----------
    kind
        ``level``, ``scale``, ``dependence`` or ``shape`` of the errors, ``slope`` of the targets beside what is
        predicted, ``score`` against naive forecasts, ``stuck`` or ``silence``; ``coverage`` of a group of rows.
    row, time
        The row at which it was found, and its time if rows have one.
    since
        The row at which it probably began: where the evidence is largest.
    evidence
        The sum of bets that the test had come to: under no change its mean is the number of rows since the last
        alarm, or less.
    sentence
        What has changed.
    target
        Which target; None of all together.
    since_time
        The time of the row `since`, where it is known: of sudden changes.
    size
        Of a level that moved suddenly, by how much; of a slope and of errors, how many times as large they are; of
        coverage, the share held.
    followed
        After how many rows the model had followed a sudden change; None: it had not yet, or the change is no such.
    """

    kind: str
    row: int
    time: float | None
    since: int
    evidence: float
    sentence: str
    target: str | None
    since_time: float | None = None
    size: float | None = None
    followed: int | None = None


@dataclass(frozen=True)
class AlarmRows:
    """Rows as they are tested."""

    rows: Float[np.ndarray, " n"]
    y: Float[np.ndarray, "n e"]
    u: Float[np.ndarray, "n e"]
    log_density: Float[np.ndarray, " n"]
    times: Float[np.ndarray, " n"] | None
    tested: bool
    mean: Float[np.ndarray, "n e"]
    experts: Experts | None

    def part(self, where: slice) -> "AlarmRows":
        """Return some of the rows."""
        times = None if self.times is None else self.times[where]
        experts = None if self.experts is None else self.experts.take(where)
        given = {name: getattr(self, name)[where] for name in ("rows", "y", "u", "log_density", "mean")}
        return replace(self, **given, times=times, experts=experts)


@dataclass(frozen=True)
class Hit:
    """Evidence that has reached the limit: at which place of the rows, of which test."""

    place: int
    log_sum: float
    kind: str
    target: int | None
    sequence: int
    sudden: bool = False


def moved_rows(
    block: AlarmRows,
    e: int,
    earlier: list[Float[np.ndarray, "n k"]],
    steady: Bool[np.ndarray, " s"],
    repeats: Bool[np.ndarray, " n"],
    places: np.ndarray,
) -> tuple[np.ndarray, MovedRows]:
    """Return the places that the tests of sudden changes look at, and what they see there, of a target.

    `earlier` are the weights of the experts a while before each row, by mixture; `steady` marks experts, `repeats`
    targets that are the same as the one before.
    """
    y, mean = block.y[:, e], block.mean[:, e]
    if block.experts is None:
        scores = np.clip(ndtri(block.u[:, [e] * REFERENCES]), -LARGEST, LARGEST)
        off = np.repeat((y - mean)[:, None], REFERENCES, axis=1)
    else:
        own = min(e, len(earlier) - 1)
        part = block.experts.parts[own]
        means, deviations = references(part, e if len(earlier) == 1 else 0, earlier[own], steady)
        off = y[:, None] - means
        scores = off / deviations
    places = places[np.isfinite(scores[places]).all(axis=1)]
    times = None if block.times is None else block.times[places]
    rows = MovedRows(
        block.rows[places], times, (y - mean)[places], mean[places], off[places], scores[places], repeats[places]
    )
    return places, rows
