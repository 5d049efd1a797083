"""The HTML page of a fleet's run, from the files of its directory: `write_fleet_report`."""

import json
from pathlib import Path

import polars as pl

from streamgp.data.files import write_aside
from streamgp.reports.fleet_page import render_fleet
from streamgp.reports.pages.fleet import COLUMNS
from streamgp.reports.pages.stream import scan


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
    predictions = scan(directory / "predictions.parquet", COLUMNS, optional=("time",))
    scores = pl.DataFrame(metrics["keys"], infer_schema_length=None)
    write_aside(directory / "report.html", render_fleet(metrics, predictions, scores))
    return directory / "report.html"
