"""Test, then train: what a fleet predicted of rows before it learnt them, and how good that was."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.fleet import outputs
from streamgp.fleet.frames import with_columns

if TYPE_CHECKING:
    from streamgp.fleet.fleet import StreamingGPFleet


@dataclass(frozen=True)
class FleetEvaluation:
    """What `StreamingGPFleet.evaluate` found.

    Attributes
    ----------
    frame
        The key, time and target of every row, what was predicted of it before it was learnt, and its log density and
        CRPS.
    metrics
        Scores over the rows after the warm-up.
    scores
        By key, as `StreamingGPFleet.scores` returns them.
    """

    frame: Any
    metrics: dict[str, Any]
    scores: Any


def tested(fleet: "StreamingGPFleet", frame: Any) -> tuple[Any, dict[str, Any]]:
    """Predict every row before its target is seen, score it, then learn it.

    Returns
    -------
    frame, metrics
        As those of a `FleetEvaluation`.
    """
    was_provisional = 0 if fleet._engine is None else fleet._engine.rows
    table, good, outcome = fleet._learn(frame, "evaluate")
    assert table.y is not None and fleet._engine is not None
    values = outputs.predictions(outcome.mixture)
    crps, level = outputs.judge(outcome.mixture, table.y[good])
    values |= {"log_density": outcome.log_density, "crps": crps}
    scored = was_provisional + np.arange(len(good)) >= fleet._engine.fitted_at
    found = outputs.metrics(values, table.y[good], level, scored)
    wide = {fleet.settings.target_col: table.y} | outputs.spread(values, good, len(table.keys))
    return with_columns(table, fleet.settings, wide), found
