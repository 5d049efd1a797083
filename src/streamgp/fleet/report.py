"""The report of a fleet's run: lines on the terminal, and the HTML page from the files of its directory."""

import json
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from streamgp.fleet.page import render_fleet
from streamgp.fleet.page_content import COLUMNS
from streamgp.numerics.formats import number, plural, share
from streamgp.reports import step_verdict, verdicts
from streamgp.reports.pages import steps
from streamgp.reports.pages.stream import scan
from streamgp.reports.wording import alarm_lines
from streamgp.table.files import write_aside


def write_fleet_report(directory: Path) -> Path:
    """Write ``report.html`` for the fleet whose results lie in `directory`, and return its path.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    FileNotFoundError, ValueError
        If a file is missing, or cannot be read as what it should be.
    """
    metrics = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    predictions = scan(directory / "predictions.parquet", COLUMNS, optional=("time", *steps.COLUMNS))
    scores = pl.DataFrame(metrics["keys"], infer_schema_length=None)
    write_aside(directory / "report.html", render_fleet(metrics, predictions, scores))
    return directory / "report.html"


def print_fleet(metrics: dict[str, Any], to_stderr: bool) -> None:
    """Print what a fleet found: a sentence, its scores, on how many keys it beats the baselines, its speed."""
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    keys = metrics["keys"]
    console.print(
        f"{plural(metrics['rows'], 'row')} of {plural(len(keys), 'key')}, {metrics['scored_rows']:,} scored"
    )
    if metrics["scored_rows"]:
        console.print(
            f"nMSE {number(metrics['nmse'])} (median over keys), mean log density {number(metrics['pll'])}, CRPS "
            f"{number(metrics['crps'])}, {share(metrics['coverage']['90'])} of the targets in bands of 90%"
        )
        if verdict := verdicts.of_keys([(key["skill_low"], key["skill_high"]) for key in keys if key["scored_rows"]]):
            console.print(verdict["text"], markup=False)
    for by_step in step_verdict.sentences(metrics):
        console.print(by_step["text"], markup=False)
    for line in alarm_lines(metrics["alarms"], of_keys=True):
        console.print(line, markup=False)
    if metrics["rows_per_second"] is not None:
        console.print(f"{metrics['rows_per_second']:,.0f} rows a second")
    for warning in metrics["warnings"]:
        console.print(f"note: {warning}", markup=False)
