"""One self-contained HTML page about a run or an evaluation: `render_run`."""

from typing import Any

import polars as pl

from streamgp.reports import verdicts, wording
from streamgp.reports.pages import (
    alarms,
    classification,
    expert_weights,
    importance,
    local_models,
    regression,
    steps,
)
from streamgp.reports.pages.stream import clock, mean_weights, span_of
from streamgp.reports.tables import RULE, WEIGHTS_KEPT

# The names of the scores of each task.
SCORES = classification.SCORES | regression.SCORES


def page_of(metrics: dict[str, Any]) -> Any:
    """Return the module of the pages of a task."""
    return classification if metrics["task"] in classification.SCORES else regression


def weight_columns(metrics: dict[str, Any]) -> list[str]:
    """Return the columns of the table of weights, of experts and of rules, that the page needs."""
    return [expert["name"] for expert in metrics["experts"]] + [RULE + rule["name"] for rule in metrics["rules"]]


def render_run(metrics: dict[str, Any], predictions: pl.LazyFrame, weights: pl.LazyFrame) -> bytes:
    """Return the page. The numbers are those of `metrics`; the charts sum up the tables, which are read lazily.

    With several targets the charts show the first.

    Parameters
    ----------
    metrics
        As in ``metrics.json``.
    predictions, weights
        As in the Parquet files, with the position of each row.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    """
    try:
        from streamgp.reports import figures, maps, templating
    except ImportError as error:
        raise ImportError("The report needs matplotlib and jinja2: pip install matplotlib jinja2.") from error
    page = page_of(metrics)
    span = figures.Rows(*span_of(predictions, metrics["warmup"]), clock(predictions))
    bins = mean_weights(weights, predictions, metrics["warmup"])
    return templating.render(
        page.TEMPLATE,
        m=metrics,
        weighed=len(weights.collect_schema()) > 2,
        headline=wording.headline(metrics),
        verdicts=verdicts.sentences(metrics),
        tile=verdicts.tile(metrics),
        last_value=wording.last_value(metrics),
        baselines={name: verdicts.heading(metrics, name) for name in metrics.get("naive") or {}},
        weights_kept=WEIGHTS_KEPT,
        **page.along_the_stream(figures, predictions, metrics, span),
        **page.calibration(figures, predictions, metrics),
        **steps.steps(figures, predictions, metrics),
        **alarms.changes(bins, metrics),
        **importance.inputs(metrics),
        **expert_weights.experts(figures, bins, metrics, span),
        **expert_weights.rules(figures, bins, metrics, span),
        **local_models.local_models(maps, metrics),
    )
