"""`streamgp compare`: the scores of several runs on the rows that all of them have scored, and their differences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from streamgp.app.outputs import RunError
from streamgp.app.report import read_metrics
from streamgp.evaluation.metrics import paired_interval
from streamgp.evaluation.metrics.paired import differences
from streamgp.numerics.formats import plural
from streamgp.reports.comparison_page import best
from streamgp.reports.pages.stream import scan

COVERAGE = 0.95  # the coverage of the intervals of differences
# What is compared by kind of target, the first as the verdict; of all but pll, less is better.
_OF_NUMBERS = ("crps", "nmse", "mae", "pll")
SCORES = {
    "regression": _OF_NUMBERS,
    "count": _OF_NUMBERS,
    "classification": ("log_loss", "error_rate", "brier"),
    "ordinal": ("rps", "error_rate", "log_loss"),
}
_COLUMNS = {
    "regression": ("y", "mean", "q05", "q95", "crps", "log_density"),
    "count": ("y", "mean", "q05", "q95", "crps", "log_density"),
    "classification": ("y", "predicted", "brier", "log_density"),
    "ordinal": ("y", "predicted", "rps", "log_density"),
}


class Run(NamedTuple):
    """A run as it lies in its directory.

    Attributes
    ----------
    name
        The directory, as it was given.
    metrics
        As in ``metrics.json``.
    rows
        Row by row: its number in the file, the target, whether it was scored, and what its scores are made of.
    """

    name: str
    metrics: dict[str, Any]
    rows: pl.DataFrame


class RunComparison(NamedTuple):
    """What there is to say of several runs.

    Attributes
    ----------
    about
        All that is written as JSON.
    rows
        The rows of the file (n,) that are compared.
    losses
        Those of every run on them, (n,) each, by the names of the run and of the score.
    """

    about: dict[str, Any]
    rows: np.ndarray
    losses: dict[str, dict[str, np.ndarray]]


def compare_runs(directories: Sequence[Path]) -> RunComparison:
    """Compare runs of the same rows, each with the first.

    Parameters
    ----------
    directories
        At least two output directories of `streamgp run`.

    Raises
    ------
    RunError
        If one is no run, or the runs are not of the same target and rows.
    """
    named = [str(each) for each in directories]
    if len(directories) < 2 or len(set(named)) < len(named):
        raise RunError(f"RUN: expected two or more different directories of runs, got {', '.join(named)}")
    runs = [_read(each) for each in directories]
    for run in runs[1:]:
        _check_same(runs[0], run)
    scored = _scored_by_all(runs)
    task = runs[0].metrics["task"]
    each_rows = [run.rows.join(scored, on="row", how="semi", maintain_order="left") for run in runs]
    losses = {run.name: _losses(task, rows) for run, rows in zip(runs, each_rows, strict=True)}
    table = differences(losses, COVERAGE)
    about = {
        "task": task,
        "target": runs[0].metrics["targets"][0],
        "data": runs[0].metrics["data"],
        "scores": list(SCORES[task]),
        "coverage": COVERAGE,
        "rows": len(scored),
        "runs": [_described(run, losses[run.name], rows) for run, rows in zip(runs, each_rows, strict=True)],
        "differences": [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)],
        "notes": _notes(runs, len(scored)),
    }
    about["tied"] = _tied(about, losses)
    return RunComparison(about, scored["row"].to_numpy(), losses)


def _read(directory: Path) -> Run:
    """Return the run of a directory."""
    try:
        metrics = read_metrics(directory / "metrics.json")
        columns = _COLUMNS[metrics["task"]]
        frame = scan(directory / "predictions.parquet", ("row", *columns)).drop("position").collect()
    except (FileNotFoundError, ValueError) as error:
        raise RunError(str(error)) from error
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    frame = frame.with_columns(pl.col(name).fill_nan(None) for name in floats)
    labelled = pl.col("y").is_not_null()
    return Run(
        str(directory),
        metrics,
        frame.with_columns(scored=labelled & (labelled.cum_sum() > metrics["warmup"])).sort("row"),
    )


def _check_same(first: Run, run: Run) -> None:
    """Raise RunError unless two runs predicted the same targets."""
    for what, key in (("the task", "task"), ("the target", "targets")):
        one, other = first.metrics[key], run.metrics[key]
        if one != other:
            shown = [each if isinstance(each, str) else ", ".join(each) for each in (one, other)]
            raise RunError(
                f"{run.name}: expected {what} of {first.name}, {shown[0]}, got {shown[1]}; compare runs of the same "
                f"target"
            )
    both = first.rows.select("row", "y").join(run.rows.select("row", other="y"), on="row", maintain_order="left")
    if not len(both):
        raise RunError(
            f"{run.name}: expected rows of the file that {first.name} has, too, found none; compare runs of the "
            f"same data"
        )
    differ = both.filter(pl.col("y").ne_missing(pl.col("other")))
    if len(differ):
        row, one, other = differ.row(0)
        raise RunError(
            f"{run.name}: expected the targets of {first.name}, but that of row {row:,} is {other} and not {one}; "
            f"compare runs of the same data"
        )


def _scored_by_all(runs: Sequence[Run]) -> pl.DataFrame:
    """Return the rows that all runs have scored."""
    needed = [name for name in runs[0].rows.columns if name != "row"]
    each = [run.rows.filter("scored").drop_nulls(needed).select("row") for run in runs]
    rows = each[0]
    for other in each[1:]:
        rows = rows.join(other, on="row", how="semi", maintain_order="left")
    if not len(rows):
        raise RunError(
            f"{', '.join(run.name for run in runs)}: expected rows that all runs have scored, found none; their "
            f"warm-ups may be too long, or their rows others"
        )
    return rows


def _losses(task: str, rows: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return the scores of a run on each row, by name."""
    if task in ("classification", "ordinal"):
        own = "brier" if task == "classification" else "rps"
        wrong = (rows["y"] != rows["predicted"]).to_numpy().astype(float)
        found = {"error_rate": wrong, "log_loss": -rows["log_density"].to_numpy(), own: rows[own].to_numpy()}
    else:
        y = rows["y"].to_numpy().astype(float)
        error, variance = y - rows["mean"].to_numpy(), np.var(y)
        squared = np.square(error) / variance if variance > 0.0 else np.full(len(y), np.nan)
        found = {"nmse": squared, "mae": np.abs(error)}
        found |= {"crps": rows["crps"].to_numpy(), "pll": rows["log_density"].to_numpy()}
    return {name: found[name] for name in SCORES[task]}


def _tied(about: Mapping[str, Any], losses: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    """Return the runs that cannot be told apart from the best one, by the first of the scores."""
    score = about["scores"][0]
    name = best(about, score)
    if name is None:
        return []
    others = {other: of[score] for other, of in losses.items() if other != name}
    return [other for other, of in others.items() if not paired_interval(of, losses[name][score], COVERAGE).is_shown]


def _described(run: Run, losses: Mapping[str, np.ndarray], rows: pl.DataFrame) -> dict[str, Any]:
    """Return what the table says of a run: its model, its scores on the common rows, its speed and its command."""
    scores = {name: float(loss.mean()) for name, loss in losses.items()}
    if "q05" in rows.columns:
        inside = rows["y"].is_between(rows["q05"], rows["q95"])
        scores["coverage_90"] = float(inside.to_numpy().mean())
    metrics = run.metrics
    return {"run": run.name, "model": metrics["model"], **scores} | {
        name: metrics[name] for name in ("warmup", "horizon", "rows_per_second", "interrupted", "command")
    }


def _notes(runs: Sequence[Run], compared: int) -> list[str]:
    """Return what to know of the rows, each a sentence without its full stop."""
    found = [
        f"{run.name} scored {plural(more, 'row')} that are not compared, as another run did not score them"
        for run in runs
        if (more := int(run.rows["scored"].sum()) - compared)
    ]
    found += [f"{run.name} is not complete: {run.metrics['stopped']}" for run in runs if run.metrics["interrupted"]]
    if len({run.metrics["horizon"] for run in runs}) > 1:
        ahead = ", ".join(f"{run.name} {run.metrics['horizon'] or 1}" for run in runs)
        found.append(f"the runs predict by different numbers of rows ahead: {ahead}")
    if len({run.metrics["data"] for run in runs}) > 1:
        found.append(f"the files have different names: {', '.join(run.metrics['data'] for run in runs)}")
    return found
