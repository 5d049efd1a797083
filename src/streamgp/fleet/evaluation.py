"""Test, then train: what a fleet predicted of rows before it learnt them, and how good that was."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from streamgp.data.files import write_aside
from streamgp.fleet import outputs
from streamgp.fleet.frames import with_columns
from streamgp.fleet.settings import FleetSettings
from streamgp.reports.fleet_page import render_fleet

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
    settings
        Of the fleet, with the names of the columns.
    """

    frame: Any
    metrics: dict[str, Any]
    scores: Any
    settings: FleetSettings

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a page about all keys: coverage and log density beside naive baselines, the worst keys, new ones.

        Raises
        ------
        ImportError
            If matplotlib or jinja2 is not installed (extra ``plots``).
        """
        s = self.settings
        names = {s.id_col: "key", s.target_col: "y"} | ({} if s.time_col is None else {s.time_col: "time"})
        rows, scores = (nw.from_native(frame, eager_only=True).to_polars() for frame in (self.frame, self.scores))
        page = render_fleet(
            {"target": s.target_col} | self.metrics, rows.lazy().rename(names), scores.rename({s.id_col: "key"})
        )
        write_aside(Path(path), page)
        return Path(path)


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
    found["warmup"] = int((~scored).sum())
    wide = {fleet.settings.target_col: table.y} | outputs.spread(values, good, len(table.keys))
    return with_columns(table, fleet.settings, wide), found


def warmup_rows(fleet: "StreamingGPFleet") -> int:
    """Return how many rows of the fleet were those of its warm-up, so far."""
    return 0 if fleet._engine is None else min(fleet._engine.fitted_at, fleet._engine.rows)
