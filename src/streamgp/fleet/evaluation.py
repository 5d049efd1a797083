"""Test-then-train evaluation of a fleet: its predictions of rows before it learnt them, and their scores."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.evaluation.columns import columns_of_steps
from streamgp.fleet import outputs
from streamgp.fleet.frames import FleetColumns, Key, with_columns
from streamgp.fleet.learner import FleetLearner
from streamgp.fleet.page import render_fleet
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.steps_ahead import FleetStepsAhead
from streamgp.table.files import write_aside


class TestedRows(NamedTuple):
    """What `streamgp.fleet.alarms` needs of rows that were predicted before they were learnt.

    Attributes
    ----------
    keys, times
        Of each row of the frame (n); times are None without a time column.
    good
        The numbers of the m rows that were learnt; the others were left out.
    y, mean
        The targets of these, and the means predicted of them.
    pit
        The level of the predictive distribution at which each came; NaN where there is none.
    log_density
        Of each.
    fitted
        Whether the fitted fleet predicted the row. Those of the warm-up only teach what is usual.
    """

    keys: list[Key | None]
    times: Float[np.ndarray, " n"] | None
    good: Int[np.ndarray, " m"]
    y: Float[np.ndarray, " m"]
    mean: Float[np.ndarray, " m"]
    pit: Float[np.ndarray, " m"]
    log_density: Float[np.ndarray, " m"]
    fitted: Bool[np.ndarray, " m"]


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
    rows, columns
        What `streamgp.fleet.alarms` needs.
    """

    frame: Any
    metrics: dict[str, Any]
    scores: Any
    settings: FleetSettings
    rows: TestedRows = field(repr=False)
    columns: FleetColumns = field(repr=False)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a page about all keys: coverage and log density beside naive baselines, the worst keys, new ones.

        Raises
        ------
        ImportError
            If matplotlib or jinja2 is not installed.
        """
        s = self.settings
        names = {s.id_col: "key", s.target_col: "y"} | ({} if s.time_col is None else {s.time_col: "time"})
        rows, scores = (nw.from_native(frame, eager_only=True).to_polars() for frame in (self.frame, self.scores))
        page = render_fleet(
            {"target": s.target_col} | self.metrics, rows.lazy().rename(names), scores.rename({s.id_col: "key"})
        )
        write_aside(Path(path), page)
        return Path(path)


def tested(
    learner: FleetLearner, frame: Any, ahead: FleetStepsAhead | None = None
) -> tuple[Any, dict[str, Any], TestedRows, FleetColumns]:
    """Predict every row before its target is seen, score it, then learn it; with `ahead`, several rows before too.

    Returns
    -------
    frame, metrics, rows, columns
        As those of a `FleetEvaluation`.
    """
    table, good, outcome, scored = learner.learn(frame, "evaluate", ahead)
    assert table.y is not None
    settings = learner.settings
    target = settings.target_map
    values = outputs.predictions(outcome.mixture, target)
    crps, level = outputs.judge(outcome.mixture, table.y[good], target)
    values |= {"log_density": outcome.log_density, "crps": crps}
    found = outputs.metrics(values, table.y[good], level, scored)
    found["warmup"] = int((~scored).sum())
    wide = {settings.target_col: table.y} | outputs.spread(values, good, len(table.keys))
    if outcome.ahead is not None:
        of_steps = columns_of_steps(outcome.ahead, [settings.target_col])
        step = np.zeros(len(table.keys), np.int64)
        step[good] = of_steps.pop("step")
        wide |= {"step": step} | outputs.spread(of_steps, good, len(table.keys))
    rows = TestedRows(
        table.keys, table.times, good, table.y[good], np.asarray(values["mean"]), level, outcome.log_density, scored
    )
    return with_columns(table, settings, wide), found, rows, table.columns
