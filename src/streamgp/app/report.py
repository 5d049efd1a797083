"""The HTML page about a finished (or interrupted) run, from the files of its directory: `write_report`."""

import json
from pathlib import Path
from typing import Any

from streamgp.filters.noise_kinds import CONSTANT
from streamgp.reports.pages.stream import must_exist, scan
from streamgp.reports.run_page import SCORES, page_of, render_run, weight_columns
from streamgp.table.files import write_aside

_RUN = ("model", "data", "rows", "warmup", "scored_rows", "seconds", "rows_per_second", "experts", "naive")
_EXPERT = ("name", "basis", "dynamics", "weight")


def write_report(directory: Path) -> Path:
    """Write ``report.html`` for the run whose results lie in `directory`, and return its path.

    Reads ``predictions.parquet``, ``weights.parquet`` and ``metrics.json``. The numbers are those of
    ``metrics.json``; the charts are summaries of the Parquet files, which are never in memory as a whole.
    With several targets the charts show the first. An earlier report is replaced only by a complete one.

    Parameters
    ----------
    directory
        The output directory of `streamgp run`.

    Raises
    ------
    ImportError
        If matplotlib or jinja2 is not installed.
    FileNotFoundError, ValueError
        If one of the three files is missing, or cannot be read as what it should be.
    """
    metrics = read_metrics(directory / "metrics.json")
    columns, optional = page_of(metrics).columns(metrics)
    predictions = scan(directory / "predictions.parquet", columns, optional=("time", *optional))
    # Experts predict from the end of the warm-up on: before it there are no weights, nor columns for them.
    path, names = directory / "weights.parquet", weight_columns(metrics)
    found = scan(path, ("row",), optional=tuple(names), empty=True).collect_schema().names()
    weighed = not set(names).isdisjoint(found)
    weights = scan(path, ("row", *(names if weighed else ())), empty=not weighed)
    write_aside(directory / "report.html", render_run(metrics, predictions, weights))
    return directory / "report.html"


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the metrics of a run of `streamgp run`, every non-finite number as None, the optional keys filled in.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is none of a run.
    """
    must_exist(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except ValueError as error:
        raise ValueError(f"{path}: expected the JSON of a run, but {error}; use `streamgp run` again.") from error
    experts = raw.get("experts") if isinstance(raw, dict) else None
    task = raw.get("task", "regression") if isinstance(raw, dict) else "regression"
    wanted = [(raw, (*_RUN, *SCORES[task]))] + [(expert, _EXPERT) for expert in experts or []]
    missing = [key for entry, keys in wanted for key in keys if not (isinstance(entry, dict) and key in entry)]
    if missing:
        raise ValueError(f"{path}: expected an entry {missing[0]!r}, found none; use `streamgp run` again.")
    optional = {
        "task": "regression",
        "skipped_rows": 0,
        "imputed_values": 0,
        "missed_steps": None,
        "unlabelled_rows": 0,
        "outside_rows": 0,
        "flagged_rows": 0,
        "interrupted": False,
        "stopped": None,
        "warnings": [],
        "by_target": {},
        "command": None,
        "python": False,
        "rules": [],
        "models": [],
        "features": [],
        "horizon": None,
        "conformal": None,
        "alarms": None,
        "importance": None,
        "lags": [],
        "judgement": None,
        "late_labels": None,
        "steps_ahead": None,
    }
    metrics = optional | raw
    metrics["experts"] = [{"noise": CONSTANT} | expert for expert in raw["experts"]]
    metrics["targets"] = raw.get("targets") or [raw.get("target") or "y"]
    return metrics
