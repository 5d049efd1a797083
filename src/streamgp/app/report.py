"""One self-contained HTML page about a finished (or interrupted) run: `write_report`."""

import json
from pathlib import Path
from typing import Any

import streamgp
from streamgp.app import wording
from streamgp.app.outputs import RULE, WEIGHTS_KEPT, write_aside
from streamgp.app.pages import alarms, classification, expert_weights, local_models, regression
from streamgp.app.pages.stream import mean_weights, must_exist, scan, span_of
from streamgp.app.palette import PALETTE
from streamgp.filters.noise import CONSTANT

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
    try:
        from streamgp.app import figures, maps, templating
    except ImportError as error:
        raise ImportError('The report needs matplotlib and jinja2: pip install "streamgp[plots]".') from error
    metrics = _read_metrics(directory / "metrics.json")
    page_of = classification if metrics["task"] in classification.SCORES else regression
    columns, optional = page_of.columns(metrics)
    predictions = scan(directory / "predictions.parquet", columns, optional=("time", *optional))
    span = figures.Rows(*span_of(predictions, metrics["warmup"]))
    # Experts predict from the end of the warm-up on: before it there are no weights, nor columns for them.
    names = [e["name"] for e in metrics["experts"]] if metrics["scored_rows"] >= (metrics["horizon"] or 1) else []
    names += [RULE + rule["name"] for rule in metrics["rules"] if names]
    weights = scan(directory / "weights.parquet", ("row", *names), empty=not names)
    bins = mean_weights(weights, predictions, metrics["warmup"])

    page = templating.render(
        page_of.TEMPLATE,
        m=metrics,
        version=streamgp.__version__,
        palette=PALETTE,
        headline=wording.headline(metrics),
        baselines=wording.baselines(metrics),
        last_value=wording.last_value(metrics),
        weights_kept=WEIGHTS_KEPT,
        **page_of.along_the_stream(figures, predictions, metrics, span),
        **page_of.calibration(figures, predictions, metrics),
        **alarms.changes(bins, metrics),
        **expert_weights.experts(figures, bins, metrics, span),
        **expert_weights.rules(figures, bins, metrics, span),
        **local_models.local_models(maps, metrics),
    )
    write_aside(directory / "report.html", page)
    return directory / "report.html"


def _read_metrics(path: Path) -> dict[str, Any]:
    """Return the run's metrics, with every non-finite number as None and the optional keys filled in."""
    must_exist(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except ValueError as error:
        raise ValueError(f"{path}: expected the JSON of a run, but {error}; use `streamgp run` again.") from error
    experts = raw.get("experts") if isinstance(raw, dict) else None
    task = raw.get("task", "regression") if isinstance(raw, dict) else "regression"
    wanted = [(raw, (*_RUN, *(classification.SCORES | regression.SCORES)[task]))] + [
        (expert, _EXPERT) for expert in experts or []
    ]
    missing = [key for entry, keys in wanted for key in keys if not (isinstance(entry, dict) and key in entry)]
    if missing:
        raise ValueError(f"{path}: expected an entry {missing[0]!r}, found none; use `streamgp run` again.")
    optional = {
        "task": "regression",
        "skipped_rows": 0,
        "imputed_values": 0,
        "unlabelled_rows": 0,
        "outside_rows": 0,
        "flagged_rows": 0,
        "interrupted": False,
        "stopped": None,
        "warnings": [],
        "by_target": {},
        "command": None,
        "rules": [],
        "models": [],
        "features": [],
        "horizon": None,
        "conformal": None,
        "alarms": None,
    }
    metrics = optional | raw
    metrics["experts"] = [{"noise": CONSTANT} | expert for expert in raw["experts"]]
    metrics["targets"] = raw.get("targets") or [raw.get("target") or "y"]
    return metrics
