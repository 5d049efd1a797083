"""The HTML page of a fleet, from its rows and its keys' scores: `render_fleet`."""

import html
from typing import Any

import polars as pl

from streamgp.fleet import page_content as fleet
from streamgp.numerics import formats
from streamgp.reports import verdicts, wording
from streamgp.reports.pages import steps


def render_fleet(metrics: dict[str, Any], predictions: pl.LazyFrame, scores: pl.DataFrame) -> bytes:
    """Render the page of a fleet: self-contained, and readable without its few lines of script.

    Parameters
    ----------
    metrics
        Of all rows, as ``metrics.json`` has them; without ``data``, ``command`` or ``warnings`` from Python.
    predictions
        The rows in their order, with the columns of `fleet.COLUMNS` and maybe ``time``.
    scores
        A row for every ``key``, as `StreamingGPFleet.scores` returns them.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    """
    try:
        from streamgp.fleet import figures as fleet_figures
        from streamgp.reports import figures, templating
    except ImportError as error:
        raise ImportError("The report needs matplotlib and jinja2: pip install matplotlib jinja2.") from error
    optional = {"data": None, "command": None, "warnings": [], "stopped": None, "interrupted": False, "alarms": None}
    optional |= {"python": "command" not in metrics, "steps_ahead": None}
    metrics = optional | {"target": "y", "skipped_rows": 0} | metrics
    rows = fleet.judged(predictions.drop(*steps.COLUMNS, strict=False), metrics["warmup"])
    keys = fleet.by_key(rows, scores)
    ranked = keys.sort("gain", "pll", nulls_last=True, maintain_order=True)
    judged = keys.filter(pl.col("gain").is_not_null())
    scored = keys.filter(pl.col("scored") >= fleet.MIN_ROWS)
    off = wording.miscalibrated_bands(metrics["coverage"], metrics["scored_rows"]) if metrics["scored_rows"] else []
    content: dict[str, Any] = {"strip": None, "coverage_chart": None, "gains_chart": None}
    if metrics["scored_rows"]:
        cells = fleet.strip(rows, ranked)
        content |= {"strip": fleet_figures.strip(cells), "lines": len(cells), "span": _ends(rows)}
    if len(scored):
        content["coverage_chart"] = fleet_figures.coverage(scored)
    if len(judged):
        content["gains_chart"] = fleet_figures.gains(judged)
    worst = [
        each | {"chart": fleet_figures.last_rows(_recent(rows, each["key"]), html.escape(each["key"]), number)}
        for number, each in enumerate(ranked.filter(pl.col("gain").is_not_null()).head(fleet.WORST).to_dicts())
    ]
    lately = fleet.comings_and_goings(keys, rows)
    return templating.render(
        "fleet.html",
        m=metrics,
        headline=headline(metrics, len(keys)),
        off_text=wording.describe_bands(off),
        verdict=fleet.verdict(keys),
        against=fleet.against(keys),
        key_verdict=key_verdict,
        judged=len(judged),
        worst=worst,
        when=lambda value: fleet.time_text(rows, value),
        keys=ranked.head(fleet.LISTED).to_dicts(),
        total=len(keys),
        grouped="group" in keys.columns,
        few=fleet.MIN_ROWS,
        recently=fleet.RECENTLY,
        target=metrics["target"],
        **steps.steps(figures, predictions, metrics),
        **content,
        **lately,
    )


def key_verdict(key: dict[str, Any]) -> str:
    """Return how a key stands beside the better of its baselines, for a cell of a table."""
    found = verdicts.key_verdict(key.get("skill_low"), key.get("skill_high"))
    return formats.number(None) if found is None else verdicts.ALONE[found]


def headline(metrics: dict[str, Any], keys: int) -> str:
    """Return the result in a sentence."""
    if not metrics["scored_rows"]:
        return f"Nothing to score yet: {formats.plural(metrics['rows'], 'row')} of {formats.plural(keys, 'key')}."
    return (
        f"On {formats.plural(metrics['scored_rows'], 'row')} of {formats.plural(keys, 'key')}, each predicted before "
        f"its target was seen, the 90% intervals covered {formats.share(metrics['coverage']['90'])} of the targets."
    )


def _ends(rows: pl.DataFrame) -> tuple[str, str]:
    """Return the first and the last time as text."""
    ends: list[Any] = [rows["when"].min(), rows["when"].max()]
    return fleet.time_text(rows, ends[0]), fleet.time_text(rows, ends[1])


def _recent(rows: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return the last rows of a key after the warm-up, by their numbers among these."""
    mine = rows.filter((pl.col("key") == key) & pl.col("fitted"))
    return mine.with_columns(row=pl.int_range(pl.len())).tail(fleet.RECENT)
